"""A CLI that waits with its call open: how long, for whom, and what happens when it is gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.people import make_key

from .agent import (
    TOOL_CLIS,
    Agent,
    asked,
    call_marker,
    calls_marker,
    calls_of,
    conversation,
    last_turns,
    parked,
    results_in,
    settle,
    workers,
)
from .conftest import Clis
from .house import House, configuration, serving
from .vendors.client import Vendors
from .vendors.reading import Simple

every = pytest.mark.parametrize("cli", TOOL_CLIS)
BERN = call_marker("weather", {"city": "Bern"})
PATIENCE_S = 10.0


@contextmanager
def own_house(clis: Clis, vendors: Vendors, folder: Path, **workers: Any) -> Iterator[House]:
    """A house with `[workers]` of its own. No CLI is started before a request needs it."""
    found = {name: clis.need(name) for name in TOOL_CLIS}
    config = configuration(found, vendors, workers=workers)
    for name in TOOL_CLIS:
        config["providers"][name]["warm"] = 0
    with serving(config, folder) as house:
        yield house


def wait_for_parked(house: House, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while (found := parked(house)) != count:
        assert time.monotonic() < end, f"{found} are parked, not {count}"
        time.sleep(0.05)


def wait_until_ended(pids: Sequence[int]) -> None:
    end = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, "a process that waited is still there"
        time.sleep(0.05)


def shape(agent: Agent, vendors: Vendors) -> list[Simple]:
    """The vendor's last turns without the names, which a CLI may prefix."""
    told = last_turns(vendors, agent.cli)
    return [(*turn[:2], turn[3]) if turn[0] == "call" else turn for turn in told]


def check_replayed(agent: Agent, vendors: Vendors, result: str = "sunny") -> None:
    """The result goes to another process, which is told of the call as what it was."""
    id = agent.messages[-1]["tool_calls"][0]["id"]
    answer = agent.give(result)
    assert (answer.status, answer.text, answer.finish) == (200, result, "stop")
    assert conversation(answer) == "replayed"
    assert shape(agent, vendors) == [
        ("user", agent.messages[0]["content"]),
        ("call", id, {"city": "Bern"}),
        ("result", id, result),
    ]
    assert calls_of(answer) == [], "a call of before is no new one"


@every
def test_it_outlives_its_clients_connection(tooled: House, vendors: Vendors, cli: str) -> None:
    others = parked(tooled)
    agent = Agent(tooled, cli)
    agent.say(f"outlives {BERN}")  # its connection is closed with the answer
    wait_for_parked(tooled, others + 1)
    time.sleep(0.5)
    assert conversation(agent.give("sunny")) == "live"
    settle(tooled, others)
    assert len(asked(vendors, cli)) == 2


@every
def test_a_killed_one_is_replaced(tooled: House, vendors: Vendors, cli: str) -> None:
    others = parked(tooled)
    agent = Agent(tooled, cli)
    agent.say(f"killed {BERN}")
    wait_for_parked(tooled, others + 1)
    for pid in workers(tooled, cli):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    check_replayed(agent, vendors)
    settle(tooled, others)


@every
def test_what_the_user_says_without_the_results(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli)
    [call] = calls_of(agent.say(f"never mind {BERN}"))
    answer = agent.say("forget it [[SAY:forgotten]]")
    assert (answer.status, answer.text, answer.finish) == (200, "forgotten", "stop")
    told = shape(agent, vendors)
    assert [turn[0] for turn in told] == ["user", "call", "result", "user"]
    assert told[1][1] == told[2][1] == call.id
    assert "cancelled" in told[2][2]
    assert conversation(agent.say("and now [[OK]]")) == "live"


@every
def test_what_the_user_says_beside_the_results(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli)
    [call] = calls_of(agent.say(f"beside {BERN}"))
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    answer = agent.ask(result, {"role": "user", "content": "be brief [[SAY:sun]]"})
    assert (answer.status, answer.text, answer.finish) == (200, "sun", "stop")
    told = shape(agent, vendors)
    assert [turn[0] for turn in told] == ["user", "call", "result", "user"]
    assert told[2] == ("result", call.id, "sunny")


def test_one_that_waits_too_long_is_ended(clis: Clis, vendors: Vendors, tmp_path: Path) -> None:
    with own_house(clis, vendors, tmp_path, parked_s=1) as house:
        agents = [Agent(house, cli) for cli in TOOL_CLIS]
        began = time.monotonic()
        for agent in agents:
            agent.say(f"too long {BERN}")
        pids = [pid for cli in TOOL_CLIS for pid in workers(house, cli)]
        assert len(pids) >= len(TOOL_CLIS)
        wait_for_parked(house, 0)
        assert time.monotonic() - began >= 1
        wait_until_ended(pids)
        for agent in agents:
            check_replayed(agent, vendors)


def test_of_too_many_the_oldest_goes(clis: Clis, vendors: Vendors, tmp_path: Path) -> None:
    with own_house(clis, vendors, tmp_path, parked=1) as house:
        for first, second in ("claude", "codex"), ("codex", "claude"):
            oldest, other = Agent(house, first), Agent(house, second)
            for agent in (oldest, other):
                agent.say(f"{first} first {BERN}")
            wait_for_parked(house, 1)
            assert conversation(other.give("sunny")) == "live"
            check_replayed(oldest, vendors)


def test_where_none_may_wait(clis: Clis, vendors: Vendors, tmp_path: Path) -> None:
    with own_house(clis, vendors, tmp_path, parked=0) as house:
        for cli in TOOL_CLIS:
            agent = Agent(house, cli)
            agent.say(f"never {BERN}")
            assert parked(house) == 0
            check_replayed(agent, vendors)


def test_after_a_restart_of_the_server(clis: Clis, vendors: Vendors, tmp_path: Path) -> None:
    with own_house(clis, vendors, tmp_path) as house:
        agents = [Agent(house, cli) for cli in TOOL_CLIS]
        for agent in agents:
            agent.say(f"restart {BERN}")
        assert parked(house) == len(TOOL_CLIS)
        pids = [pid for cli in TOOL_CLIS for pid in workers(house, cli)]
    assert len(pids) >= len(TOOL_CLIS)
    wait_until_ended(pids)
    with own_house(clis, vendors, tmp_path) as house:
        for agent in agents:
            agent.house = house
            check_replayed(agent, vendors)


def test_M3_nobody_gets_what_another_waits_for(
    clis: Clis, vendors: Vendors, tmp_path: Path
) -> None:
    """Not even with the same ids in the same conversation."""
    keys = [make_key(tmp_path / "state", name) for name in ("anna", "bert")]
    same = calls_marker({"name": "weather", "args": {"city": "Bern"}, "id": "toolu_same"})
    with own_house(clis, vendors, tmp_path) as house:
        for cli in TOOL_CLIS:
            anna, bert = (Agent(house, cli, key=key) for key in keys)
            assert calls_of(anna.say(same))[0].id == "toolu_same"
            bert.messages = list(anna.messages)
            stolen = bert.give("what bert says")
            assert (stolen.text, conversation(stolen)) == ("what bert says", "replayed")
            answer = anna.give("what anna says")
            assert (answer.text, conversation(answer)) == ("what anna says", "live")

            anna, bert = (Agent(house, cli, key=key) for key in keys)
            for agent in (anna, bert):
                agent.say(f"both {same}")
            for agent, words in ((bert, "only bert"), (anna, "only anna")):
                answer = agent.give(words)
                assert (answer.text, conversation(answer)) == (words, "live")
                assert results_in(last_turns(vendors, cli)) == {"toolu_same": words}
