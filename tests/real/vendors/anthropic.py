"""Anthropic's Messages API as ``claude`` speaks it.

The unified rate-limit headers matter as much as the bodies: a 429 with them is a used-up
subscription, a 429 without them is a passing throttle, and the CLI reports the two differently.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .scenario import Answer, Ask, Quota, Scenario, State, plan
from .stream import MidStreamError, Sse, hang_if, paced

STRUCTURED_TOOL = "StructuredOutput"
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use"}

_ERRORS: dict[str, tuple[int, str, str]] = {
    "QUOTA": (429, "rate_limit_error", "This request would exceed your account's rate limit."),
    "THROTTLE": (429, "rate_limit_error", "This request would exceed your rate limit."),
    "CREDIT": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API.",
    ),
    "OVERLOADED": (529, "overloaded_error", "Overloaded"),
    "ERROR500": (500, "api_error", "Internal server error"),
    "AUTH": (401, "authentication_error", "invalid x-api-key"),
    "BADREQ": (400, "invalid_request_error", "messages: bad thing"),
    "CONTEXT": (
        400,
        "invalid_request_error",
        "prompt is too long: 250000 tokens > 200000 maximum",
    ),
}


async def messages(request: web.Request, state: State) -> web.StreamResponse:
    body = await request.json()
    ask = read(body)
    scenario = state.choose("anthropic", ask.user_text)
    failed = failure(scenario, body, state.quota)
    if failed is not None:
        return failed
    answer = plan(scenario, ask)
    headers = limit_headers(state.quota)
    if not body.get("stream"):
        return web.json_response(whole(body, answer, state), headers=headers)
    sse = Sse(request)
    await sse.open(headers)
    try:
        await _stream(sse, scenario, body, answer, state)
    except MidStreamError:
        error = {"type": "overloaded_error", "message": "Overloaded"}
        await sse.send({"type": "error", "error": error}, "error")
    return await sse.close()


async def count_tokens(request: web.Request, state: State) -> web.StreamResponse:
    return web.json_response({"input_tokens": state.usage.input_tokens})


def read(body: Mapping[str, Any]) -> Ask:
    turns = [m for m in body.get("messages", []) if m["role"] == "user"]
    text = next((t for t in (_text(m) for m in reversed(turns) if not _results(m)) if t), "")
    results = _results(turns[-1]) if turns else []
    names = [t.get("name") for t in body.get("tools") or []]
    return Ask(
        user_text=text,
        tool_results="\n".join(_flat(r.get("content")) for r in results) if results else None,
        structured_tool=STRUCTURED_TOOL if STRUCTURED_TOOL in names else None,
    )


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _text(message: Mapping[str, Any]) -> str:
    return "\n".join(b["text"] for b in _blocks(message) if b.get("type") == "text")


def _results(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [b for b in _blocks(message) if b.get("type") == "tool_result"]


def _flat(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(b.get("text", "")) for b in content)
    return str(content or "")


def limit_headers(quota: Quota, rejected: bool = False) -> dict[str, str]:
    status = "rejected" if rejected else "allowed"
    now = int(time.time())
    reset = str(now + int(quota.resets_in))
    prefix = "anthropic-ratelimit-unified"
    return {
        "request-id": "req_mock",
        f"{prefix}-status": status,
        f"{prefix}-reset": reset,
        f"{prefix}-representative-claim": "five_hour",
        f"{prefix}-5h-status": status,
        f"{prefix}-5h-reset": reset,
        f"{prefix}-5h-utilization": "1.0" if rejected else str(quota.five_hour),
        f"{prefix}-7d-status": "allowed",
        f"{prefix}-7d-reset": str(now + 3 * 86400),
        f"{prefix}-7d-utilization": str(quota.seven_day),
    }


def failure(scenario: Scenario, body: Mapping[str, Any], quota: Quota) -> web.Response | None:
    if scenario.name == "MODEL":
        return _error(404, "not_found_error", f"model: {body.get('model')}", {})
    if scenario.name not in _ERRORS:
        return None
    status, kind, message = _ERRORS[scenario.name]
    headers: dict[str, str] = {}
    if scenario.name == "QUOTA":
        headers = limit_headers(quota, rejected=True)
        headers |= {"x-should-retry": "false", "retry-after": str(int(quota.resets_in))}
    return _error(status, kind, message, headers)


def _error(status: int, kind: str, message: str, headers: Mapping[str, str]) -> web.Response:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_mock"}
    return web.json_response(body, status=status, headers={"request-id": "req_mock", **headers})


def _usage(state: State, output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": state.usage.input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _envelope(body: Mapping[str, Any], usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": "msg_mock",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": dict(usage),
    }


def whole(body: Mapping[str, Any], answer: Answer, state: State) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    for number, call in enumerate(answer.calls, 1):
        content.append(
            {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": call.args}
        )
    reply = _envelope(body, _usage(state, state.usage.output_tokens))
    return reply | {"content": content, "stop_reason": _STOP[answer.finish]}


async def _stream(
    sse: Sse, scenario: Scenario, body: Mapping[str, Any], answer: Answer, state: State
) -> None:
    start = {"type": "message_start", "message": _envelope(body, _usage(state, 1))}
    await sse.send(start, "message_start")
    await hang_if(scenario)
    writer = _Blocks(sse)
    if answer.thinking:
        await writer.begin({"type": "thinking", "thinking": "", "signature": ""})
        for piece in answer.thinking:
            await writer.delta({"type": "thinking_delta", "thinking": piece})
        await writer.delta({"type": "signature_delta", "signature": "bW9jaw=="})
        await writer.end()
    if answer.pieces:
        await writer.begin({"type": "text", "text": ""})
        async for piece in paced(scenario, answer.pieces):
            await writer.delta({"type": "text_delta", "text": piece})
        await writer.end()
    for call in answer.calls:
        await writer.tool_use(call.name, call.args)
    usage = {"output_tokens": state.usage.output_tokens}
    delta = {"stop_reason": _STOP[answer.finish], "stop_sequence": None}
    await sse.send({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta")
    await sse.send({"type": "message_stop"}, "message_stop")


class _Blocks:
    """Content blocks in order, each with its index."""

    def __init__(self, sse: Sse) -> None:
        self._sse = sse
        self._index = 0

    async def _send(self, kind: str, **fields: Any) -> None:
        await self._sse.send({"type": kind, "index": self._index, **fields}, kind)

    async def begin(self, block: Mapping[str, Any]) -> None:
        await self._send("content_block_start", content_block=dict(block))

    async def delta(self, delta: Mapping[str, Any]) -> None:
        await self._send("content_block_delta", delta=dict(delta))

    async def end(self) -> None:
        await self._send("content_block_stop")
        self._index += 1

    async def tool_use(self, name: str, args: Mapping[str, Any]) -> None:
        ident = f"toolu_{self._index + 1}"
        await self.begin({"type": "tool_use", "id": ident, "name": name, "input": {}})
        text = json.dumps(args)
        for part in (text[: len(text) // 2], text[len(text) // 2 :]):
            await self.delta({"type": "input_json_delta", "partial_json": part})
        await self.end()
