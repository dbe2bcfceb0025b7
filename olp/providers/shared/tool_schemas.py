"""Whether a CLI accepts a tool's schema unchanged, and a fallback where it does not.

Clients send schemas that vendors tolerate, and a CLI may be stricter: it silently drops the tool,
or all of them. Such a tool is offered with arbitrary arguments, and its schema is put into its
description, where every model can read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import regex

from olp.model import Tool

ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The schema of a tool whose own is in its description."""

OF_NAMES = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords that hold schemas by name."""

_OF_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_OF_ONE = ("items", "additionalProperties", "not", "contains", "if", "then", "else")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_type(value: object) -> bool:
    named = value if isinstance(value, list) else [value]
    return bool(named) and all(isinstance(one, str) and one in _TYPES for one in named)


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_string, value))


_RULES: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "required": _are_strings,
    "enum": lambda value: isinstance(value, list) and bool(value),
    **dict.fromkeys(("description", "title", "$ref", "format", "pattern"), _is_string),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _is_number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_number),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_number),
    "uniqueItems": lambda value: isinstance(value, bool),
}


def is_sound(schema: Any) -> bool:
    """Whether a schema is valid, as far as the commonly used keywords go."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, Mapping):
        return False
    if not all(_RULES[word](rule) for word, rule in schema.items() if word in _RULES):
        return False
    for word, rule in schema.items():
        of_names = word in OF_NAMES and not isinstance(rule, Mapping)
        of_lists = word in _OF_LISTS and not (isinstance(rule, list) and rule)
        if of_names or of_lists:
            return False
    return all(map(is_sound, inner_of(schema)))


_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")

_SAFE = 2**53 - 1
"""The largest integer that is exact in every language."""

_DEEPEST = 100
"""The deepest JSON nesting in a message that a CLI parses."""


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is strictly valid, for a CLI that validates every call against it. With a
    dangling reference, an invalid regular expression or a number out of range no call would
    pass.
    """
    try:
        return _is_plain(schema, 0) and is_sound(schema) and _is_strict(schema, schema)
    except RecursionError:
        return False


def _is_plain(value: Any, depth: int) -> bool:
    """Whether every JSON parser reads the same value."""
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int):
        return -_SAFE <= value <= _SAFE
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, Mapping | list):
        inner = [*value, *value.values()] if isinstance(value, Mapping) else value
        return depth < _DEEPEST and all(_is_plain(one, depth + 1) for one in inner)
    return True


def _is_strict(schema: Any, root: Mapping[str, Any]) -> bool:
    if not isinstance(schema, Mapping):
        return True
    sizes = (schema[word] for word in _SIZES if word in schema)
    required = schema.get("required", ())
    return (
        all(isinstance(size, int) and size >= 0 for size in sizes)
        and len(set(required)) == len(required)
        and _resolves(schema.get("$ref"), root)
        and _is_regex(schema.get("pattern"))
        and all(map(_is_regex, schema.get("patternProperties", ())))
        and all(_is_strict(inner, root) for inner in inner_of(schema))
    )


def _resolves(reference: str | None, root: Mapping[str, Any]) -> bool:
    if reference is None:
        return True
    if not reference.startswith("#"):
        return False
    at: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, list) and name.isdecimal() and int(name) < len(at):
            at = at[int(name)]
        elif isinstance(at, Mapping) and name in at:
            at = at[name]
        else:
            return False
    return reference == "#" or reference.startswith("#/")


def _is_regex(pattern: str | None) -> bool:
    try:
        return pattern is None or regex.compile(pattern) is not None
    except (regex.error, RecursionError, OverflowError):
        return False


def inner_of(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The direct subschemas of a schema."""
    for word, rule in schema.items():
        if word in OF_NAMES and isinstance(rule, Mapping):
            yield from rule.values()
        elif word in _OF_LISTS and isinstance(rule, Sequence):
            yield from rule
        elif word in _OF_ONE:
            yield rule


def offered(tool: Tool, *, fits: bool) -> dict[str, Any]:
    """A tool's description and schema for a CLI: its own if the schema `fits`, else `ANYTHING`."""
    if fits:
        return {"description": tool.description, "inputSchema": tool.parameters}
    return {"description": with_schema_text(tool), "inputSchema": ANYTHING}


def with_schema_text(tool: Tool) -> str:
    """The description of a tool with its schema appended, unless that cannot be serialized."""
    try:
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return tool.description
    return f"{tool.description}\n\nThe JSON Schema of its arguments, in full: {schema}".lstrip()
