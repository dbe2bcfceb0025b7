"""Calls that the client insists on or forbids, and functions, as tools were called before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from .agent import (
    CITY,
    TOOL_CLIS,
    WEATHER,
    Agent,
    asked,
    call_marker,
    calls_of,
    conversation,
    function,
    last_turns,
    usage_of,
)
from .house import Answer, House
from .test_answers import VENDOR, WORDS
from .vendors.client import Vendors, tools

every = pytest.mark.parametrize("cli", TOOL_CLIS)
MOVE: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"$ref": "#/$defs/Place"}, "fast": {"type": "boolean"}},
    "required": ["to"],
    "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}
TOOLS = (WEATHER, function("move", MOVE, "Moves."))
NAMED = {"type": "function", "function": {"name": "weather"}}
ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "required", "tools": [NAMED]},
}


@every
@pytest.mark.parametrize(
    ("choice", "stream"), [(NAMED, False), (ALLOWED, True)], ids=["named", "allowed"]
)
def test_a_named_function_is_called(
    tooled: House, vendors: Vendors, cli: str, choice: Any, stream: bool
) -> None:
    agent = Agent(tooled, cli, TOOLS, {"stream": stream})
    first = agent.say('[[FORCED:{"city": "Bern"}]]', tool_choice=choice)
    [call] = calls_of(first)
    assert call.name == "weather"
    Draft202012Validator(CITY).validate(json.loads(call.arguments))
    assert json.loads(call.arguments) == {"city": "Bern"}
    assert (first.finish, usage_of(first)) == ("tool_calls", (25, 15))
    assert agent.messages[-1]["content"] is None
    second = agent.give("sunny", tool_choice="auto")
    assert (second.status, second.finish) == (200, "stop")
    kinds = [turn[:2] if turn[0] == "result" else turn[0] for turn in last_turns(vendors, cli)]
    assert kinds == ["user", "call", ("result", call.id)]


@every
@pytest.mark.parametrize(("name", "stream"), [("weather", False), ("move", True)])
def test_some_function_has_to_be_called(
    tooled: House, vendors: Vendors, cli: str, name: str, stream: bool
) -> None:
    given = {"weather": {"city": "Bern"}, "move": {"to": {"x": 3}, "fast": True}}[name]
    wanted = json.dumps({"name": name, "arguments": given})
    agent = Agent(tooled, cli, TOOLS, {"stream": stream, "tool_choice": "required"})
    first = agent.say(f"[[FORCED:{wanted}]]")
    [call] = calls_of(first)
    assert (call.name, json.loads(call.arguments)) == (name, given)
    assert first.finish == "tool_calls"
    schema = CITY if name == "weather" else MOVE
    Draft202012Validator(schema).validate(json.loads(call.arguments))


@every
def test_a_loop_of_forced_calls_gives_each_its_own_id(
    tooled: House, vendors: Vendors, cli: str
) -> None:
    agent = Agent(tooled, cli, more={"tool_choice": "required"})
    ids = [calls_of(agent.say('[[FORCED:{"city": "Bern"}]]'))[0].id]
    for _ in range(3):
        answer = agent.give("the same")
        assert answer.finish == "tool_calls"
        ids += [call.id for call in calls_of(answer)]
    assert len(set(ids)) == 4


@every
@pytest.mark.parametrize(
    ("said", "choice", "stream"),
    [
        ('{"city": 5}', NAMED, False),
        ('{"city": 5}', NAMED, True),
        ('{"name": "weather", "arguments": {"to": {}}}', "required", False),
        ('{"name": "weather", "arguments": {"to": {}}}', "required", True),
    ],
)
def test_a_forced_call_whose_arguments_do_not_fit_is_given_and_told(
    tooled: House, vendors: Vendors, cli: str, said: str, choice: Any, stream: bool
) -> None:
    agent = Agent(tooled, cli, TOOLS, {"stream": stream, "tool_choice": choice})
    answer = agent.say(f"[[FORCED:{said}]]")
    [call] = calls_of(answer)
    assert call.name == "weather"
    given = json.loads(said)
    assert json.loads(call.arguments) == given.get("arguments", given)
    remark = answer.headers.get("X-OLP-Call-Mismatch", "") + answer.body.decode()
    assert "it breaks the schema at $" in remark
    assert len(asked(vendors, cli)) == 1, "A9: nobody asks again"


@every
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("order", "choice"),
    [
        ('[[FORCED:{"name": "fly", "arguments": {}}]]', "required"),
        ("hi [[SAY:I would rather not call it.]]", NAMED),
    ],
    ids=["another", "talk"],
)
def test_what_is_no_forced_call_at_all_is_an_error(
    tooled: House, vendors: Vendors, cli: str, stream: bool, order: str, choice: Any
) -> None:
    agent = Agent(tooled, cli, TOOLS, {"stream": stream, "tool_choice": choice})
    answer = agent.say(order)
    assert (answer.status, answer.json["error"]["code"]) == (502, "format_mismatch")


@every
def test_without_a_choice_no_tool_is_offered(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli, more={"tool_choice": "none"})
    assert agent.say("hi [[SAY:no tools]]").text == "no tools"
    assert not tools(asked(vendors, cli)[-1])


@every
def test_earlier_calls_are_known_where_none_is_allowed_any_more(
    tooled: House, vendors: Vendors, cli: str
) -> None:
    agent = Agent(tooled, cli)
    agent.say(call_marker("weather", {"city": "Bern-MARK"}))
    vendors.scenario(VENDOR[cli], "OK")
    answer = agent.give("sunny-MARK", tool_choice="none")
    assert (answer.status, answer.text, answer.finish) == (200, WORDS, "stop")
    last = asked(vendors, cli)[-1]
    assert "Bern-MARK" in last.body and "sunny-MARK" in last.body
    assert not tools(last)


# --- functions, as they were ------------------------------------------------------------------


def function_call(answer: Answer) -> dict[str, str]:
    """The call of an answer in the old form."""
    if not answer.events:
        return dict(answer.json["choices"][0]["message"]["function_call"])
    deltas = [c["delta"] for e in answer.events for c in e.get("choices", ())]
    pieces = [delta["function_call"] for delta in deltas if delta.get("function_call")]
    assert [piece["name"] for piece in pieces if "name" in piece] == [pieces[0]["name"]]
    arguments = "".join(piece.get("arguments", "") for piece in pieces)
    return {"name": pieces[0]["name"], "arguments": arguments}


@every
@pytest.mark.parametrize(
    ("choice", "stream"), [("auto", False), ("auto", True), ({"name": "weather"}, True)]
)
def test_functions_of_the_old_form(
    tooled: House, vendors: Vendors, cli: str, choice: Any, stream: bool
) -> None:
    order = call_marker("weather", {"city": "Bern"}) if choice == "auto" else ""
    order = order or '[[FORCED:{"city": "Bern"}]]'
    more = {"stream": stream, "functions": [WEATHER["function"]]}
    agent = Agent(tooled, cli, (), more)
    first = agent.say(f"{order}[[THEN:SAY:so it is sunny]]", function_call=choice)
    made = function_call(first)
    assert (made["name"], json.loads(made["arguments"])) == ("weather", {"city": "Bern"})
    assert first.finish == "function_call"
    agent.messages[-1] = {"role": "assistant", "content": None, "function_call": made}
    second = agent.ask({"role": "function", "name": "weather", "content": "sunny"})
    assert (second.status, second.text, second.finish) == (200, "so it is sunny", "stop")
    kinds = [turn[0] for turn in last_turns(vendors, cli)]
    assert kinds == ["user", "call", "result"]
    assert conversation(agent.say("thanks [[OK]]")) == "live"
