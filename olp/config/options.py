"""Descriptions of all options, from the schema: for the template, the reference and messages.

They are generated from the schema, so that no key can be undocumented.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from olp.config.schema import Config


@dataclass(frozen=True, slots=True)
class Option:
    """One key of one table."""

    name: str

    about: str
    """What it means, from the schema."""

    kind: str
    """The type, in words."""

    bounds: str
    """The bounds, in words; empty if there are none."""

    choices: tuple[str, ...]
    """All allowed values, if they can be listed."""

    default: Any
    """None if the key is unset by default."""

    possible: Any
    """An allowed value, as an example for a key without a default."""

    required: bool


@dataclass(frozen=True, slots=True)
class Section:
    """One table. `named`: there may be several, each under a name of its own."""

    about: str
    options: tuple[Option, ...]
    named: bool


@functools.cache
def sections() -> Mapping[str, Section]:
    """The tables in the order of the schema: server, chains, routing, …"""
    defined = msgspec.json.schema(Config)["$defs"]
    found = {}
    for name, schema in defined["Config"]["properties"].items():
        inner = schema.get("additionalProperties", schema)
        refs = [s["$ref"] for s in (inner, *inner.get("anyOf", ())) if "$ref" in s]
        found[name] = _section(defined[refs[0].rpartition("/")[2]], named=inner is not schema)
    return found


def _section(schema: Mapping[str, Any], *, named: bool) -> Section:
    required = schema["required"]
    properties = sorted(schema["properties"].items(), key=lambda item: item[0] not in required)
    options = (_option(key, value, key in required) for key, value in properties)
    return Section(" ".join(schema["description"].split()), tuple(options), named)


def _option(name: str, schema: Mapping[str, Any], required: bool) -> Option:
    inner = next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), schema)
    return Option(
        name,
        str(schema.get("description", "")),
        _kind(inner),
        _bounds(inner),
        tuple(inner.get("enum", ())),
        schema.get("default"),
        _possible(inner),
        required,
    )


def _possible(schema: Mapping[str, Any]) -> Any:
    """A value that the schema allows, for a key without a default."""
    if "enum" in schema:
        return schema["enum"][0]
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    number = schema["maximum"] * 0.9 if "maximum" in schema else low + 99
    match schema.get("type"):
        case "integer":
            return int(number)
        case "number":
            return float(number)
        case "boolean":
            return True
        case "array":
            return []
        case _:
            return ""


def _kind(schema: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "array":
            return "list of strings"
        case "object":
            return "table"
        case "number":
            return "number"
        case "integer":
            return "whole number"
        case "boolean":
            return "true or false"
        case _:
            return " or ".join(map(toml, schema["enum"])) if "enum" in schema else "string"


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    parts = [f"from {low}"] if low is not None else []
    parts += [f"above {above}"] if above is not None else []
    parts += [f"to {high}"] if high is not None else []
    return " ".join(parts)


def toml(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(key)} = {toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def toml_key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)
