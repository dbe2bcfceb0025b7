"""The client's tools on the real CLIs: calls and results, one and several, and text beside them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from .agent import (
    STEP,
    TOOL_CLIS,
    WEATHER,
    Agent,
    asked,
    beginning,
    call_marker,
    calls_marker,
    calls_of,
    conversation,
    function,
    last_turns,
    results_in,
    usage_of,
)
from .house import House
from .test_answers import JSON_SCHEMA
from .vendors.client import Vendors

every = pytest.mark.parametrize("cli", TOOL_CLIS)
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
BERN = call_marker("weather", {"city": "Bern"})
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


@every
@both
def test_a_call_and_its_result(tooled: House, vendors: Vendors, cli: str, stream: bool) -> None:
    agent = Agent(tooled, cli, more={"stream": stream})
    first = agent.say(call_marker("weather", {"city": "Zürich"}))
    [call] = calls_of(first)
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Zürich"})
    assert (first.finish, usage_of(first), conversation(first)) == ("tool_calls", (25, 15), "new")
    assert agent.messages[-1]["content"] is None
    second = agent.give("sunny, 25 °C")
    assert (second.text, second.finish) == ("sunny, 25 °C", "stop")
    assert (usage_of(second), conversation(second)) == ((25, 15), "live")
    third = agent.say("thanks [[SAY:bye]]")
    assert (third.text, conversation(third)) == ("bye", "live")
    assert [turn[0] for turn in last_turns(vendors, cli)] == [
        *("user", "call", "result", "assistant", "user")
    ]
    assert len(asked(vendors, cli)) == 3, "one request to the vendor for each of the client's"


@every
def test_each_request_of_a_conversation_begins_with_the_one_before(
    tooled: House, vendors: Vendors, cli: str
) -> None:
    """What a vendor's prompt cache needs, byte by byte."""
    agent = Agent(tooled, cli, [WEATHER, STEP])
    agent.messages.append({"role": "system", "content": "You are SYSTEM-MARK."})
    agent.say(f"before {BERN}")
    agent.give("sunny")
    agent.say(f"once more {BERN}")
    agent.give("rainy")
    sent = [beginning(request) for request in asked(vendors, cli)]
    assert len(sent) == 4
    for (before, items), (before_then, items_then) in pairwise(sent):
        assert before_then == before
        assert len(items_then) > len(items)
        assert items_then[: len(items)] == items


# --- several calls -----------------------------------------------------------------------------

THREE = calls_marker(
    *({"name": "weather", "args": {"city": city}} for city in ("Bern", "Basel", "Genf"))
)


@every
@both
def test_several_calls_at_once(tooled: House, vendors: Vendors, cli: str, stream: bool) -> None:
    agent = Agent(tooled, cli, more={"stream": stream})
    calls = calls_of(agent.say(THREE))
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Bern", "Basel", "Genf"]
    assert len({call.id for call in calls}) == 3
    backwards = {call.id: f"for {call.arguments}" for call in reversed(calls)}
    answer = agent.give_to(backwards)
    assert (conversation(answer), answer.finish) == ("live", "stop")
    assert results_in(last_turns(vendors, cli)) == backwards


@every
def test_a_call_without_a_result_is_cancelled(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli)
    calls = calls_of(agent.say(THREE))
    answer = agent.give_to({calls[2].id: "third", calls[0].id: "first"})
    assert answer.status == 200
    told = results_in(last_turns(vendors, cli))
    assert (told[calls[0].id], told[calls[2].id]) == ("first", "third")
    assert "cancelled" in told[calls[1].id]
    assert len(told) == 3


@every
def test_one_call_at_a_time(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli, more={"stream": True, "parallel_tool_calls": False})
    first = agent.say(THREE)
    [call] = calls_of(first)
    assert (json.loads(call.arguments), first.finish) == ({"city": "Bern"}, "tool_calls")
    second = agent.give("sunny")
    assert (second.status, second.finish) == (200, "stop")
    told = results_in(last_turns(vendors, cli))
    assert told[call.id] == "sunny"
    assert all("cancelled" in text for id, text in told.items() if id != call.id)
    assert agent.say("on [[SAY:still here]]").text == "still here"


# --- text and calls ----------------------------------------------------------------------------


@every
@both
def test_what_is_said_before_a_call_comes_first(
    tooled: House, vendors: Vendors, cli: str, stream: bool
) -> None:
    agent = Agent(tooled, cli, more={"stream": stream})
    first = agent.say('[[SAYCALL:I will look it up. |weather:{"city": "Bern"}]]')
    assert (first.text.strip(), first.finish) == ("I will look it up.", "tool_calls")
    [call] = calls_of(first)
    assert json.loads(call.arguments) == {"city": "Bern"}
    if stream:
        deltas = [c["delta"] for e in first.events for c in e["choices"]]
        kinds = [key for d in deltas for key in ("content", "tool_calls") if d.get(key)]
        assert kinds == sorted(kinds) and kinds.count("content") > 1
    second = agent.give("sunny")
    assert (second.text, conversation(second)) == ("sunny", "live")
    kinds = [turn[0] for turn in last_turns(vendors, cli)]
    assert kinds == ["user", "assistant", "call", "result"]


@every
def test_a_stop_string_cuts_before_a_call_and_after_it(
    tooled: House, vendors: Vendors, cli: str
) -> None:
    agent = Agent(tooled, cli, more={"stream": True, "stop": ["HALT"]})
    cut = agent.say('[[SAYCALL:one two HALT three |weather:{"city": "Bern"}]]')
    assert (cut.text, cut.finish, calls_of(cut)) == ("one two ", "stop", [])
    assert agent.say(f"again {BERN}").finish == "tool_calls"
    answer = agent.give("sunny HALT rainy")
    assert (answer.text, answer.finish) == ("sunny ", "stop")


@every
@both
def test_a_call_without_arguments_has_an_empty_object(
    tooled: House, vendors: Vendors, cli: str, stream: bool
) -> None:
    agent = Agent(tooled, cli, [function("now", NO_ARGUMENTS)], {"stream": stream})
    [call] = calls_of(agent.say("[[CALL:now]]"))
    assert (call.name, call.arguments) == ("now", "{}")
    assert agent.give("noon").text == "noon"


@every
@both
def test_tools_and_a_schema_for_the_answer(
    tooled: House, vendors: Vendors, cli: str, stream: bool
) -> None:
    agent = Agent(tooled, cli, more={"stream": stream, "response_format": JSON_SCHEMA})
    first = agent.say(BERN + '[[THEN:JSON:{"answer": 42}]]')
    assert ([call.name for call in calls_of(first)], first.finish) == (["weather"], "tool_calls")
    second = agent.give("sunny")
    assert (json.loads(second.text), second.finish) == ({"answer": 42}, "stop")
    assert conversation(second) == "live"
    bad = Agent(tooled, cli, more=agent.more)
    bad.say(BERN + '[[THEN:JSON:{"answer": "x"}]]')
    failed = bad.give("sunny")
    if failed.status == 200:  # its first bytes were out already
        assert stream and failed.finish is None
        assert failed.events[-1]["error"]["code"] == "format_mismatch"
    else:
        assert (failed.status, failed.json["error"]["code"]) == (502, "format_mismatch")
