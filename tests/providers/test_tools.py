"""Any tools of a client's, from its request to what a CLI is told of them, and calls back again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from olp.dialects import openai_chat
from olp.model import Message, Request, Role, Tool, ToolCall
from olp.providers.claude import bridge as claude_bridge
from olp.providers.claude.history import lines_of
from olp.providers.codex import items as codex_items
from olp.providers.shared.tool_names import Names
from olp.providers.shared.tool_schemas import ANYTHING
from olp.providers.vibe.tools import Calls

PLAIN = re.compile(r"[A-Za-z0-9_-]{1,128}")
CODEX_OWN = {"exec_command", "shell_command", "request_user_input", "apply_patch"}
CLASHING = (
    *("exec_command", "client_exec_command", "apply_patch", "bash", "client_bash", "Bash"),
    *("mcp", "mcp__a__b", "client_mcp__a__b"),
    *("a.b", "a_b", "a/b", "a:b", "a-b", "größe", "gro_e", "9", "n_9", "n" * 128, "n" * 127 + "m"),
)
"""Names that become one where somebody maps them without care."""

names = st.lists(
    st.sampled_from(CLASHING) | st.from_regex(r"[\w.:/-]{1,128}", fullmatch=True),
    min_size=1,
    max_size=12,
    unique=True,
)

_words = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text(max_size=30),
        "title": st.text(max_size=5),
        "default": st.none() | st.integers(0, 9) | st.text(max_size=5),
        "examples": st.lists(st.integers(0, 9), max_size=2),
    },
)
_leaves = st.sampled_from(
    [
        *(True, {}, {"type": "null"}, {"type": ["string", "null"]}, {"$ref": "#/$defs/Odd"}),
        *({"type": "integer", "minimum": 0}, {"type": "string", "format": "date"}),
        *({"enum": ["a", 1, None]}, {"const": "x"}, {"type": "array"}, {"type": "object"}),
        {"type": "string", "pattern": "^a+$"},
    ]
) | st.sampled_from(["string", "integer", "number", "boolean"]).map(lambda kind: {"type": kind})


def _object(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(st.text(max_size=8), inner, max_size=4)
    closed = st.none() | st.booleans() | inner
    return st.tuples(properties, closed).map(_made_object)


def _made_object(parts: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    properties, closed = parts
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if properties:
        made["required"] = sorted(properties)[:1]
    return made if closed is None else {**made, "additionalProperties": closed}


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = inner.map(lambda one: {"type": "array", "items": one})
    either = st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda several: st.sampled_from([{"anyOf": several}, {"oneOf": several}])
    )
    both = st.tuples(_object(inner) | lists | either, _words)
    return both.map(lambda parts: {**parts[1], **parts[0]})


_schemas = st.recursive(_leaves, _larger, max_leaves=8)


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """With what it refers to."""
    refers = "#/$defs/Odd" in json.dumps(schema)
    return {**schema, "$defs": {"Odd": {"type": "integer"}}} if refers else schema


schemas: st.SearchStrategy[Any] = st.none() | st.just({}) | _object(_schemas).map(_complete)
"""Of arguments: valid, and such that the tools of people have."""

arguments = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


def decoded(tools: Sequence[Mapping[str, Any]], messages: Sequence[Any] = ()) -> Request:
    body = {
        "model": "m",
        "messages": list(messages) or [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": tool} for tool in tools],
    }
    return openai_chat.decode(json.dumps(body).encode()).request


def functions(named: Sequence[str], shaped: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools of these names, with schemas in turn."""
    made = []
    for index, name in enumerate(named):
        schema = shaped[index % len(shaped)]
        given = {} if schema is None else {"parameters": schema}
        made.append({"name": name, "description": f"Does {index}.", **given})
    return made


def wanted(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that a model must be told."""
    return {"type": "object", "properties": {}, **(function.get("parameters") or {})}


def listed(request: Request) -> list[dict[str, Any]]:
    """The tools as Claude Code gets them."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    [write] = claude_bridge.Bridge(request.tools).receive("r", {"message": message})
    assert write.data.count(b"\n") == 1, "a line, whatever is in it"
    response = json.loads(write.data)["response"]["response"]["mcp_response"]
    return list(response["result"]["tools"])


PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@given(names, st.lists(schemas, min_size=1, max_size=4))
def test_the_schemas_are_valid_and_go_to_claude_as_they_are(
    named: list[str], shaped: list[Any]
) -> None:
    mine = functions(named, shaped)
    for function in mine:
        Draft202012Validator.check_schema(function.get("parameters", {}))
    request = decoded(mine)
    assert [tool.name for tool in request.tools] == named
    told = listed(request)
    for number, (tool, function) in enumerate(zip(told, mine, strict=True)):
        if tool["inputSchema"] == wanted(function):
            assert tool["description"] == f"Does {number}."
        else:
            # The vendor takes no such names of arguments: the schema is told in words.
            assert tool["inputSchema"] == ANYTHING
            assert any(not PROPERTY.fullmatch(name) for name in wanted(function)["properties"])
            assert tool["description"].endswith(
                json.dumps(wanted(function), ensure_ascii=False, separators=(",", ":"))
            )


@given(names)
def test_names_go_there_and_back_one_to_one(named: list[str]) -> None:
    request = decoded(functions(named, [None]))
    for kind in (
        claude_bridge.names_of(request.tools),
        codex_items.names_of(request.tools),
        Names(request.tools, longest=64, taken=("bash", "edit"), identifier=True),
    ):
        shown = [kind.shown(name) for name in named]
        assert len(set(shown)) == len(named)
        assert all(PLAIN.fullmatch(name) for name in shown), shown
        assert [kind.inward(name) for name in shown] == named
        assert all(name in kind for name in shown)


@given(names)
def test_what_each_cli_is_told_has_the_names_that_come_back(named: list[str]) -> None:
    request = decoded(functions(named, [None]))
    claude = claude_bridge.names_of(request.tools)
    told = [claude_bridge.PREFIX + tool["name"] for tool in listed(request)]
    assert [claude.inward(name) for name in told] == named
    codex = codex_items.names_of(request.tools)
    outward = [tool["name"] for tool in codex_items.tools_of(request.tools, codex)["dynamicTools"]]
    assert [codex.inward(name) for name in outward] == named
    assert not CODEX_OWN & set(outward)
    assert not [name for name in outward if name == "mcp" or name.startswith("mcp__")]


@given(st.lists(schemas, min_size=1, max_size=4))
@settings(max_examples=200)
def test_codex_tells_the_model_all_of_a_schema(shaped: list[Any]) -> None:
    """Either it leaves nothing of it out, or the description has it in full."""
    mine = functions([f"f{n}" for n in range(len(shaped))], shaped)
    request = decoded(mine)
    kind = codex_items.names_of(request.tools)
    told = codex_items.tools_of(request.tools, kind)["dynamicTools"]
    for function, tool in zip(mine, told, strict=True):
        schema = wanted(function)
        assert tool["inputSchema"] == schema
        assert tool["description"].startswith(function["description"])
        in_full = tool["description"].rpartition(" in full: ")[2]
        whole = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        assert in_full == whole or as_codex_has_it(schema) == evened(schema)


_LEFT = {"type", "properties", "required", "items", "enum", "additionalProperties", "anyOf"}
_LEFT |= {"oneOf", "allOf", "$ref", "$defs", "definitions", "description", "minItems"}


def as_codex_has_it(schema: Any) -> Any:
    """What codex 0.171 makes of a schema, as it was seen to."""
    if isinstance(schema, bool):
        return {"type": "string"}
    left = {word: rule for word, rule in schema.items() if word in _LEFT}
    if "const" in schema:
        left["enum"] = [schema["const"]]
    if "enum" in left:
        left.setdefault("type", "string")
    if not {"type", "anyOf", "oneOf", "allOf", "$ref", "properties"} & left.keys():
        return {}
    if left.get("type") == "array":
        left.setdefault("items", {"type": "string"})
    for word, rule in left.items():
        if word in ("properties", "$defs", "definitions"):
            left[word] = {name: as_codex_has_it(inner) for name, inner in rule.items()}
        elif word in ("items", "additionalProperties") and isinstance(rule, dict):
            left[word] = as_codex_has_it(rule)
        elif word in ("anyOf", "oneOf", "allOf"):
            left[word] = [as_codex_has_it(inner) for inner in rule]
    return evened(left)


def evened(schema: Any) -> Any:
    """Without what says nothing: an empty list of properties."""
    if isinstance(schema, list):
        return [evened(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: evened(v) for k, v in schema.items() if (k, v) != ("properties", {})}


# --- calls of before ---------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from(CLASHING), arguments), min_size=1, max_size=4),
    st.lists(st.text(min_size=1, max_size=90), min_size=4, max_size=4, unique=True),
    st.booleans(),
)
def test_earlier_calls_reach_each_cli_with_their_arguments_and_results(
    called: list[tuple[str, dict[str, Any]]], ids: list[str], offered: bool
) -> None:
    calls = [
        {"id": id, "type": "function", "function": {"name": n, "arguments": json.dumps(given)}}
        for id, (n, given) in zip(ids, called, strict=False)
    ]
    results = [{"role": "tool", "tool_call_id": c["id"], "content": f"of {c['id']}"} for c in calls]
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *reversed(results),
    ]
    some = list(dict.fromkeys(name for name, _ in called)) if offered else ["another"]
    request = decoded(functions(some, [None]), messages)
    given = [(name, arguments) for name, arguments in called]
    told = [f"of {call['id']}" for call in calls]

    claude = claude_bridge.names_of(request.tools)
    lines = [json.loads(line.data) for line, _ in lines_of(request, request.turns, claude)]
    uses = lines[1]["message"]["content"]
    assert [(use["name"], use["input"]) for use in uses] == [(claude.shown(n), a) for n, a in given]
    back = lines[2]["message"]["content"]
    assert [use["id"] for use in uses] == [result["tool_use_id"] for result in back]
    assert [result["content"][0]["text"] for result in back] == told
    check_ids([use["id"] for use in uses])

    codex = codex_items.names_of(request.tools)
    items = codex_items.items_of(request.turns, codex)[1:]
    made, given_back = items[: len(calls)], items[len(calls) :]
    assert [(item["name"], json.loads(item["arguments"])) for item in made] == [
        (codex.outward(name), arguments) for name, arguments in given
    ]
    assert [item["call_id"] for item in made] == [item["call_id"] for item in given_back]
    assert [item["output"] for item in given_back] == told
    check_ids([item["call_id"] for item in made])


def check_ids(ids: list[str]) -> None:
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", id) for id in ids), ids


@given(names, st.lists(schemas, min_size=1, max_size=3))
def test_vibe_is_told_the_schemas_as_they_are(named: list[str], shaped: list[Any]) -> None:
    mine = functions(named, shaped)
    request = decoded(mine)
    told = Calls(request.tools, parallel=True).offered()
    assert [tool["inputSchema"] for tool in told] == [wanted(function) for function in mine]
    assert len({tool["name"] for tool in told}) == len(named)


def test_names_that_stand_in_each_others_way_stay_apart() -> None:
    for named in (
        ["a-b", "n_a_b", "n_a-b"],
        ["bash", "client_bash", "tb6f5d0a1_bash_", "client-bash"],
        ["x" * 128, "x" * 127 + "y", "x" * 64],
    ):
        tools = decoded(functions(named, [None])).tools
        kind = Names(tools, longest=64, taken=("bash",), identifier=True)
        shown = [kind.shown(name) for name in named]
        assert len(set(shown)) == len(named)
        assert [kind.inward(name) for name in shown] == named
        assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name) for name in shown)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (" { } ", {}),
        ("null", {}),
        ("{not json", {"unparsed_arguments": "{not json"}),
        ("[1,2]", {"unparsed_arguments": "[1,2]"}),
        ('{"a":' * 5000 + "1" + "}" * 5000, {"unparsed_arguments": ANY}),
    ],
)
def test_N2_arguments_that_are_no_object_are_told_to_claude_as_they_are(
    arguments: str, told: object
) -> None:
    call = ToolCall("c1", "f", arguments)
    turns = (
        Message(Role.USER, "u"),
        Message(Role.ASSISTANT, "", calls=(call,)),
        Message(Role.TOOL, "r", answers="c1"),
    )
    wanted = Request("m", turns, tools=(Tool("f", "", {"type": "object"}),))
    lines = [
        json.loads(line.data)
        for line, _ in lines_of(wanted, turns, claude_bridge.names_of(wanted.tools))
    ]
    uses = [b for line in lines for b in line["message"]["content"] if "input" in b]
    assert [use["input"] for use in uses] == [told]
