"""A mock of the three vendors on loopback, for the isolation self-test.

It implements just enough of their APIs for the real CLIs, records every request, and can play a
model that calls tools. Nothing leaves this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from aiohttp import web

MAX_BODY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model; a `custom` tool takes its argument `input` as plain text."""

    name: str
    arguments: Mapping[str, Any]
    custom: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One received request."""

    path: str
    body: str


class MockVendor:
    """A mock vendor; use as `async with MockVendor(answer, calls) as vendor`.

    The first request to an API gets `calls`, keyed by the API's path, if there are any; all others
    get `answer`. `url` is the address, without a path.
    """

    def __init__(self, answer: str, calls: Mapping[str, Sequence[Call]] | None = None) -> None:
        self._answer = answer
        self._calls = dict(calls or {})
        self._runner: web.AppRunner | None = None
        self.asked: list[Asked] = []
        self.url = ""

    async def __aenter__(self) -> MockVendor:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def answered(self) -> list[Asked]:
        """The received requests for an answer, without other requests of a CLI."""
        return [asked for asked in self.asked if asked.path in _APIS]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(Asked(request.path, await request.text()))
        speak = _APIS.get(request.path)
        if request.method != "POST" or speak is None:
            return web.json_response({"error": {"message": "no such route"}}, status=404)
        calls = self._calls.pop(request.path, ())
        body = json.loads(self.asked[-1].body)
        events = speak(str(body.get("model")), "" if calls else self._answer, calls)
        text = "".join(_event(data) for data in events)
        return web.Response(text=text, content_type="text/event-stream")


def _event(data: Mapping[str, Any]) -> str:
    head = f"event: {data['type']}\n" if "type" in data else ""
    return f"{head}data: {json.dumps(data)}\n\n"


Events = list[dict[str, Any]]


def _anthropic(model: str, text: str, calls: Sequence[Call]) -> Events:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    message = head | {"stop_reason": None, "stop_sequence": None, "usage": usage}
    events: Events = [{"type": "message_start", "message": message}]
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            {"type": "tool_use", "id": f"toolu_{n}", "name": call.name, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)},
        )
        for n, call in enumerate(calls)
    ] or [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})]
    for index, (block, delta) in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def _openai(model: str, text: str, calls: Sequence[Call]) -> Events:
    items = [_openai_call(number, call) for number, call in enumerate(calls)]
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    done = [
        {"type": "response.output_item.done", "output_index": number, "item": item}
        for number, item in enumerate(items)
    ]
    return [
        {"type": "response.created", "response": {"id": "resp_1", "model": model}},
        *(done or _openai_text(text)),
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]


def _openai_text(text: str) -> Events:
    item = {"type": "message", "role": "assistant", "id": "msg_1"}
    whole = [{"type": "output_text", "text": text}]
    at = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.output_text.delta", **at, "delta": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item | {"content": whole}},
    ]


def _openai_call(number: int, call: Call) -> dict[str, Any]:
    common = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": call.name}
    if call.custom:
        return {"type": "custom_tool_call", **common, "input": call.arguments["input"]}
    return {"type": "function_call", **common, "arguments": json.dumps(call.arguments)}


def _mistral(model: str, text: str, calls: Sequence[Call]) -> Events:
    head = {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    wanted = [
        {
            "index": n,
            "id": f"toolcall{n}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for n, call in enumerate(calls)
    ]
    delta = {"role": "assistant", "content": text} | ({"tool_calls": wanted} if wanted else {})
    finish = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return [
        head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage},
    ]


_APIS: Mapping[str, Callable[[str, str, Sequence[Call]], Events]] = {
    "/v1/messages": _anthropic,
    "/v1/responses": _openai,
    "/v1/chat/completions": _mistral,
}


def tool_names(asked: Asked) -> Iterator[str]:
    """The names of the tools that a request offers to the model, in any of the APIs."""
    try:
        body = json.loads(asked.body)
    except ValueError:
        return
    yield from _names(body.get("tools") if isinstance(body, dict) else None)
    items = body.get("input") if isinstance(body, dict) else None
    for item in items if isinstance(items, list) else ():
        yield from _names(item.get("tools") if isinstance(item, dict) else None)


def _names(tools: Any) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            function = tool.get("function")
            named = function if isinstance(function, dict) else tool
            yield str(named.get("name") or tool.get("type"))
            yield from _names(tool.get("tools"))
