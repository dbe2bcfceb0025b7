"""Whether a CLI can be given a tool's schema as it is, and what to do where it cannot.

Clients write what vendors put up with, and a CLI may be stricter: it leaves out the tool, or all of
them, without a word. Such a tool is offered with any arguments, and its schema stands in its
description, where every model can read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import regex

from olp.model import Tool

ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The schema of a tool whose own stands in its description."""

OF_NAMES = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Words of a schema that hold schemas by name."""

_OF_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_OF_ONE = ("items", "additionalProperties", "not", "contains", "if", "then", "else")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_type(value: object) -> bool:
    named = value if isinstance(value, list) else [value]
    return bool(named) and all(isinstance(one, str) and one in _TYPES for one in named)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_RULES: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "required": _are_texts,
    "enum": lambda value: isinstance(value, list) and bool(value),
    **dict.fromkeys(("description", "title", "$ref", "format", "pattern"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _is_number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_number),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_number),
    "uniqueItems": lambda value: isinstance(value, bool),
}


def is_sound(schema: Any) -> bool:
    """Whether a schema is one, as far as the words go that clients use."""
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
"""The largest integer that is the same in every language."""

_DEEPEST = 100
"""How deep JSON may be nested within what a CLI reads in one piece."""


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether a schema holds to the letter, for a CLI that looks at every call by it. A reference
    to nowhere, an expression that is none, a number beyond bounds: there no call would fit."""
    try:
        return _is_plain(schema, 0) and is_sound(schema) and _is_strict(schema, schema)
    except RecursionError:
        return False


def _is_plain(value: Any, depth: int) -> bool:
    """Whether every reader takes it for the same JSON."""
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
        and _leads_somewhere(schema.get("$ref"), root)
        and _is_expression(schema.get("pattern"))
        and all(map(_is_expression, schema.get("patternProperties", ())))
        and all(_is_strict(inner, root) for inner in inner_of(schema))
    )


def _leads_somewhere(reference: str | None, root: Mapping[str, Any]) -> bool:
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


def _is_expression(pattern: str | None) -> bool:
    try:
        return pattern is None or regex.compile(pattern) is not None
    except (regex.error, RecursionError, OverflowError):
        return False


def inner_of(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas in a schema."""
    for word, rule in schema.items():
        if word in OF_NAMES and isinstance(rule, Mapping):
            yield from rule.values()
        elif word in _OF_LISTS and isinstance(rule, Sequence):
            yield from rule
        elif word in _OF_ONE:
            yield rule


def offered(tool: Tool, *, fits: bool) -> dict[str, Any]:
    """What a CLI is told of a tool: its own description and schema, where it `fits`."""
    if fits:
        return {"description": tool.description, "inputSchema": tool.parameters}
    return {"description": in_words(tool), "inputSchema": ANYTHING}


def in_words(tool: Tool) -> str:
    """The description of a tool with its schema in it, as far as that can be written down."""
    try:
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return tool.description
    return f"{tool.description}\n\nThe JSON Schema of its arguments, in full: {schema}".lstrip()
