"""The client's tools and images on the real vibe, which takes tools by a socket at its start."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from olp.providers.vibe.tools import TAKEN
from olp.runtime.usage.store import UsageStore
from tests.clients import CLIENTS

from .agent import (
    STEP,
    WEATHER,
    Agent,
    asked,
    call_marker,
    calls_marker,
    calls_of,
    conversation,
    function,
    last_turns,
    message_of,
    parked,
    results_in,
    settle,
)
from .conftest import CANARY
from .house import Answer, House
from .test_offered import INVALID, ODD
from .vendors.client import Vendors, tools

ROUNDS = 30
BERN = call_marker("weather", {"city": "Bern"})
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}


@pytest.fixture
def vibe(waiting_house: House, vendors: Vendors) -> House:
    waiting_house.command("/olp/quota/clear")
    return waiting_house


@pytest.mark.parametrize("stream", [False, True])
def test_N1_a_call_and_its_result(vibe: House, vendors: Vendors, stream: bool) -> None:
    agent = Agent(vibe, "vibe", [WEATHER, STEP], {"stream": stream})
    first = agent.say(f"first {BERN}")
    (call,) = calls_of(first)
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Bern"})
    assert conversation(first) == "new"
    second = agent.give("sunny")
    assert (conversation(second), message_of(second)["content"]) == ("live", "sunny")
    sent = [json.loads(request.body) for request in asked(vendors, "vibe")]
    assert len(sent) == 2
    assert sent[1]["messages"][: len(sent[0]["messages"])] == sent[0]["messages"]
    assert sent[1]["tools"] == sent[0]["tools"]


def test_N1_the_tools_as_they_are_beside_its_own(vibe: House, vendors: Vendors) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"enum": ["x", None]}},
        "$defs": {"A": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    mine = [function("look", schema, "Looks."), function("read_file"), function("a-b.c")]
    agent = Agent(vibe, "vibe", mine)
    (call,) = calls_of(agent.say(f"go {call_marker('client_read_file', {'city': CANARY})}"))
    assert (call.name, json.loads(call.arguments)) == ("read_file", {"city": CANARY})
    assert message_of(agent.give("done"))["content"] == "done"
    told = {tool.name: tool for tool in tools(asked(vendors, "vibe")[0])}
    assert told["look"].schema == schema and told["look"].description == "Looks."
    assert "client_read_file" in told and len(told) == 6 + 3


def test_N1_text_before_a_call_comes_first(vibe: House) -> None:
    agent = Agent(vibe, "vibe", [WEATHER])
    answer = agent.say('look [[SAYCALL:let me see|weather:{"city": "Bern"}]]')
    assert message_of(answer)["content"] == "let me see"
    assert [call.name for call in calls_of(answer)] == ["weather"]
    assert message_of(agent.give("sunny"))["content"] == "sunny"


def test_N1_schemas_as_clients_write_them(vibe: House, vendors: Vendors) -> None:
    odd = {f"odd_{n}": schema for n, schema in enumerate((ODD | INVALID).values())}
    mine = [function(name, schema, "Is odd.") for name, schema in odd.items()]
    answer = Agent(vibe, "vibe", mine).say("hi [[OK]]")
    assert answer.status == 200, answer.body
    told = {tool.name: tool for tool in tools(asked(vendors, "vibe")[-1])}
    assert set(odd) <= set(told)


def test_N1_several_calls_at_once_and_one_without_a_result(vibe: House, vendors: Vendors) -> None:
    agent = Agent(vibe, "vibe", [WEATHER])
    cities = [{"name": "weather", "args": {"city": city}} for city in ("Bern", "Rom", "Oslo")]
    calls = calls_of(agent.say(f"go {calls_marker(*cities)}"))
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Bern", "Rom", "Oslo"]
    answer = agent.give_to({calls[2].id: "cold", calls[0].id: "mild"})
    assert conversation(answer) == "live"
    told = results_in(last_turns(vendors, "vibe"))
    assert (told[calls[0].id], told[calls[2].id]) == ("mild", "cold")
    assert "cancelled" in told[calls[1].id]


def test_N1_one_call_at_a_time(vibe: House) -> None:
    agent = Agent(vibe, "vibe", [WEATHER], {"parallel_tool_calls": False})
    cities = [{"name": "weather", "args": {"city": city}} for city in ("Bern", "Rom")]
    assert len(calls_of(agent.say(f"go {calls_marker(*cities)}"))) == 1
    assert conversation(agent.give("mild")) == "live"


def test_N1_a_loop_of_thirty_calls_on_one_process(vibe: House, vendors: Vendors) -> None:
    others = parked(vibe)
    agent = Agent(vibe, "vibe", [STEP], {"stream": True})
    seen = [conversation(agent.say(f"work [[LOOP:{ROUNDS}:step]]"))]
    seen += [conversation(agent.give(f"did {n}")) for n in range(ROUNDS)]
    assert agent.messages[-1]["content"] == f"done after {ROUNDS}"
    assert seen == ["new"] + ["live"] * ROUNDS
    assert len(asked(vendors, "vibe")) == ROUNDS + 1
    settle(vibe, others)


def test_N1_a_result_that_it_would_cut_is_told_again_whole(vibe: House, vendors: Vendors) -> None:
    agent = Agent(vibe, "vibe", [WEATHER])
    agent.say(f"go {BERN}")
    long = "x" * 800_000 + "END [[OK]]"
    answer = agent.give(long)
    assert answer.status == 200, answer.body
    assert conversation(answer) == "replayed"
    assert long in json.loads(asked(vendors, "vibe")[-1].body)["messages"][-1]["content"]


def test_N1_a_long_conversation_is_the_vendors_to_judge(vibe: House, vendors: Vendors) -> None:
    long = "x" * 3_000_000
    assert Agent(vibe, "vibe", [WEATHER]).say(f"{long} [[OK]]").status == 200
    assert long in asked(vendors, "vibe")[-1].body


def test_N1_a_call_that_the_client_insists_on(vibe: House) -> None:
    named = {"type": "function", "function": {"name": "weather"}}
    agent = Agent(vibe, "vibe", [WEATHER, STEP], {"tool_choice": named})
    order = '[[FORCED:{"city": "Bern"}]]'
    (call,) = calls_of(agent.say(f"go {order}"))
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Bern"})


def test_N1_images_are_seen(vibe: House) -> None:
    agent = Agent(vibe, "vibe", ())
    vibe.wait_until_ready(["vibe"])
    answer = agent.say([{"type": "text", "text": "what is it? [[SEE]]"}, IMAGE])
    assert "image/png" in message_of(answer)["content"]


def test_N1_images_are_seen_beside_tools(vibe: House, vendors: Vendors) -> None:
    agent = Agent(vibe, "vibe", [WEATHER])
    answer = agent.say([{"type": "text", "text": "what is it? [[SEE]]"}, IMAGE])
    assert "image/png" in message_of(answer)["content"]
    assert "weather" in {tool.name for tool in tools(asked(vendors, "vibe")[0])}


@pytest.mark.parametrize("name", [client.name for client in CLIENTS if client.uses_tools])
def test_N1_what_programs_send(vibe: House, vendors: Vendors, name: str) -> None:
    (client,) = [client for client in CLIENTS if client.name == name]
    shown = f"client_{client.tool}" if client.tool in TAKEN else client.tool
    marker = call_marker(shown, client.arguments)
    body = client.first("vibe/mockm", f"please {marker}")
    first = vibe.post(body)
    calls = calls_of(first)
    assert [call.name for call in calls] == [client.tool], first.body[:300]
    follow = client.follow(body, message_of(first), {calls[0].id: "it is done"})
    second = vibe.post(follow)
    if name == "cline":  # says more than the results: the conversation is told anew, its order too
        assert (second.status, conversation(second)) == (200, "replayed")
        return
    assert "it is done" in message_of(second)["content"]
    assert conversation(second) == "live"


@pytest.mark.cold_vibe
def test_A9_a_tool_of_its_own_costs_one_request(oneshot_house: House, vendors: Vendors) -> None:
    answer = oneshot_house.chat("go [[EVIL:skill]]", "vibe/mockm")
    assert (answer.status, answer.json["error"]["code"]) == (502, "spawn_failed")
    assert len(asked(vendors, "vibe")) == 1


OWN = {
    "bash": {"command": "ls -la"},
    "read_file": {"path": "README.md"},
    "edit": {"file_path": "a.py", "old_string": "b", "new_string": "c"},
    "write_file": {"path": "a.py", "content": "x"},
}


@pytest.mark.parametrize("tool", OWN)
def test_N1_a_call_of_its_own_tool_goes_to_the_clients(
    vibe: House, vendors: Vendors, tool: str
) -> None:
    agent = Agent(vibe, "vibe", [WEATHER, function(tool)])
    (call,) = calls_of(agent.say(f"go [[EVIL:{tool}:{json.dumps(OWN[tool])}]]"))
    assert (call.name, json.loads(call.arguments)) == (tool, OWN[tool])
    assert len(asked(vendors, "vibe")) == 1
    answer = agent.give("it is done")
    assert conversation(answer) == "live" and "it is done" in message_of(answer)["content"]
    assert len(asked(vendors, "vibe")) == 2


@pytest.mark.parametrize("tool", OWN)
def test_M2_a_call_of_its_own_tool_does_nothing(vibe: House, vendors: Vendors, tool: str) -> None:
    """The model is told so within the request."""
    agent = Agent(vibe, "vibe", [WEATHER])
    answer = agent.say(f"go [[EVIL:{tool}:{json.dumps(OWN[tool])}]]")
    assert f"{tool} is switched off. There are: weather." in answer.text
    assert len(asked(vendors, "vibe")) == 2


@pytest.mark.parametrize("tool", ["bash", "read_file", "run_typescript", "write_file"])
@pytest.mark.parametrize("theirs", [(), ("bash", "read_file", "run_typescript", "write_file")])
def test_M2_nothing_of_this_machine_is_touched(
    vibe: House, vendors: Vendors, tmp_path: Path, tool: str, theirs: tuple[str, ...]
) -> None:
    secret, made = tmp_path / "secret.txt", tmp_path / "made"
    secret.write_text(CANARY, "utf-8")
    script = f'await tools.file_system.bash({{command: "cat {secret}; touch {made}"}})'
    does = {
        "bash": {"command": f"cat {secret}; touch {made}"},
        "read_file": {"path": str(secret)},
        "run_typescript": {"code": f"async function main() {{ return {script} }}"},
        "write_file": {"path": str(made), "content": "x"},
    }
    agent = Agent(vibe, "vibe", [WEATHER, *map(function, theirs)])
    answer = agent.say(f"look at @{secret} [[EVIL:{tool}:{json.dumps(does[tool])}]]")
    if calls_of(answer):
        answer = agent.give("no")
    assert answer.status == 200 and not made.exists()
    assert all(CANARY not in request.body for request in asked(vendors, "vibe"))


def test_N1_each_turn_tells_its_own_usage(vibe: House, vendors: Vendors) -> None:
    agent = Agent(vibe, "vibe", [STEP])
    seen: list[tuple[int, int]] = []
    for read in (1000, 2000, 3000):
        vendors.usage(input_tokens=read, output_tokens=read // 100)
        answer = agent.give("did") if seen else agent.say("work [[LOOP:2:step]]")
        seen.append((answer.json["usage"]["prompt_tokens"], answer.json["usage"]["total_tokens"]))
    assert seen == [(1000, 1010), (2000, 2020), (3000, 3030)]


def story_of(house: House, answer: Answer) -> dict[str, Any]:
    """The book's, which is written in the background."""
    record, id = UsageStore(house.state / "olp.db"), answer.headers["X-OLP-Request-Id"]
    end = time.monotonic() + 10
    while (trace := record.trace(id)) is None and time.monotonic() < end:
        time.sleep(0.05)
    assert trace is not None
    return dict(trace)


def test_N1_an_own_tool_is_counted_in_the_book_and_not_in_the_turn(
    vibe: House, vendors: Vendors
) -> None:
    vendors.usage(input_tokens=1000, output_tokens=10)
    answer = Agent(vibe, "vibe", [WEATHER]).say("go [[EVIL:bash]]")
    assert len(asked(vendors, "vibe")) == 2
    assert answer.json["usage"]["prompt_tokens"] == 1000
    spent = story_of(vibe, answer)["usage"]
    assert (spent["input"], spent["output"]) == (2000, 20)


def test_N1_a_schema_beyond_its_bounds_is_told_in_words(vibe: House, vendors: Vendors) -> None:
    schema = {"type": "object", "properties": {"city": {"maximum": 9007199254740992}}}
    agent = Agent(vibe, "vibe", [function("look", schema, "Looks.")])
    (call,) = calls_of(agent.say(f"go {call_marker('look', {'city': 'Bern'})}"))
    assert json.loads(call.arguments) == {"city": "Bern"}
    (told,) = [tool for tool in tools(asked(vendors, "vibe")[0]) if tool.name == "look"]
    assert "9007199254740992" in (told.description or "")


def test_N1_no_path_of_this_machine_goes_to_the_vendor(vibe: House, vendors: Vendors) -> None:
    Agent(vibe, "vibe", [WEATHER]).say("hi [[OK]]")
    vibe.chat("hi [[OK]]", "vibe/mockm")
    for request in asked(vendors, "vibe"):
        assert str(vibe.state) not in request.body and str(vibe.home) not in request.body


def test_N1_the_first_word_with_tools_is_quick(vibe: House) -> None:
    """Whatever the tools: nothing about them is known to the process that waits."""
    seconds = []
    for count in range(1, 6):
        vibe.wait_until_ready(["vibe"])
        agent = Agent(vibe, "vibe", [function(f"tool_{n}") for n in range(count)])
        began = time.monotonic()
        agent.say(f"go {call_marker('tool_0', {'city': 'Bern'})}")
        middle = time.monotonic()
        agent.give("sunny")
        seconds.append((middle - began, time.monotonic() - middle))
    first, turn = (min(column) for column in zip(*seconds, strict=True))
    assert (first, turn) < (1.5, 1.0), "alone it is 0.25 s and 0.09 s"
