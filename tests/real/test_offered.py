"""What the model is offered: the client's tools, whatever their names and schemas, and no other."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from .agent import (
    TOOL_CLIS,
    WEATHER,
    Agent,
    asked,
    calls_marker,
    calls_of,
    conversation,
    function,
    last_turns,
    offered,
    reaches,
    results_in,
)
from .conftest import CANARY
from .house import House
from .test_safety import TOOLS as HANDS
from .vendors.client import Vendors

every = pytest.mark.parametrize("cli", TOOL_CLIS)
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}

ODD_SCHEMAS: dict[str, Any] = {
    "nothing": NO_ARGUMENTS,
    "references": {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
            }
        },
    },
    "rules": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Rules",
        "type": "object",
        "properties": {
            "count": {"type": "integer", "format": "uint32", "minimum": 0, "default": 3},
            "order": {"type": ["string", "null"], "enum": ["asc", "desc", None]},
            "pattern": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 9},
            "map": {"type": "object", "propertyNames": {"pattern": "^x-"}},
            "either": {"oneOf": [{"const": 1}, {"not": {"type": "number"}}]},
        },
        "required": ["count"],
        "additionalProperties": False,
    },
    "long": {
        "type": "object",
        "properties": {
            f"property_{n}": {"type": "string", "description": f"Number {n}: " + "words " * 20}
            for n in range(60)
        },
    },
}


@every
def test_the_schemas_reach_the_model_whole(tooled: House, vendors: Vendors, cli: str) -> None:
    mine = [function(name, schema, f"Does {name}.") for name, schema in ODD_SCHEMAS.items()]
    agent = Agent(tooled, cli, [*mine, function("bare", None)])
    agent.say("hi [[OK]]")
    found = offered(asked(vendors, cli)[-1], cli)
    assert set(found) == {*ODD_SCHEMAS, "bare"}
    assert found["bare"].schema == NO_ARGUMENTS
    for name, schema in ODD_SCHEMAS.items():
        said = found[name].description or ""
        assert said.startswith(f"Does {name}.")
        assert reaches(found[name], schema)
        if cli == "claude":
            assert (found[name].schema, said) == (schema, f"Does {name}.")


def _with(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


ODD: dict[str, dict[str, Any]] = {
    "a tuple": _with(a={"type": "array", "items": [{"type": "string"}]}),
    "a property with an umlaut": _with(größe={"type": "string"}),
    "an array of anything": _with(a={"type": "array"}),
    "an enum of several types": _with(a={"enum": ["a", 1, None]}),
    "anything": _with(a=True),
    "described alone": _with(a={"description": "Whatever it is."}),
}
"""Valid, and yet no CLI takes them all as they are."""

INVALID: dict[str, dict[str, Any]] = {
    "a description of null": _with(a={"type": "string", "description": None}),
    "required of null": {**NO_ARGUMENTS, "required": None},
    "properties of null": {"type": "object", "properties": None},
    "required in the property": _with(a={"type": "string", "required": True}),
    "a type that is none": _with(a={"type": "any"}),
}
"""What somebody's client sends all the same."""


@every
@pytest.mark.parametrize("name", [*ODD, *INVALID])
def test_no_tool_is_left_out_and_no_schema_changed_without_a_word(
    tooled: House, vendors: Vendors, cli: str, name: str
) -> None:
    schema = ODD.get(name) or INVALID[name]
    answer = Agent(tooled, cli, [function("odd", schema, "Is odd."), WEATHER]).say("hi [[OK]]")
    assert answer.status == 200, answer.body
    found = offered(asked(vendors, cli)[-1], cli)
    assert set(found) == {"odd", "weather"}
    assert name in INVALID or reaches(found["odd"], schema), found["odd"]


ODD_NAMES = (
    *("Bash", "Read", "Task", "StructuredOutput", "exec_command", "shell", "shell_command"),
    *("apply_patch", "update_plan", "view_image", "web_search", "request_user_input"),
    *("read_file", "bash", "skill", "fs.read", "a/b:c", "a_b_c", "n" * 128, "n" * 127 + "m"),
)
"""Such as the CLIs' own tools have, and such as no CLI takes as they are."""

MCP_NAMES = ("mcp__client__weather", "mcp__github__search", "mcp", "client_weather")
"""Such as the CLIs give to tools of their users' servers, and other agents too."""


@every
@pytest.mark.parametrize("names", [ODD_NAMES, MCP_NAMES], ids=["odd", "mcp"])
def test_a_tool_may_have_any_name(
    tooled: House, vendors: Vendors, cli: str, names: tuple[str, ...]
) -> None:
    mine = [function(name, NO_ARGUMENTS, f"Is {name}!") for name in names]
    assert Agent(tooled, cli, mine).say("hi [[OK]]").status == 200
    found = offered(asked(vendors, cli)[-1], cli)
    by_name = {(tool.description or "")[3:-1]: tool.name for tool in found.values()}
    assert set(by_name) == set(names)
    agent = Agent(tooled, cli, mine, {"stream": True})
    answer = agent.say(calls_marker(*({"name": by_name[name]} for name in names)))
    assert [call.name for call in calls_of(answer)] == list(names)
    assert conversation(agent.give(*(f"of {name}" for name in names))) == "live"
    told = results_in(last_turns(vendors, cli))
    assert sorted(told.values()) == sorted(f"of {name}" for name in names)


@pytest.mark.parametrize(("cli", "hand"), [(c, hand) for c in TOOL_CLIS for hand in HANDS[c]])
def test_M2_with_tools_the_model_still_gets_none_of_the_clis_own(
    tooled: House, vendors: Vendors, cli: str, hand: str, tmp_path: Path
) -> None:
    """Where the client has a tool of the very name, that one is called or none."""
    victim, secret = tmp_path / "made-by-the-model", tooled.home / "secret.txt"
    command = f"cat {secret} > {victim}"
    patch = f"*** Begin Patch\n*** Add File: {victim}\n+x\n*** End Patch"
    path = str(secret if hand == "Read" else victim)
    arguments = {"command": command, "cmd": command, "file_path": path, "content": "x"}
    arguments |= {"url": "http://127.0.0.1:1/", "input": patch}
    agent = Agent(tooled, cli, [function(hand, NO_ARGUMENTS), WEATHER])
    answer = agent.say(f"[[EVIL:{hand}:{json.dumps(arguments)}]]")
    if answer.status == 200 and agent.messages[-1].get("tool_calls"):
        assert [call.name for call in calls_of(answer)] == [hand]
        agent.give("nothing was done")
    assert not victim.exists()
    assert CANARY not in answer.body.decode()
    assert not any(CANARY in request.body for request in vendors.requests())


def _tail(cli: str) -> str:
    """What has no switch for it is ended when the call is seen; by then it would have asked again
    if the vendor's answer were over at that moment and the machine busy with other things."""
    return "" if cli == "vibe" else "[[TAIL:0.5]]"


@every
@pytest.mark.parametrize("mine", [(), (WEATHER,)], ids=["without tools", "with tools"])
def test_A9_a_tool_that_is_not_there_costs_one_request(
    tooled: House, vendors: Vendors, cli: str, mine: tuple[Any, ...]
) -> None:
    answer = Agent(tooled, cli, mine).say(f"go [[LOOP:12:nosuch]] {_tail(cli)}")
    assert (answer.status, answer.json["error"]["code"]) == (502, "spawn_failed")
    time.sleep(0.3)
    assert len(asked(vendors, cli)) == 1


@every
def test_A9_arguments_that_are_no_json_are_for_the_client_to_see(
    tooled: House, vendors: Vendors, cli: str
) -> None:
    agent = Agent(tooled, cli)
    [call] = calls_of(agent.say(f'go [[CALL:weather:{{"city": Bern}}]] [[THEN:OK]] {_tail(cli)}'))
    assert call.arguments.startswith('{"city":')
    time.sleep(0.3)
    assert len(asked(vendors, cli)) == 1, "the CLI did not answer it by itself"
    second = agent.give("that was no JSON")
    assert (second.status, conversation(second)) == (200, "replayed")
    assert list(results_in(last_turns(vendors, cli)).values()) == ["that was no JSON"]


@every
def test_A9_a_call_that_the_vendors_limit_cut_is_told_as_cut(
    tooled: House, vendors: Vendors, cli: str
) -> None:
    agent = Agent(tooled, cli)
    answer = agent.say(f'go [[CUTCALL:weather:{{"city": "Be]] {_tail(cli)}')
    assert (answer.status, answer.finish) == (200, "length"), answer.body
    time.sleep(0.3)
    assert len(asked(vendors, cli)) == 1, "the CLI did not go on by itself"
