"""The functions that a client offers to the model, and its tool choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from olp.dialects.schemas import schema_problem
from olp.errors import RequestError, unusable
from olp.formats import Budget
from olp.model import Tool

MAX_FORCED = 128
"""The most tools of which the client can require one to be called."""

MAX_DEPTH = 100
"""The deepest nesting of a tool's schema."""

_NAME = re.compile(r"[\w.:/-]{1,128}")


class ApiFunction(Struct):
    """A function definition, as in the API."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ApiTool(Struct):
    """A tool. Only functions are supported: other types need the vendor's servers."""

    type: str = "function"
    function: ApiFunction | None = None


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools that the model may call, and the names of which it has to call one, if any."""

    tools: tuple[Tool, ...] = ()
    must_call: tuple[str, ...] = ()


def toolbox(tools: Sequence[ApiTool], choice: object, path: str, choice_path: str) -> Toolbox:
    """The tools that `choice` allows. Raises RequestError (400) with the path of the invalid field.

    `path` and `choice_path` are the names of the parameters that the client used.
    """
    known: dict[str, Tool] = {}
    for index, tool in enumerate(tools):
        made = _tool(f"{path}[{index}]", tool)
        if made.name in known:
            raise unusable(f"{path}[{index}]", f"there are two tools named {made.name!r}")
        known[made.name] = made
    return _by_choice(known, choice, choice_path)


def _tool(path: str, tool: ApiTool) -> Tool:
    if tool.type != "function" or tool.function is None:
        raise RequestError(
            f"Unsupported value at {path}.type: only functions are supported.",
            code="unsupported_parameter",
            param=f"{path}.type",
        )
    function = tool.function
    if not _NAME.fullmatch(function.name):
        raise unusable(f"{path}.function.name", "1 to 128 letters, digits and _ - . : / are a name")
    schema = _parameters(function.parameters)
    # Only these are checked: vendors tolerate, and clients send, schemas that are not valid.
    if schema["type"] != "object":
        raise unusable(f"{path}.function.parameters", "arguments are an object")
    if _too_deep(schema):
        raise unusable(f"{path}.function.parameters", f"it is nested more than {MAX_DEPTH} deep")
    return Tool(function.name, function.description or "", schema)


def _parameters(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Normalize the schema of a function without arguments, which clients write in many ways."""
    given = {word: rule for word, rule in (schema or {}).items() if rule is not None}
    return {"type": "object", "properties": {}, **given}


def _too_deep(schema: Mapping[str, Any]) -> bool:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
    return bool(level)


def _by_choice(known: Mapping[str, Tool], choice: object, path: str) -> Toolbox:
    every = Toolbox(tuple(known.values()))
    match choice:
        case None | "auto":
            return every
        case "none":
            return Toolbox()
        case "required" | "any" if known:
            return _forced(known, tuple(known), path)
        case {"type": "function", "function": {"name": str(name)}} | {"name": str(name)}:
            if name not in known:
                raise unusable(path, f"there is no tool named {name[:128]!r}")
            return _forced(known, (name,), path)
        case {"type": "allowed_tools", "allowed_tools": {"tools": list(named), **rest}}:
            return _allowed(known, named, rest.get("mode"), path)
    raise unusable(path, "it is auto, none, required (with tools), or the name of one of the tools")


def _forced(known: Mapping[str, Tool], names: tuple[str, ...], path: str) -> Toolbox:
    """Require one of `names`. The arguments of the call are validated by OLP, so the schemas must
    be valid.
    """
    if len(names) > MAX_FORCED:
        raise unusable(path, f"of at most {MAX_FORCED} tools one can be insisted on")
    budget = Budget()
    for name in names:
        if problem := schema_problem(dict(known[name].parameters), budget):
            raise unusable(path, f"the parameters of {name!r} are no valid JSON Schema: {problem}")
    return Toolbox(tuple(known.values()), names)


def _allowed(known: Mapping[str, Tool], named: list[Any], mode: object, path: str) -> Toolbox:
    names = [_named(entry) for entry in named]
    if missing := next((name for name in names if name not in known), None):
        raise unusable(path, f"there is no tool named {missing[:128]!r}")
    return _by_choice({name: known[name] for name in names}, mode, f"{path}.mode")


def _named(entry: object) -> str:
    match entry:
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return name
    return "(a tool without a name)"
