"""Tool schemas as five generators write them, from one short notation.

A line such as ``read path:s limit?:i | Reads a file.`` names a tool, its parameters and their
types, optional ones with a question mark. Types: ``s`` string, ``i`` integer, ``n`` number, ``b``
boolean, ``s*`` list of strings, ``e(a,b)`` one of, ``t*`` list of task objects, ``m`` map of
strings, ``x`` anything. A line without ``|`` has no description, which some tools have not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
_PARAMETER = re.compile(r"(\w+)(\??):([sinbmx]\*?|t\*|e\([^)]*\))")
_SIMPLE = {"s": "string", "i": "integer", "n": "number", "b": "boolean"}
_MAX = 9007199254740991


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    required: bool

    @property
    def choices(self) -> list[str]:
        return self.kind[2:-1].split(",") if self.kind.startswith("e(") else []

    @property
    def words(self) -> str:
        return f"The {self.name.replace('_', ' ')} to use, as the user gave it."


@dataclass(frozen=True)
class Tool:
    name: str
    parameters: tuple[Parameter, ...]
    description: str | None


Style = Callable[[Tool], Schema]


def parse(lines: str) -> tuple[Tool, ...]:
    """One tool a line."""
    found = []
    for line in lines.strip().splitlines():
        head, bar, description = line.partition("|")
        parameters = tuple(Parameter(n, k, not o) for n, o, k in _PARAMETER.findall(head))
        found.append(Tool(head.split()[0], parameters, description.strip() if bar else None))
    return tuple(found)


def functions(lines: str, style: Style, **more: Any) -> tuple[Schema, ...]:
    """The ``tools`` of a chat completions request."""
    return tuple({"type": "function", "function": function(t, style) | more} for t in parse(lines))


def function(tool: Tool, style: Style) -> Schema:
    described = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "parameters": style(tool)}


def _object(tool: Tool, typed: Callable[[Parameter], Schema]) -> Schema:
    required = [p.name for p in tool.parameters if p.required]
    properties = {p.name: typed(p) for p in tool.parameters}
    return {"type": "object", "properties": properties} | (
        {"required": required} if required else {}
    )


def _type(parameter: Parameter, task: Schema) -> Schema:
    """The type alone; ``task`` is how the generator writes the nested object."""
    kind = parameter.kind
    if parameter.choices:
        return {"type": "string", "enum": parameter.choices}
    if kind == "t*":
        return {"type": "array", "items": task}
    if kind.endswith("*"):
        return {"type": "array", "items": {"type": _SIMPLE[kind[0]]}}
    if kind == "m":
        return {"type": "object", "additionalProperties": {"type": "string"}}
    return {"type": _SIMPLE[kind]} if kind in _SIMPLE else {}


def _task(**more: Any) -> Schema:
    status = {"type": "string", "enum": ["pending", "in_progress", "completed"]}
    properties = {"content": {"type": "string"}, "status": status}
    return {"type": "object", "properties": properties, "required": ["content", "status"], **more}


def by_hand(tool: Tool) -> Schema:
    """As people write them: description beside the type, nothing about other properties."""
    return _object(tool, lambda p: _type(p, _task()) | {"description": p.words})


def zod(tool: Tool) -> Schema:
    """Zod 4's JSON Schema: every object closed, integers with the bounds of a double."""
    task = _task(additionalProperties=False)
    task["properties"]["priority"] = {"anyOf": [{"type": "number"}, {"type": "null"}]}

    def typed(parameter: Parameter) -> Schema:
        made = _type(parameter, task)
        if made.get("type") == "integer":
            made |= {"minimum": -_MAX, "maximum": _MAX}
        if parameter.kind == "m":
            made = {"type": "object", "propertyNames": {"type": "string"}, **made}
        return {"description": parameter.words, **made}

    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return draft | _object(tool, typed) | {"additionalProperties": False}


def schemars(tool: Tool) -> Schema:
    """Rust's schemars: definitions, number formats, null as a second type."""

    def typed(parameter: Parameter) -> Schema:
        made = _type(parameter, {"$ref": "#/definitions/Task"})
        if made.get("type") == "integer":
            made |= {"format": "uint32", "minimum": 0}
        if not parameter.required and "type" in made:
            made |= {"type": [made["type"], "null"], "default": None}
            made |= {"enum": [*made["enum"], None]} if "enum" in made else {}
        return {"description": parameter.words, **made}

    schema = _object(tool, typed)
    if any(p.kind == "t*" for p in tool.parameters):
        schema["definitions"] = {"Task": _task(title="Task")}
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return draft | schema | {"title": f"{tool.name.title().replace('_', '')}Input"}


def pydantic(tool: Tool) -> Schema:
    """Pydantic: ``$defs``, titles, ``anyOf`` with null for what may be left out."""
    nested = {"$ref": "#/$defs/Task"}

    def typed(parameter: Parameter) -> Schema:
        made = _type(parameter, nested)
        title = {"title": parameter.name.replace("_", " ").title()}
        if parameter.required:
            return made | title | {"description": parameter.words}
        return {"anyOf": [made, {"type": "null"}], "default": None, **title}

    schema = _object(tool, typed)
    if any(p.kind == "t*" for p in tool.parameters):
        state = {"enum": ["open", "done"], "title": "State", "type": "string"}
        task = _task(title="Task")
        task["properties"] |= {"status": {"$ref": "#/$defs/State"}}
        task["properties"] |= {"children": {"type": "array", "items": nested, "default": []}}
        schema = {"$defs": {"State": state, "Task": task}} | schema
    return schema | {"title": tool.name}


def strict(tool: Tool) -> Schema:
    """OpenAI's strict mode: all required, all closed, null where something may be missing."""
    task = _task(additionalProperties=False)
    task["properties"]["owner"] = {"anyOf": [{"$ref": "#/$defs/Owner"}, {"type": "null"}]}
    task["required"] = [*task["required"], "owner"]
    owner: Schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    owner |= {"required": ["name"], "additionalProperties": False}

    def typed(parameter: Parameter) -> Schema:
        made = _type(parameter, {"$ref": "#/$defs/Task"})
        if not parameter.required:
            made |= {"type": [made["type"], "null"]}
            made |= {"enum": [*made["enum"], None]} if "enum" in made else {}
        return made | {"description": parameter.words}

    defined: Mapping[str, Schema] = {"Task": task, "Owner": owner}
    nests = any(p.kind == "t*" for p in tool.parameters)
    names = [p.name for p in tool.parameters]
    schema = _object(tool, typed) | {"required": names, "additionalProperties": False}
    return schema | ({"$defs": dict(defined)} if nests else {})
