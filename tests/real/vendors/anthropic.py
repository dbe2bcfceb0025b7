"""Anthropic's Messages API as ``claude`` speaks it.

The unified rate-limit headers matter as much as the bodies: a 429 with them is a used-up
subscription, a 429 without them is a passing throttle, and the CLI reports the two differently.

``[[FAIL:{"status": 400, "message": "…", "type": "…", "headers": {…}}]]`` is any error at all, and
``[[RAW:[…]]]`` any stream: objects are sent as its events, a text as it stands, ``{"cut": true}``
drops the connection, ``{"wait": 0.5}`` lets time pass.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from . import ids
from .plan import Answer, Call, plan
from .reading import tools_of, turns_of
from .scenario import Ask, Quota, Scenario, State, ask_of
from .stream import CUT_PAUSE, Cut, MidStreamError, Sse, before_head, hang_if, linger, paced

STRUCTURED_TOOL = "StructuredOutput"
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use", "refusal": "refusal"}

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
    "POLICY": (400, "invalid_request_error", "Output blocked by content filtering policy"),
    "CONTEXT": (
        400,
        "invalid_request_error",
        "prompt is too long: 250000 tokens > 200000 maximum",
    ),
}


async def messages(request: web.Request, state: State) -> web.StreamResponse:
    body = await request.json()
    ask = read(body)
    scenario = state.choose("anthropic", ask)
    failed = await before_head(request, scenario) or failure(scenario, body, state.quota)
    if failed is not None:
        return failed
    answer = plan(scenario, ask)
    headers = limit_headers(state.quota)
    if not body.get("stream"):
        return web.json_response(whole(body, answer, state, ask.length), headers=headers)
    sse = Sse(request, state.pace_s)
    await sse.open(headers)
    if scenario.name == "RAW":
        await _raw(sse, json.loads(scenario.arg or "[]"), _envelope(body, state, 1))
        return await sse.close()
    try:
        writer = _Blocks(sse, ask.length)
        await _stream(writer, scenario, body, answer, state)
    except MidStreamError:
        error = {"type": "overloaded_error", "message": "Overloaded"}
        await sse.send({"type": "error", "error": error}, "error")
    return await sse.close()


async def count_tokens(request: web.Request, state: State) -> web.StreamResponse:
    return web.json_response({"input_tokens": state.usage.input_tokens})


def read(body: Mapping[str, Any]) -> Ask:
    turns = turns_of("anthropic", body)
    return ask_of(turns, tools_of("anthropic", body), STRUCTURED_TOOL)


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
    if scenario.name == "FAIL":
        told = json.loads(scenario.arg or "{}")
        kind = told.get("type", "invalid_request_error")
        return _error(told.get("status", 400), kind, told["message"], told.get("headers", {}))
    if scenario.name not in _ERRORS:
        return None
    status, kind, message = _ERRORS[scenario.name]
    headers: dict[str, str] = {}
    if scenario.name == "THROTTLE" and scenario.arg:
        headers = {"retry-after": scenario.arg}
    if scenario.name == "QUOTA":
        headers = limit_headers(quota, rejected=True)
        headers |= {"x-should-retry": "false", "retry-after": str(int(quota.resets_in))}
    return _error(status, kind, message, headers)


def _error(status: int, kind: str, message: str, headers: Mapping[str, str]) -> web.Response:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_mock"}
    return web.json_response(body, status=status, headers={"request-id": "req_mock", **headers})


async def _raw(sse: Sse, events: Sequence[Any], message: Mapping[str, Any]) -> None:
    await sse.send({"type": "message_start", "message": message}, "message_start")
    for event in events:
        if isinstance(event, str):
            await sse.write(event)
        elif "wait" in event:
            await asyncio.sleep(event["wait"])
        elif event.get("cut"):
            await asyncio.sleep(CUT_PAUSE)
            raise Cut
        else:
            await sse.send(event, event["type"])


def _usage(state: State, output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": state.usage.input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _envelope(body: Mapping[str, Any], state: State, output_tokens: int) -> dict[str, Any]:
    return {
        "id": state.new_id("msg_01mock"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(state, output_tokens),
    }


def whole(body: Mapping[str, Any], answer: Answer, state: State, length: int = 0) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    for number, call in enumerate(answer.calls):
        content.append(_tool_use(call, length, number) | {"input": call.args})
    reply = _envelope(body, state, state.usage.output_tokens)
    return reply | {"content": content, "stop_reason": _STOP[answer.finish]}


def _tool_use(call: Call, length: int, number: int) -> dict[str, Any]:
    ident = call.id or ids.anthropic(length, number)
    return {"type": "tool_use", "id": ident, "name": call.name, "input": {}}


async def _stream(
    writer: _Blocks, scenario: Scenario, body: Mapping[str, Any], answer: Answer, state: State
) -> None:
    await writer.send("message_start", message=_envelope(body, state, 1))
    await hang_if(scenario)
    if answer.thinking:
        await writer.begin({"type": "thinking", "thinking": "", "signature": ""})
        for piece in answer.thinking:
            await writer.delta({"type": "thinking_delta", "thinking": piece})
        await writer.delta({"type": "signature_delta", "signature": "bW9jaw=="})
        await writer.end()
    if answer.pieces:
        await writer.begin({"type": "text", "text": ""})
        async for piece in paced(writer.sse, scenario, answer.pieces, "content_block_delta"):
            await writer.delta({"type": "text_delta", "text": piece})
        await writer.end()
    for number, call in enumerate(answer.calls):
        await writer.tool_use(call, number)
    if scenario.name == "ENDS":
        return
    usage = {"output_tokens": state.usage.output_tokens}
    delta = {"stop_reason": _STOP[answer.finish], "stop_sequence": None}
    await writer.send("message_delta", delta=delta, usage=usage)
    await linger(scenario)
    if scenario.name != "NODONE":
        await writer.send("message_stop")


class _Blocks:
    """Content blocks in order, each with its index, in answer to so many turns."""

    def __init__(self, sse: Sse, length: int) -> None:
        self.sse = sse
        self._length = length
        self._index = 0

    async def send(self, kind: str, **fields: Any) -> None:
        await self.sse.send({"type": kind, **fields}, kind)

    async def _send(self, kind: str, **fields: Any) -> None:
        await self.send(kind, index=self._index, **fields)

    async def begin(self, block: Mapping[str, Any]) -> None:
        await self._send("content_block_start", content_block=dict(block))

    async def delta(self, delta: Mapping[str, Any]) -> None:
        await self._send("content_block_delta", delta=dict(delta))

    async def end(self) -> None:
        await self._send("content_block_stop")
        self._index += 1

    async def tool_use(self, call: Call, number: int) -> None:
        """The first delta of the arguments is empty, as Anthropic's is."""
        await self.begin(_tool_use(call, self._length, number))
        for part in ("", *call.fragments()):
            await self.delta({"type": "input_json_delta", "partial_json": part})
        await self.end()
