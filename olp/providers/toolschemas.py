"""Whether a CLI can be given a tool's schema as it is, and what to do where it cannot.

Clients write what vendors put up with, and a CLI may be stricter: it leaves out the tool, or all of
them, without a word. Such a tool is offered with any arguments, and its schema stands in its
description, where every model can read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
    """The description of a tool with its schema in it."""
    schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
    return f"{tool.description}\n\nThe JSON Schema of its arguments, in full: {schema}".lstrip()
