"""Chat programs, frameworks and a house: the clients that write no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import tables
from .agents import STREAMED
from .client import (
    Client,
    Message,
    calls_of,
    compact,
    plain_result,
    rewritten,
    saying,
    spaced,
    text_parts,
)
from .filler import manual
from .schemas import by_hand, functions, pydantic, strict


def _webui_said(message: Mapping[str, Any]) -> list[Message]:
    """The calls as the stream's deltas made them, each with its index."""
    calls = [{"index": number, **call} for number, call in enumerate(calls_of(message))]
    made: Message = {"role": "assistant", "content": message.get("content") or ""}
    return [made | ({"tool_calls": calls} if calls else {})]


OPEN_WEBUI = Client(
    name="open-webui",
    parameters={
        **STREAMED,
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 2048,
        "frequency_penalty": 0,
    },
    before=({"role": "system", "content": manual(20_000, "open-webui", "source")},),
    said=_webui_said,
    tools=functions(tables.OPEN_WEBUI, pydantic),
    tool="get_current_weather",
    arguments={"city": "Zürich", "unit": None},
)


def _langchain_said(message: Mapping[str, Any]) -> list[Message]:
    calls = [
        {"type": "function", "id": call["id"], "function": call["function"]}
        for call in rewritten(message, spaced)
    ]
    content = message.get("content") or (None if calls else "")
    return [{"content": content, "role": "assistant"} | ({"tool_calls": calls} if calls else {})]


LANGCHAIN = Client(
    name="langchain",
    parameters={"stream": False, "temperature": 0.0, "max_completion_tokens": 1024}
    | {"parallel_tool_calls": True},
    before=({"content": manual(22_000, "langchain"), "role": "system"},),
    said=_langchain_said,
    tools=functions(tables.LANGCHAIN, pydantic),
    tool="search",
    arguments={"query": "flights", "max_results": 3, "topic": None},
)


def _dumped(message: Mapping[str, Any]) -> list[Message]:
    """The SDK's message object with every field it has, and the server's additions."""
    nothing: Message = {"refusal": None, "annotations": [], "audio": None, "function_call": None}
    made = {"content": None, "tool_calls": None} | nothing | dict(message)
    return [made | {"role": "assistant"}]


def _named(call: Mapping[str, Any], result: str) -> Message:
    return plain_result(call, result) | {"name": call["function"]["name"]}


_BARE: tuple[Message, ...] = (
    {"type": "function", "function": {"name": "ping"}},
    {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {}}},
)

OPENAI_SDK = Client(
    name="openai-sdk",
    parameters={
        "max_completion_tokens": 2048,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "store": False,
        "metadata": {"session": "s-1"},
        "user": "anna",
        "seed": 7,
        "n": 1,
    },
    before=({"role": "developer", "content": text_parts(manual(24_000, "openai-sdk"))},),
    said=_dumped,
    given=_named,
    tools=(*functions(tables.SDK_LOOP, strict, strict=True), *_BARE),
    tool="query",
    arguments={"table_name": "orders", "columns": ["id"], "order_by": None, "limit": 5},
)


def _household() -> str:
    """A prompt as a large house makes it: every device with its place and its names."""
    areas = ("Wohnzimmer", "Küche", "Bad", "Büro", "Flur", "Garten")
    kinds = ("light", "switch", "cover", "climate", "media_player", "sensor")
    devices = [
        f"- names: {area} {kind.replace('_', ' ').title()} {number}\n  domain: {kind}\n"
        f"  areas: {area}"
        for number in range(11)
        for area in areas
        for kind in kinds
    ]
    rules = manual(2_000, "home-assistant")
    return f"{rules}\nStatic Context: An overview of this home:\n" + "\n".join(devices)


def _house_given(call: Mapping[str, Any], result: str) -> Message:
    """Results are JSON, whatever they are."""
    try:
        json.loads(result)
    except ValueError:
        result = json.dumps({"result": result}, separators=(",", ":"), ensure_ascii=False)
    return plain_result(call, result)


HOME_ASSISTANT = Client(
    name="home-assistant",
    parameters={
        "stream": True,
        "max_tokens": 3000,
        "top_p": 1.0,
        "temperature": 1.0,
        "user": "01JDXR5H3T3W5Z8Q9V0C1B2N3M",
    },
    before=({"role": "system", "content": _household()},),
    said=saying(None, compact),
    given=_house_given,
    tools=functions(tables.HOME_ASSISTANT, by_hand),
    tool="HassTurnOn",
    arguments={"area": "Küche", "domain": ["light"]},
)
