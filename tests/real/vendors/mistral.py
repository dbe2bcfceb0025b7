"""Mistral's chat completions as ``vibe`` speaks them.

Mistral has no quota headers and three different error shapes; ``vibe`` copies status and body
into its stderr text, so the bodies here are what a driver's error table is tested with. CREDIT is
a guess: the real answer to a spent budget was never seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .scenario import Answer, Ask, Scenario, State, plan
from .stream import Cut, MidStreamError, Sse, hang_if, paced

_FINISH = {"stop": "stop", "length": "length", "tool": "tool_calls"}

_LIMITED = {"message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"}
_ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "QUOTA": (429, _LIMITED),
    "THROTTLE": (429, _LIMITED),
    "CREDIT": (
        402,
        {"message": "You have reached your spending limit", "type": "payment_required"},
    ),
    "OVERLOADED": (503, {"message": "Service unavailable", "type": "internal"}),
    "ERROR500": (500, {"message": "Internal server error", "type": "internal_server_error"}),
    "BADREQ": (400, {"message": "bad thing", "type": "invalid_request"}),
    "CONTEXT": (
        400,
        {
            "message": "Prompt contains 250000 tokens and 0 draft tokens, too large for model "
            "with 131072 maximum context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
    ),
}


async def chat(request: web.Request, state: State) -> web.StreamResponse:
    body = await request.json()
    ask = read(body)
    scenario = state.choose("mistral", ask.user_text)
    failed = failure(scenario, body)
    if failed is not None:
        return failed
    answer = plan(scenario, ask)
    if not body.get("stream"):
        return web.json_response(whole(body, answer, state))
    sse = Sse(request)
    await sse.open({})
    await hang_if(scenario)
    try:
        await _stream(sse, scenario, body, answer, state)
    except MidStreamError:
        await sse.send({"object": "error", "message": "boom", "type": "internal_server_error"})
        raise Cut from None
    return await sse.close()


def read(body: Mapping[str, Any]) -> Ask:
    turns = list(body.get("messages") or [])
    spoken = [n for n, turn in enumerate(turns) if turn.get("role") == "user"]
    last = spoken[-1] if spoken else -1
    results = [_flat(t.get("content")) for t in turns[last + 1 :] if t.get("role") == "tool"]
    return Ask(
        user_text=_flat(turns[last].get("content")) if spoken else "",
        tool_results="\n".join(results) if results else None,
    )


def _flat(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(c["text"]) for c in content if "text" in c)
    return str(content or "")


def failure(scenario: Scenario, body: Mapping[str, Any]) -> web.Response | None:
    if scenario.name == "AUTH":
        return web.json_response({"detail": "Unauthorized"}, status=401)
    if scenario.name == "MODEL":
        message = f"Invalid model: {body.get('model')}"
        return _error(400, {"message": message, "type": "invalid_model", "code": "1500"})
    if scenario.name in _ERRORS:
        status, error = _ERRORS[scenario.name]
        return _error(status, error)
    return None


def _error(status: int, error: Mapping[str, Any]) -> web.Response:
    body = {"object": "error", "param": None, "code": None, **error}
    return web.json_response(body, status=status)


def _usage(state: State) -> dict[str, int]:
    usage = state.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "index": number,
            "id": f"mockcall{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.args)},
        }
        for number, call in enumerate(answer.calls)
    ]


def whole(body: Mapping[str, Any], answer: Answer, state: State) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _FINISH[answer.finish]}
    return {
        "id": "cmpl-mock",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model"),
        "choices": [choice],
        "usage": _usage(state),
    }


def _chunk(
    body: Mapping[str, Any], delta: Mapping[str, Any], finish: str | None = None
) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {
        "id": "cmpl-mock",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body.get("model"),
        "choices": [choice],
    }


async def _stream(
    sse: Sse, scenario: Scenario, body: Mapping[str, Any], answer: Answer, state: State
) -> None:
    await sse.send(_chunk(body, {"role": "assistant", "content": ""}))
    for piece in answer.thinking:
        inner = [{"type": "text", "text": piece}]
        await sse.send(_chunk(body, {"content": [{"type": "thinking", "thinking": inner}]}))
    async for piece in paced(scenario, answer.pieces):
        await sse.send(_chunk(body, {"content": piece}))
    if answer.calls:
        await sse.send(_chunk(body, {"tool_calls": _calls(answer)}))
    last = _chunk(body, {"content": ""}, _FINISH[answer.finish])
    await sse.send(last | {"usage": _usage(state)})
    await sse.send("[DONE]")
