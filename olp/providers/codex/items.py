"""A conversation and the client's tools in the item format of Codex's app-server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from olp.events import Usage
from olp.model import CANCELLED, Media, Message, Request, Role, Tool, ToolCall
from olp.providers.base import Write
from olp.providers.shared.tool_names import Names, fitted
from olp.providers.shared.tool_schemas import inner_of, is_sound, offered, with_schema_text
from olp.providers.shared.wire import count, line_of

_LONGEST_NAME = 128
_LONGEST_ID = 64

_TAKEN = ("exec_command", "shell_command", "request_user_input", "apply_patch", "mcp")
"""Names of the CLI's own tools. It silently drops a client's tool of such a name, and rejects one
that begins with `mcp__`.
"""

_KEPT = frozenset(
    {
        *("type", "properties", "required", "items", "enum", "additionalProperties", "anyOf"),
        *("oneOf", "allOf", "$ref", "$defs", "definitions", "description", "minItems"),
    }
)
"""The schema keywords that the CLI keeps."""

_COMBINED = ("anyOf", "oneOf", "allOf", "$ref")

_LEVELS = 100
"""The deepest nesting of a value in a line: the CLI reads 127 levels in all and silently skips a
deeper line. Nor does it read integers of more than 64 bits.
"""

_KEPT_BYTES = 4900
"""Bytes of a schema above which the CLI drops its descriptions, or all of it."""


def names_of(tools: Sequence[Tool]) -> Names:
    """The names under which the model sees the client's tools."""
    return Names(tools, longest=_LONGEST_NAME, taken=_TAKEN, reserved="mcp__")


def tools_of(tools: Sequence[Tool], names: Names) -> dict[str, Any]:
    """`thread/start` parameters that offer `tools` to the model."""
    if not tools:
        return {}
    definitions = [_definition(tool, names) for tool in tools]
    return {"dynamicTools": definitions}


def _definition(tool: Tool, names: Names) -> dict[str, Any]:
    """The tool's definition, with the schema in its description if the CLI would alter it."""
    sound = _is_plain(tool.parameters) and is_sound(tool.parameters)
    named = {"type": "function", "name": names.outward(tool.name)}
    definition = named | offered(tool, fits=sound)
    if not sound:
        return definition
    size = len(json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":")).encode())
    if size > _KEPT_BYTES or not _is_kept(tool.parameters):
        return definition | {"description": with_schema_text(tool)}
    return definition


def _is_kept(schema: Any) -> bool:
    """Whether the CLI passes a schema on unchanged. It drops unknown keywords, and adds a type
    where there is none.
    """
    if not isinstance(schema, Mapping) or not schema.keys() <= _KEPT:
        return False
    if not schema.keys() & {"type", "properties", *_COMBINED}:
        return False
    if "enum" in schema and "type" not in schema:
        return False
    if schema.get("type") == "array" and "items" not in schema:
        return False
    return all(
        _is_kept(one) or (word == "additionalProperties" and isinstance(one, bool))
        for word, rule in schema.items()
        for one in inner_of({word: rule})
    )


def strict_schema(request: Request) -> Mapping[str, Any] | None:
    """The schema of the requested answer, if the vendor supports it as an output schema."""
    schema = request.format.schema if request.format else None
    if schema is None or schema.get("type") != "object":
        return None
    if not _is_plain(schema) or not is_sound(schema):
        return None
    return schema if _is_strict(schema) else None


def _is_strict(schema: Any) -> bool:
    """Whether the vendor accepts a schema as an output format: every object lists all its
    properties and requires them. Any other is rejected, and has to be described in the prompt.
    """
    if isinstance(schema, bool):
        return True
    named = schema.get("properties") or {}
    if "properties" in schema or schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required") or ()) != set(named):
            return False
    return all(map(_is_strict, inner_of(schema)))


def _is_plain(value: Any, levels: int = _LEVELS) -> bool:
    """Whether the CLI can parse this JSON value."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if not isinstance(value, Mapping | list | tuple):
        return True
    inner = value.values() if isinstance(value, Mapping) else value
    return levels > 0 and all(_is_plain(one, levels - 1) for one in inner)


def readable(arguments: str) -> bool:
    """Whether the CLI can parse the arguments of a call that a model wrote: it is as strict as
    msgspec, and supports integers of up to 64 bits.
    """
    try:
        msgspec.json.decode(arguments)
        return _is_plain(json.loads(arguments))
    except (ValueError, RecursionError):
        return False


def rpc_line(message: Mapping[str, Any]) -> Write:
    """A line for the app-server. Lone surrogates become U+FFFD, because the CLI silently skips a
    line that contains one.
    """
    line = line_of(message)
    if b"\\ud" not in line:
        return Write(line)
    utf16 = json.dumps(message, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    return Write(utf16.decode("utf-16-le", "replace").encode() + b"\n")


def items_of(turns: Sequence[Message], names: Names) -> list[dict[str, Any]]:
    """Earlier turns as items of the vendor's API."""
    return [item for turn in turns for item in _items(turn, names)]


def _items(turn: Message, names: Names) -> Iterator[dict[str, Any]]:
    if turn.role is Role.TOOL:
        id = fitted(turn.answers, _LONGEST_ID)
        yield {"type": "function_call_output", "call_id": id, "output": output_of(turn)}
        return
    if turn.role is Role.ASSISTANT:
        if turn.text or not turn.calls:
            yield _message("assistant", [{"type": "output_text", "text": turn.text}])
        for call in turn.calls:
            yield _function_call(call, names)
        return
    role = "developer" if turn.role is Role.SYSTEM else "user"
    yield _message(role, [_content(part) for part in turn.parts])


def _message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _function_call(call: ToolCall, names: Names) -> dict[str, Any]:
    return {
        "type": "function_call",
        "name": names.outward(call.name),
        "arguments": call.arguments,
        "call_id": fitted(call.id, _LONGEST_ID),
    }


def _content(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": part.url}


def output_of(turn: Message) -> str | list[dict[str, Any]]:
    """The result of a call: a string, or a list of parts if it has images."""
    return [_content(part) for part in turn.parts if part] if turn.media else turn.text


def input_of(turn: Message) -> list[dict[str, Any]]:
    """The `input` of `turn/start` for a message."""
    return [
        {"type": "text", "text": part, "text_elements": []}
        if isinstance(part, str)
        else {"type": "image", "url": part.url}
        for part in turn.parts
    ]


def result_of(number: int, message: Message | None) -> Write:
    """The response to the CLI's request `number` for the result of a call."""
    content = output_of(message) if message is not None else CANCELLED
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    items = [_content_item(part) for part in content]
    fine = message is not None and not message.cancelled
    return rpc_line({"id": number, "result": {"contentItems": items, "success": fine}})


def _content_item(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "input_image":
        return {"type": "inputImage", "imageUrl": part["image_url"]}
    return {"type": "inputText", "text": part["text"]}


def usage_of(last: Mapping[str, Any]) -> Usage:
    """The token counts of one response of the vendor."""
    return Usage(
        input=count(last.get("inputTokens")),
        output=count(last.get("outputTokens")),
        cached=count(last.get("cachedInputTokens")),
        cache_written=count(last.get("cacheWriteInputTokens")),
        reasoning=count(last.get("reasoningOutputTokens")),
    )
