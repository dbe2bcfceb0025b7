"""Mistral's chat completions as ``vibe`` speaks them.

Mistral has no quota headers and three different error shapes; ``vibe`` copies status and body
into its stderr text, so the bodies here are what a driver's error table is tested with. CREDIT is
a guess: the real answer to a spent budget was never seen. POLICY is as FailoverBench tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web

from . import ids
from .plan import REFUSAL, Answer, plan
from .reading import tools_of, turns_of
from .scenario import Ask, Scenario, State, ask_of
from .stream import Cut, MidStreamError, Sse, before_head, hang_if, linger, paced

_FINISH = {"stop": "stop", "length": "length", "tool": "tool_calls", "refusal": "stop"}
_LONG = 64  # letters of arguments from which on they come in fragments

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
    "POLICY": (
        400,
        {
            "message": "Your request was rejected as a result of our safety system.",
            "type": "invalid_request_error",
            "code": "content_policy_violation",
        },
    ),
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
    scenario = state.choose("mistral", ask)
    failed = await before_head(request, scenario) or failure(scenario, body)
    if failed is not None:
        return failed
    answer = _spoken(plan(scenario, ask))
    calls = calls_of(answer, ask.length)
    if not body.get("stream"):
        return web.json_response(whole(_head(body, state), answer, state, calls))
    sse = Sse(request, state.pace_s)
    await sse.open({})
    await hang_if(scenario)
    try:
        await _stream(sse, scenario, _head(body, state), answer, state, calls)
    except MidStreamError:
        await sse.send({"object": "error", "message": "boom", "type": "internal_server_error"})
        raise Cut from None
    return await sse.close()


def read(body: Mapping[str, Any]) -> Ask:
    return ask_of(turns_of("mistral", body), tools_of("mistral", body))


def _spoken(answer: Answer) -> Answer:
    """Mistral knows no refusal but the model's own words."""
    if answer.finish != "refusal" or answer.pieces:
        return answer
    return replace(answer, pieces=(REFUSAL,))


def failure(scenario: Scenario, body: Mapping[str, Any]) -> web.Response | None:
    if scenario.name == "AUTH":
        return web.json_response({"detail": "Unauthorized"}, status=401)
    if scenario.name == "MODEL":
        message = f"Invalid model: {body.get('model')}"
        return _error(400, {"message": message, "type": "invalid_model", "code": "1500"})
    if scenario.name in _ERRORS:
        status, error = _ERRORS[scenario.name]
        answer = _error(status, error)
        if scenario.name == "THROTTLE" and scenario.arg:
            answer.headers["retry-after"] = scenario.arg
        return answer
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


def calls_of(answer: Answer, length: int) -> list[dict[str, Any]]:
    return [
        {
            "index": number,
            "id": call.id or ids.mistral(length, number),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for number, call in enumerate(answer.calls)
    ]


def _fragments(answer: Answer, calls: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One delta a call. Long arguments go on in more, which name neither the tool nor the id
    again: the index alone joins them."""
    for call, said in zip(calls, answer.calls, strict=True):
        first, *others = said.fragments(1 if len(said.arguments) < _LONG else 3)
        yield call | {"function": {"name": said.name, "arguments": first}}
        for part in others:
            yield {"index": call["index"], "function": {"name": "", "arguments": part}}


def _head(body: Mapping[str, Any], state: State) -> dict[str, Any]:
    return {"id": state.new_id("cmpl-mock"), "created": 1, "model": body.get("model")}


def whole(
    head: Mapping[str, Any], answer: Answer, state: State, calls: list[dict[str, Any]]
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _FINISH[answer.finish]}
    return {
        **head,
        "object": "chat.completion",
        "choices": [choice],
        "usage": _usage(state),
    }


def _chunk(
    head: Mapping[str, Any], delta: Mapping[str, Any], finish: str | None = None
) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {
        **head,
        "object": "chat.completion.chunk",
        "choices": [choice],
    }


async def _stream(
    sse: Sse,
    scenario: Scenario,
    head: Mapping[str, Any],
    answer: Answer,
    state: State,
    calls: list[dict[str, Any]],
) -> None:
    await sse.send(_chunk(head, {"role": "assistant", "content": ""}))
    for piece in answer.thinking:
        inner = [{"type": "text", "text": piece}]
        await sse.send(_chunk(head, {"content": [{"type": "thinking", "thinking": inner}]}))
    async for piece in paced(sse, scenario, answer.pieces):
        await sse.send(_chunk(head, {"content": piece}))
    for fragment in _fragments(answer, calls):
        await sse.send(_chunk(head, {"tool_calls": [fragment]}))
    await linger(scenario)
    if scenario.name == "ENDS":
        return
    last = _chunk(head, {"content": ""}, _FINISH[answer.finish])
    await sse.send(last | {"usage": _usage(state)})
    if scenario.name != "NODONE":
        await sse.send("[DONE]")
