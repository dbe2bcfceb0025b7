"""The client's tools, shown to Claude Code as an MCP server that stands in OLP's own session.

The CLI asks for them in control requests. A call is left unanswered until the client has sent its
result, in a request of its own, perhaps minutes later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from olp.model import Media, Message, Part, Tool
from olp.providers.base import Write, json_line
from olp.providers.toolnames import Names

SERVER = "client"
PREFIX = f"mcp__{SERVER}__"
_LONGEST = 128 - len(PREFIX)


def names_of(tools: Sequence[Tool]) -> Names:
    """How the model knows the client's tools."""
    return Names(tools, longest=_LONGEST, prefix=PREFIX)


class _Asked(NamedTuple):
    """A control request of the CLI's, and the number of the MCP request in it."""

    id: str
    number: Any


class Bridge:
    """One conversation's tools and open calls."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self.names = names_of(tools)
        self._open: dict[str, _Asked | None] = {}
        self._results: dict[str, Mapping[str, Any]] = {}

    @property
    def waits(self) -> bool:
        """Whether the model waits for the results of calls."""
        return bool(self._open)

    def called(self, id: str) -> None:
        """The model called a tool; the CLI will ask for the result."""
        self._open[id] = None

    def answer(self, results: Sequence[Message]) -> list[Write]:
        """Give the results to the open calls. One that got none was cancelled."""
        by_id = {message.answers: message for message in results}
        told = {id: _result(by_id.get(id)) for id in self._open}
        asked = {id: request for id, request in self._open.items() if request is not None}
        self._open = {}
        self._results = {id: result for id, result in told.items() if id not in asked}
        return [_reply(request, told[id]) for id, request in asked.items()]

    def receive(self, request_id: str, request: Mapping[str, Any]) -> list[Write]:
        """What is to be said to one control request of the CLI's."""
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
                result = {"tools": [self._described(tool) for tool in self._tools]}
            case "tools/call":
                return self._call(request_id, message)
            case _:
                result = {}
        return [_reply(_Asked(request_id, number), result)]

    def _described(self, tool: Tool) -> dict[str, Any]:
        return {
            "name": self.names.outward(tool.name),
            "description": tool.description,
            "inputSchema": tool.parameters,
            # What only reads may be called beside others: so several calls arrive at once.
            "annotations": {"readOnlyHint": True},
        }

    def _call(self, request_id: str, message: Mapping[str, Any]) -> list[Write]:
        params = message.get("params") or {}
        asked = _Asked(request_id, message.get("id"))
        id = str((params.get("_meta") or {}).get("claudecode/toolUseId"))
        if id in self._results:
            return [_reply(asked, self._results.pop(id))]
        if id not in self._open:
            return [_reply(asked, _result(None))]
        self._open[id] = asked
        return []


def _reply(asked: _Asked, result: Mapping[str, Any]) -> Write:
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
        text = "The call was cancelled: no result was given."
        return {"content": [{"type": "text", "text": text}], "isError": True}
    content = [_content(part) for part in message.parts]
    return {"content": content, **({"isError": True} if message.cancelled else {})}


def _content(part: Part) -> dict[str, Any]:
    match part:
        case Media() if part.is_image:
            return {"type": "image", "data": part.data, "mimeType": part.media_type}
        case Media():
            blob = {"uri": f"file:///{part.name}", "mimeType": part.media_type, "blob": part.data}
            return {"type": "resource", "resource": blob}
        case text:
            return {"type": "text", "text": text}
