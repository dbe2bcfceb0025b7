"""A conversation as input lines for Claude Code, with real user and assistant turns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from olp.model import Media, Message, Request, Role, ToolCall
from olp.providers.base import Write, json_line
from olp.providers.shared.tool_names import Names, fitted
from olp.providers.shared.transcript import call_text, result_text
from olp.providers.shared.wire import parse_line

_LONGEST_ID = 64

_EMPTY = re.compile(r"\s*(?:\{\s*\}|null)?\s*")

Line = tuple[Write, bool]
"""A line, and whether to wait for the CLI's result before writing the next one."""


def lines_of(request: Request, turns: Sequence[Message], names: Names) -> list[Line]:
    """`turns` as input lines. The last one is to be answered, the others are history."""
    # The vendor accepts tool calls in the history only if the request has tools.
    calls = bool(request.tools) or bool(request.format and request.format.schema)
    entries = list(_role_contents(turns, names if calls else None))
    lines: list[Line] = []
    for index, (role, content) in enumerate(entries):
        last = index == len(entries) - 1
        if role is Role.ASSISTANT:
            lines.append((json_line(_assistant(content)), False))
        else:
            lines.append((json_line(_user(content, answer=last)), not last))
    return lines


def _role_contents(turns: Sequence[Message], names: Names | None) -> Iterator[tuple[Role, Any]]:
    """Role and content of each turn. Without `names`, calls and results are rendered as text."""
    for group in _groups(turns):
        first = group[0]
        if first.role is Role.ASSISTANT:
            yield Role.ASSISTANT, _assistant_blocks(first, names)
        elif len(group) == 1 and first.role is not Role.TOOL and isinstance(first.content, str):
            yield Role.USER, first.content
        else:
            yield Role.USER, [block for turn in group for block in _blocks(turn, names)]


def _groups(turns: Sequence[Message]) -> list[list[Message]]:
    """Group the turns: results of calls and the user message right after them are one turn."""
    groups: list[list[Message]] = []
    for turn in turns:
        can_resume = groups and groups[-1][-1].role is Role.TOOL
        if can_resume and turn.role in (Role.TOOL, Role.USER):
            groups[-1].append(turn)
        else:
            groups.append([turn])
    return groups


def _assistant_blocks(turn: Message, names: Names | None) -> list[dict[str, Any]]:
    texts = [turn.text] if turn.text.strip() or not turn.calls else []
    if names is None:
        texts += [call_text(call) for call in turn.calls]
        return [{"type": "text", "text": text} for text in texts]
    return [
        *({"type": "text", "text": text} for text in texts),
        *(_tool_use(call, names) for call in turn.calls),
    ]


def _tool_use(call: ToolCall, names: Names) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": fitted(call.id, _LONGEST_ID),
        "name": names.shown(call.name),
        "input": _input(call.arguments),
    }


def _input(arguments: str) -> dict[str, Any]:
    """The arguments as an object, which is all the vendor accepts. Anything else a model wrote is
    wrapped as it is, so that the model can see its mistake.
    """
    parsed = parse_line(arguments)
    return parsed if parsed or _EMPTY.fullmatch(arguments) else {"unparsed_arguments": arguments}


def _blocks(turn: Message, names: Names | None) -> list[dict[str, Any]]:
    if turn.role is Role.TOOL and names is None:
        return [{"type": "text", "text": result_text(turn)}, *map(block, turn.media)]
    inner = [block(part) for part in turn.parts if part]
    if turn.role is not Role.TOOL:
        return inner
    result = {"type": "tool_result", "tool_use_id": fitted(turn.answers, _LONGEST_ID)}
    return [result | {"content": inner} | ({"is_error": True} if turn.cancelled else {})]


def block(part: str | Media) -> dict[str, Any]:
    """A part of a message as a content block of the vendor's API."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": "image" if part.is_image else "document", "source": source}


def _user(content: Any, *, answer: bool) -> dict[str, Any]:
    message: dict[str, Any] = {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": None,
        "session_id": "default",
        # Marks the line as composed by a program: no leading slash or @path in it is a command.
        "client_composed": True,
    }
    return message if answer else {**message, "shouldQuery": False}


def _assistant(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": content}}
