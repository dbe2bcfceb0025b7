"""A call that the client insists on, for CLIs that leave the choice to the model.

No CLI can be told that a tool has to be called. What each can be told is the JSON Schema of its
answer: so the arguments are asked for as the answer, and the answer is given as the call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from olp.events import CallArguments, CallStarted, Event
from olp.formats import conform
from olp.model import JsonFormat, Message, Request, Role, Tool


def as_format(request: Request) -> Request:
    """`request` as a CLI gets it: without tools, and with the arguments as its format."""
    if not request.must_call:
        return request
    tools = _named(request)
    if len(tools) == 1:
        schema: Mapping[str, Any] = tools[0].parameters
    else:
        schema = _one_of(tools)
    wanted = Message(Role.SYSTEM, _instruction(tools))
    first = len(request.messages) - len(request.turns)
    messages = (*request.messages[:first], wanted, *request.messages[first:])
    return replace(
        request,
        messages=messages,
        tools=(),
        must_call=(),
        format=JsonFormat(schema, name="call"),
    )


def call_from(text: str, request: Request) -> tuple[Sequence[Event], str | None]:
    """The call that an answer to `as_format(request)` is, and what is wrong with it, if anything.
    The answer conforms to that format."""
    tools = _named(request)
    name, arguments = tools[0].name, text
    if len(tools) > 1:
        told = json.loads(text)
        name = str(told["name"])
        arguments = _written(told["arguments"])
        schema = next(tool.parameters for tool in tools if tool.name == name)
        arguments, problem = conform(arguments, JsonFormat(schema))
        if problem:
            return (), problem
    said = repr((request.messages, text)).encode("utf-8", "replace")
    id = f"call_{hashlib.sha256(said).hexdigest()[:24]}"
    return (CallStarted(0, id, name), CallArguments(0, arguments)), None


def _written(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half characters cannot be sent as they are.
    return text if _encodes(text) else json.dumps(value)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _named(request: Request) -> list[Tool]:
    return [tool for tool in request.tools if tool.name in request.must_call]


def _instruction(tools: Sequence[Tool]) -> str:
    if len(tools) == 1:
        name, what = tools[0].name, tools[0].description
        return f"Your answer is the arguments of a call of the function {name!r}. {what}".rstrip()
    told = "\n".join(f"- {tool.name}: {tool.description}" for tool in tools)
    return (
        "Your answer is a call of one of these functions: its name, and its arguments by the "
        f"schema of that function.\n{told}"
    )


def _one_of(tools: Sequence[Tool]) -> dict[str, Any]:
    inner = [
        _moved(tool.parameters, f"#/properties/arguments/anyOf/{index}")
        for index, tool in enumerate(tools)
    ]
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [tool.name for tool in tools]},
            "arguments": {"anyOf": inner},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _moved(node: Any, to: str) -> Any:
    """A schema that stands at `to` in another one, its references with it."""
    if isinstance(node, list):
        return [_moved(inner, to) for inner in node]
    if not isinstance(node, Mapping):
        return node
    out = {name: _moved(inner, to) for name, inner in node.items()}
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#"):
        out["$ref"] = to + ref[1:]
    return out
