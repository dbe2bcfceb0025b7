"""Agents at work: long loops, the programs that people use, large results, and how fast it is."""

from __future__ import annotations

import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.clients import CLIENTS, Client

from .agent import (
    STEP,
    TOOL_CLIS,
    WEATHER,
    Agent,
    asked,
    call_marker,
    calls_of,
    conversation,
    last_turns,
    message_of,
    offered,
    parked,
    reaches,
    results_in,
    settle,
    workers,
)
from .house import House
from .test_answers import MODELS
from .vendors.client import Vendors, turns

every = pytest.mark.parametrize("cli", TOOL_CLIS)
ROUNDS = 30
BERN = call_marker("weather", {"city": "Bern"})


@every
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_loop_of_thirty_calls_with_the_openai_sdk(
    tooled: House, vendors: Vendors, cli: str, stream: bool
) -> None:
    others, seen = parked(tooled), list[str]()
    messages: list[Any] = [{"role": "user", "content": f"work [[LOOP:{ROUNDS}:step]]"}]
    before: set[int] = set()
    with openai.OpenAI(base_url=f"{tooled.url}/v1", api_key="any", max_retries=0) as sdk:
        for round in range(ROUNDS + 1):
            message, conversed = _asked(sdk, MODELS[cli], messages, stream=stream)
            seen.append(conversed)
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            [call] = message.tool_calls
            assert json.loads(call.function.arguments) == {"step": round + 1}
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"did {round}"})
            if round == 1:
                tooled.wait_until_ready([cli])
                before = set(workers(tooled, cli))
    assert message.content == f"done after {ROUNDS}"
    assert seen == ["new"] + ["live"] * ROUNDS
    assert len(asked(vendors, cli)) == ROUNDS + 1
    assert list(results_in(last_turns(vendors, cli)).values()) == [
        f"did {n}" for n in range(ROUNDS)
    ]
    assert set(workers(tooled, cli)) <= before, "nothing was started since"
    settle(tooled, others)


@every
def test_agents_at_once_have_each_their_own(tooled: House, vendors: Vendors, cli: str) -> None:
    def work(name: str) -> list[str]:
        agent = Agent(tooled, cli, [STEP], {"stream": True})
        seen = [conversation(agent.say(f"{name} [[LOOP:4:step]]"))]
        seen += [conversation(agent.give(f"{name} did {n}")) for n in range(4)]
        assert agent.messages[-1]["content"] == "done after 4"
        return seen

    names = ("anna", "bert", "carl")
    with ThreadPoolExecutor() as pool:
        seen = list(pool.map(work, names))
    assert seen == [["new"] + ["live"] * 4] * 3
    for request in asked(vendors, cli):
        told = turns(request)
        [name] = [name for name in names if str(told[0][1]).startswith(name)]
        results = list(results_in(told).values())
        assert results == [f"{name} did {n}" for n in range(len(results))]


def _asked(sdk: openai.OpenAI, model: str, messages: list[Any], *, stream: bool) -> Any:
    """The SDK's message, and what OLP said of the conversation."""
    tools: Any = [STEP]
    if not stream:
        raw = sdk.chat.completions.with_raw_response.create(
            model=model, messages=messages, tools=tools
        )
        return raw.parse().choices[0].message, raw.headers["X-OLP-Conversation"]
    with sdk.chat.completions.stream(model=model, messages=messages, tools=tools) as events:
        final = events.get_final_completion()
        return final.choices[0].message, events._response.headers["X-OLP-Conversation"]


TOOL_USERS = [client for client in CLIENTS if client.uses_tools]


@every
@pytest.mark.parametrize("client", TOOL_USERS, ids=lambda client: client.name)
def test_the_programs_that_people_use(
    tooled: House, vendors: Vendors, cli: str, client: Client
) -> None:
    body = client.first(MODELS[cli], call_marker(client.tool, client.arguments))
    first = tooled.post(body)
    [call] = calls_of(first)
    assert (call.name, json.loads(call.arguments)) == (client.tool, client.arguments)
    assert first.finish == "tool_calls"
    wanted = {tool["function"]["name"]: tool["function"] for tool in client.tools}
    found = offered(asked(vendors, cli)[-1], cli)
    assert set(found) == set(wanted)
    result = '{"done": "RESULT-MARK"}'
    second = tooled.post(client.follow(body, message_of(first), {call.id: result}))
    assert (second.status, second.finish) == (200, "stop")
    assert "RESULT-MARK" in second.text
    assert calls_of(second) == []
    assert conversation(second) == ("replayed" if client.after else "live")
    [told] = results_in(last_turns(vendors, cli)).values()
    assert "RESULT-MARK" in told
    for name, one in found.items():
        schema = {"type": "object", "properties": {}, **wanted[name].get("parameters", {})}
        assert reaches(one, schema), (one.schema, schema)
        assert (one.description or "").startswith((wanted[name].get("description") or "").strip())


@every
def test_a_large_result_arrives_whole(tooled: House, vendors: Vendors, cli: str) -> None:
    large = "BEGIN" + "x" * 1_000_000 + "é" * 1_000_000 + "END"
    agent = Agent(tooled, cli)
    [call] = calls_of(agent.say(f"large {BERN}[[THEN:SAY:that was much]]"))
    answer = agent.give(large)
    assert (answer.status, answer.text, answer.finish) == (200, "that was much", "stop")
    assert results_in(last_turns(vendors, cli))[call.id] == large
    assert conversation(agent.say("on [[OK]]")) == "live"


@every
@pytest.mark.parametrize("size", [489_000, 491_000])
def test_a_result_near_what_a_cli_cuts_arrives_whole(
    tooled: House, vendors: Vendors, cli: str, size: int
) -> None:
    large = "".join(f"line {n}\n" for n in range(size // 8))[:size] + "END"
    agent = Agent(tooled, cli)
    [call] = calls_of(agent.say(f"near {BERN}[[THEN:OK]]"))
    assert agent.give(large).status == 200
    assert results_in(last_turns(vendors, cli))[call.id] == large


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_chain_moves_on_in_the_middle_of_the_work(
    tooled: House, vendors: Vendors, stream: bool
) -> None:
    """What the first CLI called is known to the second as what it is."""
    agent = Agent(tooled, "claude", model="short", more={"stream": stream})
    [call] = calls_of(agent.say("chain [[LOOP:2:weather]]"))
    vendors.scenario("anthropic", "QUOTA")
    second = agent.give("first")
    assert second.headers["X-OLP-Provider-Used"] == "codex"
    assert second.detail[0]["code"] == "QUOTA_EXHAUSTED"
    [again] = calls_of(second)
    assert json.loads(again.arguments) == {"step": 2}
    kinds = [turn[0] for turn in last_turns(vendors, "codex")]
    assert kinds == ["user", "call", "result"]
    third = agent.give("second")
    assert (third.text, third.finish) == ("done after 2", "stop")
    assert (third.headers["X-OLP-Provider-Used"], conversation(third)) == ("codex", "live")
    told = results_in(last_turns(vendors, "codex"))
    assert told == {call.id: "first", again.id: "second"}


@every
def test_a_vendors_failure_after_a_result_is_told(
    tooled: House, vendors: Vendors, cli: str
) -> None:
    others = parked(tooled)
    agent = Agent(tooled, cli)
    agent.say(BERN + "[[THEN:THROTTLE]]")
    answer = agent.give("sunny")
    assert (answer.status, answer.json["error"]["code"]) == (429, "rate_limit_exceeded")
    settle(tooled, others)


def test_a_refusal_after_a_result_is_one(tooled: House, vendors: Vendors) -> None:
    """Codex does not tell of one."""
    agent = Agent(tooled, "claude")
    agent.say(BERN + "[[THEN:REFUSE]]")
    answer = agent.give("sunny")
    assert (answer.status, answer.finish) == (200, "content_filter")


def test_a_result_is_answered_quickly(
    tooled: House, vendors: Vendors, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a result to the last byte of the next call, on a claude that waits for it."""
    agent = Agent(tooled, "claude", [STEP, WEATHER], {"stream": True})
    agent.say("[[LOOP:11:step]]")
    spent = []
    for n in range(10):
        began = time.monotonic()
        answer = agent.give(f"did {n}")
        spent.append((time.monotonic() - began) * 1000)
        assert conversation(answer) == "live"
    agent.give("the last")
    median = statistics.median(spent)
    with capsys.disabled():
        print(f" [claude, result to last byte: {median:.0f} ms] ", end="")
    assert median < 500, "on a machine that has much else to do"
