"""The client's tools, offered to Claude Code as an MCP server inside OLP's session.

The CLI sends MCP messages as control requests. A call stays unanswered until the client sends its
result, in a later request, perhaps minutes later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from olp.model import CANCELLED, Message, Tool
from olp.providers.base import Write, json_line
from olp.providers.shared.open_calls import OpenCalls
from olp.providers.shared.tool_names import Names
from olp.providers.shared.tool_schemas import is_sound, offered

SERVER = "client"
PREFIX = f"mcp__{SERVER}__"
_LONGEST = 128 - len(PREFIX)


def names_of(tools: Sequence[Tool]) -> Names:
    """The names under which the model sees the client's tools."""
    return Names(tools, longest=_LONGEST, prefix=PREFIX)


_KEPT_CHARS = 500_000
"""The largest result, in characters, that the CLI can be configured not to truncate."""

MAX_RESULT_CHARS = 490_000
"""The largest result, in characters, that is passed to a waiting call."""


_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Argument names that the vendor accepts."""


class _ControlRequest(NamedTuple):
    """A control request of the CLI, and the id of the MCP request inside it."""

    id: str
    number: Any


class Bridge:
    """The tools of one conversation and their open calls."""

    def __init__(self, tools: Sequence[Tool], *, parallel: bool = True) -> None:
        self._tools = tools
        self.names = names_of(tools)
        self.calls: OpenCalls[_ControlRequest] = OpenCalls(parallel=parallel)

    def answer(self, results: Sequence[Message]) -> list[Write]:
        """Pass the results to the open calls."""
        return [_reply(asked, _result(message)) for asked, message in self.calls.give(results)]

    def receive(self, request_id: str, request: Mapping[str, Any]) -> list[Write]:
        """The responses to one control request of the CLI."""
        message = request.get("message") or {}
        number = message.get("id")
        match message.get("method"):
            case "initialize":
                params = message.get("params") or {}
                result: Mapping[str, Any] = {
                    "protocolVersion": params.get("protocolVersion") or "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": SERVER, "version": "1"},
                }
            case "tools/list":
                result = {"tools": [self._definition(tool) for tool in self._tools]}
            case "tools/call":
                return self._call(request_id, message)
            case _:
                result = {}
        return [_reply(_ControlRequest(request_id, number), result)]

    def _definition(self, tool: Tool) -> dict[str, Any]:
        fits = is_sound(tool.parameters) and all(
            map(_PROPERTY.fullmatch, tool.parameters.get("properties") or ())
        )
        return {
            "name": self.names.outward(tool.name),
            **offered(tool, fits=fits),
            # Only read-only tools are called in parallel, so this lets several calls arrive at
            # once.
            "annotations": {"readOnlyHint": True},
            "_meta": {"anthropic/maxResultSizeChars": _KEPT_CHARS},
        }

    def _call(self, request_id: str, message: Mapping[str, Any]) -> list[Write]:
        params = message.get("params") or {}
        id = str((params.get("_meta") or {}).get("claudecode/toolUseId"))
        asked = _ControlRequest(request_id, message.get("id"))
        return [_reply(one, _result(result)) for one, result in self.calls.asked(id, asked)]


def takes_live(results: Sequence[Message]) -> bool:
    """Whether the CLI passes these results on unchanged.

    It would truncate a long one, and would write an image to a file of the user's and give the
    model the path. As history both go through unchanged.
    """
    return not any(len(m.text) > MAX_RESULT_CHARS or m.media for m in results)


def _reply(asked: _ControlRequest, result: Mapping[str, Any]) -> Write:
    answer = {"jsonrpc": "2.0", "id": asked.number, "result": result}
    response = {"mcp_response": answer}
    return json_line(
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": asked.id, "response": response},
        }
    )


def _result(message: Message | None) -> dict[str, Any]:
    if message is None:
        return {"content": [{"type": "text", "text": CANCELLED}], "isError": True}
    content = [{"type": "text", "text": message.text}]
    return {"content": content, **({"isError": True} if message.cancelled else {})}
