"""Forced tool calls (`tool_choice`).

No CLI can be required to call a tool, but each takes a JSON Schema for its answer. So the arguments
are requested as the answer, and the answer is streamed to the client as the call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from olp.core.answer.json_answer import Closing
from olp.events import CallArguments, CallStarted, Event
from olp.formats import JsonText, fault
from olp.model import JsonFormat, Message, Request, Role, Tool


def as_format(request: Request) -> Request:
    """Return the request for the CLI: without tools, and with the arguments as its format."""
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


_HEAD = re.compile(r'\{\s*"name"\s*:\s*(?P<name>"(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\{)')
"""The start of the answer if there are several functions."""


class CallAnswer:
    """Converts the answer to `as_format(request)` to a call. `id` must be unique in the
    conversation. Arguments that break their schema are passed on: the client can ask for others."""

    def __init__(self, request: Request, id: str) -> None:
        self._tools = {tool.name: tool for tool in _named(request)}
        self._id = id
        self._json = JsonText(JsonFormat())
        self._said = ""
        self._name: str | None = None
        self._inner: JsonText | None = None
        self._arguments: list[str] = []

    def feed(self, piece: str) -> list[Event]:
        """Take the next piece of the answer; returns the new events of the call."""
        new = self._json.feed(piece)
        self._said += new
        if self._inner is not None:
            return self._more(self._inner.feed(new))
        if not new or (begun := self._begun()) is None:
            return []
        name, arguments = begun
        self._inner = JsonText(JsonFormat())
        return [self._start(name), *self._more(self._inner.feed(arguments))]

    def close(self, *, whole: bool) -> Closing:
        """End the call. A cut answer is not checked."""
        self._said += self._json.end()
        if not whole:
            return Closing()
        if problem := self._json.code or fault(self._said, JsonFormat()):
            return Closing(problem=problem)
        events: list[Event] = []
        if self._name is None:
            told = self._told()
            if told is None:
                return Closing(problem="it calls none of the functions")
            events = [self._start(told[0]), *self._more(told[1])]
        assert self._name is not None
        wanted = JsonFormat(self._tools[self._name].parameters)
        return Closing(events, mismatch=fault("".join(self._arguments), wanted))

    def _start(self, name: str) -> CallStarted:
        self._name = name
        return CallStarted(0, self._id, name)

    def _more(self, text: str) -> list[Event]:
        self._arguments.append(text)
        return [CallArguments(0, text)] if text else []

    def _begun(self) -> tuple[str, str] | None:
        """The function and the start of its arguments, once both are known."""
        if len(self._tools) == 1:
            return next(iter(self._tools)), self._said
        head = _HEAD.match(self._said)
        try:
            name = json.loads(head["name"]) if head else None
        except ValueError:
            return None
        return (name, self._said[head.end() :]) if head and name in self._tools else None

    def _told(self) -> tuple[str, str] | None:
        """The function and its arguments in the complete answer, in any key order."""
        told = json.loads(self._said)
        name, arguments = told.get("name"), told.get("arguments")
        known = isinstance(name, str) and name in self._tools and isinstance(arguments, dict)
        return (name, _written(arguments)) if known else None


def _written(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Lone surrogates cannot be encoded; escape them.
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
        _relocated(tool.parameters, f"#/properties/arguments/anyOf/{index}")
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


def _relocated(node: Any, to: str) -> Any:
    """Return the schema with its references adjusted to its new location `to`."""
    if isinstance(node, list):
        return [_relocated(inner, to) for inner in node]
    if not isinstance(node, Mapping):
        return node
    out = {name: _relocated(inner, to) for name, inner in node.items()}
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#"):
        out["$ref"] = to + ref[1:]
    return out
