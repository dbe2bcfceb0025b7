"""OpenAI's Responses API as ``codex`` speaks it.

Codex tells a used-up plan (``usage_limit_reached`` with a reset time) from missing credit and
from a passing throttle by the error's type and code, so each has its own body here, and a context
overflow comes as a failed response inside a good stream, as the real API sends it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .scenario import Answer, Ask, Call, Quota, Scenario, State, plan
from .stream import MidStreamError, Sse, hang_if, paced

CONTEXT_MESSAGE = (
    "Your input exceeds the context window of this model. Please adjust your input and try again."
)

_ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "THROTTLE": (
        429,
        {
            "type": "requests",
            "code": "rate_limit_exceeded",
            "message": "Rate limit reached for requests. Please try again in 20s.",
        },
    ),
    "CREDIT": (
        429,
        {
            "type": "insufficient_quota",
            "code": "insufficient_quota",
            "message": "You exceeded your current quota, please check your plan and billing.",
        },
    ),
    "OVERLOADED": (503, {"type": "server_error", "message": "overloaded"}),
    "ERROR500": (500, {"type": "server_error", "message": "The server had an error."}),
    "AUTH": (
        401,
        {
            "type": "invalid_request_error",
            "code": "invalid_api_key",
            "message": "Incorrect API key provided",
        },
    ),
    "BADREQ": (400, {"type": "invalid_request_error", "code": None, "message": "bad thing"}),
}


async def responses(request: web.Request, state: State) -> web.StreamResponse:
    body = await request.json()
    ask = read(body)
    scenario = state.choose("openai", ask.user_text)
    failed = failure(scenario, body, state.quota)
    if failed is not None:
        return failed
    sse = Sse(request)
    await sse.open(limit_headers(state.quota))
    writer = _Writer(sse, body, state)
    try:
        await writer.run(scenario, plan(scenario, ask))
    except MidStreamError:
        await writer.failed("server_error", "boom")
    return await sse.close()


def read(body: Mapping[str, Any]) -> Ask:
    items = body.get("input") or []
    if isinstance(items, str):
        return Ask(user_text=items)
    spoken = [n for n, item in enumerate(items) if item.get("role") == "user" and _text(item)]
    last = spoken[-1] if spoken else -1
    outputs = [i for i in items[last + 1 :] if str(i.get("type")).endswith("_call_output")]
    return Ask(
        user_text=_text(items[last]) if spoken else "",
        tool_results="\n".join(_flat(i.get("output")) for i in outputs) if outputs else None,
    )


def _text(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    return content if isinstance(content, str) else _flat(content or [])


def _flat(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(c["text"]) for c in content if "text" in c)
    return content if isinstance(content, str) else json.dumps(content)


def limit_headers(quota: Quota) -> dict[str, str]:
    return {
        "x-codex-primary-used-percent": f"{quota.five_hour * 100:g}",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-after-seconds": str(int(quota.resets_in)),
        "x-codex-secondary-used-percent": f"{quota.seven_day * 100:g}",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-after-seconds": str(3 * 86400),
    }


def failure(scenario: Scenario, body: Mapping[str, Any], quota: Quota) -> web.Response | None:
    if scenario.name == "QUOTA":
        return _error(429, _usage_limit(quota), limit_headers(quota))
    if scenario.name == "MODEL":
        return _no_model(scenario, body)
    if scenario.name == "CONTEXT" and scenario.arg == "400":
        return _error(
            400,
            {
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
                "message": CONTEXT_MESSAGE,
            },
        )
    if scenario.name in _ERRORS:
        status, error = _ERRORS[scenario.name]
        return _error(status, error)
    return None


def _usage_limit(quota: Quota) -> dict[str, Any]:
    return {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "plus",
        "resets_at": int(time.time() + quota.resets_in),
        "resets_in_seconds": int(quota.resets_in),
    }


def _no_model(scenario: Scenario, body: Mapping[str, Any]) -> web.Response:
    model = body.get("model")
    if scenario.arg == "chatgpt":  # what a ChatGPT login gets instead of a 404
        detail = f"The '{model}' model is not supported when using Codex with a ChatGPT account."
        return web.json_response({"detail": detail}, status=400)
    message = f"The model `{model}` does not exist or you do not have access to it."
    error = {"type": "invalid_request_error", "code": "model_not_found", "message": message}
    return _error(404, error)


def _error(
    status: int, error: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.json_response({"error": dict(error)}, status=status, headers=headers)


class _Writer:
    """One response as a stream of events."""

    def __init__(self, sse: Sse, body: Mapping[str, Any], state: State) -> None:
        self._sse = sse
        self._body = body
        self._state = state
        self._index = 0

    async def _send(self, kind: str, **fields: Any) -> None:
        await self._sse.send({"type": kind, **fields}, kind)

    async def _item(self, stage: str, item: Mapping[str, Any]) -> None:
        await self._send(f"response.output_item.{stage}", output_index=self._index, item=dict(item))

    async def failed(self, code: str, message: str) -> None:
        error = {"code": code, "message": message}
        response = {"id": "resp_mock", "status": "failed", "error": error}
        await self._send("response.failed", response=response)

    async def run(self, scenario: Scenario, answer: Answer) -> None:
        created = {"id": "resp_mock", "model": self._body.get("model")}
        await self._send("response.created", response=created)
        await hang_if(scenario)
        if scenario.name == "CONTEXT":
            await self.failed("context_length_exceeded", CONTEXT_MESSAGE)
            return
        if answer.thinking:
            await self._reasoning(answer.thinking)
        if answer.pieces:
            await self._message(scenario, answer)
        for call in answer.calls:
            await self._call(call)
        await self._end(answer)

    async def _reasoning(self, pieces: tuple[str, ...]) -> None:
        head = {"type": "reasoning", "id": "rs_mock", "summary": []}
        await self._item("added", head)
        where = {"item_id": "rs_mock", "output_index": self._index, "summary_index": 0}
        await self._send("response.reasoning_summary_part.added", **where)
        for piece in pieces:
            await self._send("response.reasoning_summary_text.delta", **where, delta=piece)
        summary = [{"type": "summary_text", "text": "".join(pieces)}]
        await self._item("done", head | {"summary": summary})
        self._index += 1

    async def _message(self, scenario: Scenario, answer: Answer) -> None:
        head = {"type": "message", "role": "assistant", "id": "msg_mock", "content": []}
        await self._item("added", head)
        where = {"item_id": "msg_mock", "output_index": self._index, "content_index": 0}
        async for piece in paced(scenario, answer.pieces):
            await self._send("response.output_text.delta", **where, delta=piece)
        content = [{"type": "output_text", "text": answer.text}]
        await self._item("done", head | {"content": content})
        self._index += 1

    async def _call(self, call: Call) -> None:
        common = {"id": f"fc_{self._index}", "call_id": f"call_{self._index}", "name": call.name}
        if call.name in _custom_tools(self._body):
            given = call.args.get("input") or json.dumps(call.args)
            item = {"type": "custom_tool_call", **common, "input": given}
        else:
            item = {"type": "function_call", **common, "arguments": json.dumps(call.args)}
        await self._item("done", item)
        self._index += 1

    async def _end(self, answer: Answer) -> None:
        usage = self._state.usage
        counts = {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        response: dict[str, Any] = {"id": "resp_mock", "usage": counts}
        if answer.finish == "length":
            response |= {"incomplete_details": {"reason": "max_output_tokens"}}
            await self._send("response.incomplete", response=response)
        else:
            await self._send("response.completed", response=response)


def _custom_tools(body: Mapping[str, Any]) -> set[str]:
    """Tools that take plain text; newer models get theirs inside an input item, in namespaces."""
    offered = list(body.get("tools") or [])
    items = body.get("input") or []
    if isinstance(items, list):
        offered += [tool for item in items for tool in item.get("tools") or []]
    offered += [tool for outer in offered for tool in outer.get("tools") or []]
    return {str(tool.get("name")) for tool in offered if tool.get("type") == "custom"}
