"""Which parameters of a chat completion are honoured, ignored or rejected.

Nothing is dropped silently. A parameter that changes what the client gets and cannot be honoured is
rejected by name; one that only influences the style is listed in a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from olp.dialects.openai_chat.messages import is_left_out
from olp.errors import RequestError

HONOURED = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "reasoning_effort",
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
    }
)

WHOLE_NUMBERS = ("max_tokens", "max_completion_tokens", "n", "top_logprobs")
"""Integer parameters that clients in languages without integers send as `4096.0`."""


def _truthy(value: Any) -> bool:
    return bool(value)


_REFUSED: Mapping[str, tuple[Any, str]] = {
    "n": (lambda value: value != 1, "only one answer to a request can be given (n = 1)"),
    "logprobs": (_truthy, "no CLI reports log probabilities"),
    "top_logprobs": (_truthy, "no CLI reports log probabilities"),
    "audio": (_truthy, "audio output is not supported"),
    "modalities": (lambda value: value != ["text"], "only the modality 'text' is supported"),
    "web_search_options": (lambda value: value is not None, "web search is switched off"),
}


def refuse_unsupported(body: Mapping[str, Any]) -> None:
    """Raise RequestError (400) for the first parameter that asks for something unsupported."""
    for name, (asks, reason) in _REFUSED.items():
        value = body.get(name)
        if value is not None and asks(value):
            raise RequestError(
                f"Unsupported parameter {name!r}: {reason}.",
                code="unsupported_parameter",
                param=name,
            )


def ignored(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The sorted names of parameters and nested fields that were given and have no effect; nested
    ones as dotted paths without indexes.
    """
    given = {name for name, value in body.items() if value is not None}
    names = given - HONOURED - _REFUSED.keys()
    for name in given & _READ.keys():
        names.update(_ignored_fields(body[name], name))
    return tuple(sorted(names))


_FUNCTION = frozenset({"name", "description", "parameters"})

_READ: Mapping[str, frozenset[str]] = {
    "messages": frozenset(
        {"role", "content", "refusal", "tool_calls", "function_call", "tool_call_id"}
    ),
    "messages.content": frozenset({"type", "text", "refusal", "image_url", "file"}),
    "messages.content.image_url": frozenset({"url"}),
    "messages.content.file": frozenset({"filename", "file_data"}),
    "messages.tool_calls": frozenset({"id", "type", "index", "function"}),
    "messages.tool_calls.function": frozenset({"name", "arguments"}),
    "messages.function_call": frozenset({"name", "arguments"}),
    "tools": frozenset({"type", "function"}),
    "tools.function": _FUNCTION,
    "functions": _FUNCTION,
    "response_format": frozenset({"type", "json_schema"}),
    "response_format.json_schema": frozenset({"name", "schema", "strict"}),
    "stream_options": frozenset({"include_usage"}),
}
"""The fields that have an effect, by path. `strict` of a tool is not among them: no CLI can enforce
it.
"""

_NEUTRAL = {"messages.content.image_url.detail": "auto"}

_WORD = re.compile(r"[\w-]{1,32}")


def _ignored_fields(node: Any, path: str) -> Iterator[str]:
    """The paths of the fields below `path` that are set and have no effect."""
    for inner in node if isinstance(node, list) else [node]:
        if not isinstance(inner, dict):
            continue
        if path == "messages" and inner.get("role") == "assistant":
            inner, left_out = _without_dropped(inner)
            yield from left_out
        for name, value in inner.items():
            where = f"{path}.{name}"
            if name in _READ[path]:
                yield from _ignored_fields(value, where) if where in _READ else ()
            elif value and value != _NEUTRAL.get(where) and not _is_redundant(inner, where):
                yield where


def _without_dropped(message: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """An earlier assistant message without dropped parts, and the paths of those parts."""
    content = message.get("content")
    if not isinstance(content, list):
        return message, []
    kinds = [part["type"] for part in content if is_left_out(part)]
    paths = [f"messages.content{f'.{kind}' if _WORD.fullmatch(kind) else ''}" for kind in kinds]
    return {**message, "content": [part for part in content if not is_left_out(part)]}, paths


def _is_redundant(message: Mapping[str, Any], where: str) -> bool:
    """Whether a field repeats known data: the function's name in a result, known from its call."""
    return where == "messages.name" and message.get("role") in ("tool", "function")
