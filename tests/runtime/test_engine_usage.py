"""Breaker, holds, quota, cache and record at work, with fake CLIs and in a process of their own."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from olp.runtime.serving import service
from olp.runtime.usage.store import KEPT, UsageStore
from tests.conftest import OpenHouse, Serve
from tests.fakes.plan import Plan, Turn, dies, fails, hangs, says, turn
from tests.support import (
    BOTH,
    CHAT,
    PATIENCE_S,
    GoOn,
    House,
    Served,
    ask,
    open_house,
    runs,
    until,
    write_config,
)

COLD: dict[str, Any] = {"workers": {"max_processes": 0}}
"""No process is started ahead of a request: each spawn is a request's."""

PAIR = {"pair": ["claude/sonnet", "codex/gpt-5.5"]}


WIDE = {"codex": {"max_concurrent": 20}}
"""The second hop has room for all: nobody is sent back to the first."""


@pytest.fixture(autouse=True)
def no_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CLIs are not asked about themselves while a test looks at what is known."""
    monkeypatch.setattr(service, "SURVEY_AFTER_S", 3600.0)


def quota_of(house: House, provider: str = "claude") -> dict[str, Any]:
    return dict(house.service.health()["providers"][provider]["quota"])


def circuits_of(house: House, provider: str = "claude") -> list[dict[str, Any]]:
    return list(house.service.health()["providers"][provider]["open_circuits"])


def gauge(used: float, resets_at: float) -> list[Any]:
    """claude's own notice of how full its five-hour window is."""
    windows = {"five_hour": {"utilization": used, "resetsAt": resets_at}}
    info = {"status": "allowed", "unifiedWindows": windows}
    return ["json", {"type": "rate_limit_event", "rate_limit_info": info}]


def used_up(resets_at: float, kind: str = "five_hour") -> Turn:
    """claude with a used-up plan, or (`seven_day_opus`) a used-up limit of one model."""
    info = {"status": "rejected", "resetsAt": resets_at, "rateLimitType": kind}
    event = {"type": "rate_limit_event", "rate_limit_info": info}
    return turn(["init"], ["json", event], ["fail", "quota", {"limit": False}])


# --- F: the breaker ------------------------------------------------------------------------------


@BOTH
async def test_F1_twenty_at_once_cost_a_dead_provider_few_spawns(
    open_: OpenHouse, stream: bool
) -> None:
    threshold, most = 3, 4
    house = await open_(
        claude=turn(["init"], ["sleep", 0.05], ["exit", 1]),
        codex=says("saved"),
        chains=PAIR,
        providers={"claude": {"max_concurrent": most}, "codex": {"max_concurrent": 20}},
        breaker={"threshold": threshold},
        **COLD,
    )

    async def one(number: int) -> tuple[str, int]:
        await asyncio.sleep(0.01 * number)
        answer = await house.ask(stream, ask(f"question {number}", model="pair"))
        return answer.text, int(answer.headers["X-OLP-Fallback-Hops"])

    answers = await asyncio.gather(*(one(number) for number in range(20)))
    assert answers == [("saved", 1)] * 20
    assert house.plan.spawns()["claude"] <= threshold + most
    assert len(house.logged("breaker_opened")) == 1
    before = house.plan.spawns()["claude"]
    after = await asyncio.gather(*(house.chat(ask(f"again {n}", model="pair")) for n in range(5)))
    assert [answer.codes for answer in after] == [["CIRCUIT_OPEN"]] * 5
    assert house.plan.spawns()["claude"] == before


async def test_F3_an_open_target_is_skipped_without_a_process(open_: OpenHouse) -> None:
    house = await open_(
        claude=dies(), codex=says("saved"), chains=PAIR, breaker={"threshold": 1}, **COLD
    )
    await house.chat(ask("one", model="pair"))
    answer = await house.chat(ask("two", model="pair"))
    [store] = answer.detail
    assert (store["code"], store["trigger_type"]) == ("CIRCUIT_OPEN", "soft")
    assert "its last error: SPAWN_FAILED" in store["error_message"]
    assert house.plan.spawns() == {"claude": 1, "codex": 2}
    other = await house.chat(ask("three", model="claude/opus"))
    assert other.codes == ["SPAWN_FAILED"], "another model of the provider is another target"


@pytest.mark.parametrize("stays", ["answer", "die"])
async def test_F1_half_open_exactly_one_probes_while_the_others_skip(
    open_: OpenHouse, go_on: GoOn, stays: str
) -> None:
    last: list[Any] = [["say", "back"], ["end"]] if stays == "answer" else [["exit", 1]]
    house = await open_(
        claude=[dies(), turn(["init"], ["start"], go_on.wait, *last)],
        codex=says("saved"),
        chains=PAIR,
        providers=WIDE,
        breaker={"threshold": 1, "cooldown_s": 1.0},
        **COLD,
    )
    await house.chat(ask("one", model="pair"))
    assert [c["model"] for c in circuits_of(house)] == ["sonnet"]
    await asyncio.sleep(1.05)
    probe = asyncio.ensure_future(house.chat(ask("probe", model="pair")))
    await until(lambda: house.plan.spawns()["claude"] == 2, "the probe runs")
    others = await asyncio.gather(*(house.chat(ask(f"q{n}", model="pair")) for n in range(8)))
    assert [answer.codes for answer in others] == [["CIRCUIT_OPEN"]] * 8
    assert house.plan.spawns()["claude"] == 2
    go_on.now()
    assert (await probe).text == ("back" if stays == "answer" else "saved")
    await house.settled()
    assert bool(circuits_of(house)) == (stays == "die")
    assert len(house.logged("breaker_closed")) == (1 if stays == "answer" else 0)
    await house.chat(ask("last", model="pair"))
    assert house.plan.spawns()["claude"] == (3 if stays == "answer" else 2)


async def test_F2_a_probe_whose_client_leaves_lets_the_next_one_try(open_: OpenHouse) -> None:
    house = await open_(
        claude=[dies(), hangs(started=True), says("back")],
        codex=says("saved"),
        chains=PAIR,
        breaker={"threshold": 1, "cooldown_s": 0.2},
        **COLD,
    )
    await house.chat(ask("one", model="pair"))
    await asyncio.sleep(0.25)
    probe = asyncio.ensure_future(house.chat(ask("probe", model="pair")))
    await until(lambda: house.plan.spawns()["claude"] == 2, "the probe runs")
    probe.cancel()
    await until(lambda: not house.active, "it is gone")
    assert (await house.chat(ask("next", model="pair"))).text == "back"


@pytest.mark.parametrize("kind", ["quota", "login", "bad", "rate", "model"])
async def test_F2_what_is_not_the_providers_fault_is_not_counted(
    open_: OpenHouse, kind: str
) -> None:
    house = await open_(claude=fails(kind), codex=says("saved"), breaker={"threshold": 1}, **COLD)
    await house.chat(ask("one", model="claude/sonnet"))
    assert circuits_of(house) == []


async def test_F2_a_death_counts_salvaged_or_after_commit(open_: OpenHouse) -> None:
    house = await open_(claude=dies(after=["half"]), breaker={"threshold": 2}, **COLD)
    for stream in (False, True):
        answer = await house.ask(stream, ask("one", model="claude/sonnet"))
        assert answer.finish == "length"
    await until(lambda: circuits_of(house), "the circuit is open")


async def test_F4_a_chain_whose_circuits_are_all_open_still_tries_one(open_: OpenHouse) -> None:
    house = await open_(
        claude=[dies(), says("back")], codex=dies(), chains=PAIR, breaker={"threshold": 1}, **COLD
    )
    assert (await house.chat(ask("one", model="pair"))).status == 502
    answer = await house.chat(ask("two", model="pair"))
    assert (answer.text, answer.codes) == ("back", ["CIRCUIT_OPEN"])
    await house.settled()
    assert len(house.logged("breaker_forced_attempt")) == 1
    request_id = answer.headers["X-OLP-Request-Id"]
    await until(lambda: record_of(house).trace(request_id), "the trace is written")
    trace = record_of(house).trace(request_id)
    assert trace is not None
    assert [hop["code"] for hop in trace["hops"]] == [None, "CIRCUIT_OPEN"], "hop 0 answered"


async def test_F4_all_open_fail_is_503_with_the_time_to_wait(open_: OpenHouse) -> None:
    house = await open_(
        claude=dies(),
        codex=dies(),
        chains=PAIR,
        breaker={"threshold": 1, "all_open": "fail", "cooldown_s": 30},
        **COLD,
    )
    await house.chat(ask("one", model="pair"))
    answer = await house.chat(ask("two", model="pair"))
    assert answer.status == 503
    assert 25 <= int(answer.headers["Retry-After"]) <= 30
    assert answer.codes == ["CIRCUIT_OPEN"] * 2
    assert house.plan.spawns() == {"claude": 1, "codex": 1}


async def test_F5_E5_what_is_held_back_is_seen_and_forgotten_by_a_restart(
    tmp_path: Path, surroundings: pytest.MonkeyPatch, plan: Plan
) -> None:
    plan.set(claude=used_up(time.time() + 600), codex=dies())
    async with open_house(tmp_path, plan, {"breaker": {"threshold": 1}, **COLD}) as house:
        for model in ("claude/sonnet", "codex/gpt-5.5"):
            await house.chat(ask(model=model))
        health = (await house.request("GET", "/health")).body["providers"]
        [hold] = health["claude"]["quota"]["holds"]
        assert hold["model"] is None and 590 <= hold["next_probe_s"] <= 600
        [circuit] = health["codex"]["open_circuits"]
        assert circuit["model"] == "gpt-5.5" and 55 <= circuit["next_try_s"] <= 60
    plan.set(claude=says("ok"), codex=says("ok"))
    async with open_house(tmp_path, plan, COLD) as house:
        assert quota_of(house)["holds"] == [] and circuits_of(house, "codex") == []
        assert quota_of(house)["requests_today"] == 1, "but the count of the day stays"


# --- E: thresholds and holds ---------------------------------------------------------------------


@BOTH
async def test_E1_E4_a_threshold_skips_the_hop_until_its_window_resets(
    open_: OpenHouse, stream: bool
) -> None:
    resets_at = time.time() + 2.0
    full = turn(["init"], gauge(0.91, resets_at), ["start"], ["say", "first"], ["end"])
    house = await open_(
        claude=[full, says("back")],
        codex=says("saved"),
        chains=PAIR,
        providers={"claude": {"five_hour_window_percent_threshold": 90}},
        **COLD,
    )
    assert (await house.ask(stream, ask("one", model="pair"))).text == "first"
    answer = await house.ask(stream, ask("two", model="pair"))
    [store] = answer.detail
    assert (answer.text, store["code"], store["trigger_type"]) == (
        "saved",
        "SOFT_TRIGGER",
        "soft",
    )
    assert house.plan.spawns() == {"claude": 1, "codex": 1}
    [window] = quota_of(house)["windows"]
    assert (window["used_percent"], window["source"], window["fresh"]) == (91.0, "answer", True)
    await asyncio.sleep(max(0.0, resets_at - time.time()) + 0.05)
    assert (await house.ask(stream, ask("three", model="pair"))).text == "back"


async def test_E1_the_requests_of_the_day(open_: OpenHouse) -> None:
    house = await open_(
        claude=says("ok"),
        codex=says("saved"),
        chains={"pair": {"hops": PAIR["pair"], "daily_request_count_threshold": 2}},
        **COLD,
    )
    texts = [(await house.chat(ask(f"q{n}", model="pair"))).text for n in range(3)]
    assert texts == ["ok", "ok", "saved"]
    assert quota_of(house)["requests_today"] == 2


async def test_E4_A5_hop_0_skipped_and_the_rest_fail(open_: OpenHouse) -> None:
    house = await open_(
        claude=fails("rate"),
        codex=fails("rate"),
        chains={"pair": {"hops": PAIR["pair"], "daily_request_count_threshold": 1}},
        **COLD,
    )
    await house.chat(ask("one", model="claude/sonnet"))
    answer = await house.chat(ask("two", model="pair"))
    assert answer.codes == ["SOFT_TRIGGER", "RATE_LIMITED"]
    assert answer.status == 429 and answer.served == ("claude", "sonnet", 2)
    assert answer.headers["X-OLP-Fallback-Exhausted"] == "claude,codex"
    assert "1 request today, threshold 1" in answer.error["message"]
    assert "its last error: RATE_LIMITED" in answer.error["message"]


@pytest.mark.parametrize(
    ("provider", "threshold", "warned"),
    [
        ("vibe", "five_hour_window_percent_threshold", True),
        ("vibe", "daily_request_count_threshold", False),
        ("claude", "five_hour_window_percent_threshold", False),
    ],
)
async def test_E3_a_threshold_without_a_source_is_warned_of_at_the_start(
    open_: OpenHouse, provider: str, threshold: str, warned: bool
) -> None:
    house = await open_(providers={provider: {threshold: 50}}, **COLD)
    told = [
        (line["provider"], line["threshold"]) for line in house.logged("threshold_without_source")
    ]
    assert told == ([(provider, threshold)] if warned else [])


async def test_E5_a_used_up_plan_is_held_probed_and_lifted(open_: OpenHouse, go_on: GoOn) -> None:
    resets_at = time.time() + 2.0
    back = turn(["init"], ["start"], go_on.wait, ["say", "back"], ["end"])
    house = await open_(
        claude=[used_up(resets_at), back],
        codex=says("saved"),
        chains=PAIR,
        providers=WIDE,
        **COLD,
    )
    assert (await house.chat(ask("one", model="pair"))).codes == ["QUOTA_EXHAUSTED"]
    held = await house.chat(ask("two", model="pair"))
    [store] = held.detail
    assert (held.text, store["code"], store["trigger_type"]) == ("saved", "QUOTA_HOLD", "soft")
    alone = await house.chat(ask("three", model="claude/opus"))
    assert (alone.status, alone.codes) == (429, ["QUOTA_HOLD"])
    assert 1 <= int(alone.headers["Retry-After"]) <= 3
    assert house.plan.spawns()["claude"] == 1
    await asyncio.sleep(max(0.0, resets_at - time.time()) + 0.05)
    probe = asyncio.ensure_future(house.chat(ask("probe", model="pair")))
    await until(lambda: house.plan.spawns()["claude"] == 2, "the probe runs")
    others = await asyncio.gather(*(house.chat(ask(f"q{n}", model="pair")) for n in range(5)))
    assert [answer.codes for answer in others] == [["QUOTA_HOLD"]] * 5
    go_on.now()
    assert (await probe).text == "back"
    await house.settled()
    assert quota_of(house)["holds"] == []
    assert (await house.chat(ask("last", model="pair"))).text == "back"


async def test_E5_a_models_limit_does_not_hold_the_other_models(open_: OpenHouse) -> None:
    house = await open_(claude=[used_up(time.time() + 600, "seven_day_opus"), says("ok")], **COLD)
    assert (await house.chat(ask("one", model="claude/opus"))).codes == ["QUOTA_EXHAUSTED"]
    assert (await house.chat(ask("two", model="claude/opus"))).codes == ["QUOTA_HOLD"]
    assert (await house.chat(ask("three", model="claude/sonnet"))).text == "ok"
    assert [hold["model"] for hold in quota_of(house)["holds"]] == ["opus"]


async def test_E5_clearing_lets_the_next_request_find_out(open_: OpenHouse) -> None:
    house = await open_(claude=[used_up(time.time() + 600), says("back")], **COLD)
    await house.chat(ask("one", model="claude/sonnet"))
    nobodys = await house.request("POST", "/olp/quota/clear?provider=codex")
    assert nobodys.body == {"cleared": 0}
    assert (await house.request("POST", "/olp/quota/clear")).body == {"cleared": 1}
    assert (await house.chat(ask("two", model="claude/sonnet"))).text == "back"


# --- H, G4: the cache ----------------------------------------------------------------------------


@BOTH
async def test_H2_off_two_identical_requests_are_two_spawns(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"), **COLD)
    answers = [await house.ask(stream, ask("same")) for _ in range(2)]
    assert [answer.headers["X-OLP-Cache"] for answer in answers] == ["bypass"] * 2
    assert house.plan.spawns() == {"claude": 2}


@BOTH
async def test_H2_H3_on_two_identical_requests_are_one_spawn(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(
        claude=[says("one ", "answer"), says("another")], cache={"ttl_s": 60}, **COLD
    )
    first, second = [await house.ask(stream, ask("same")) for _ in range(2)]
    assert [a.headers["X-OLP-Cache"] for a in (first, second)] == ["miss", "hit"]
    assert first.text == second.text == "one answer"
    assert first.finish == second.finish == "stop"
    assert first.served == second.served
    assert house.plan.spawns() == {"claude": 1}
    other = await house.ask(stream, ask("other"))
    assert (other.text, other.headers["X-OLP-Cache"]) == ("another", "miss")


async def test_H3_no_cache_asks_again_and_keeps_nothing(open_: OpenHouse) -> None:
    house = await open_(claude=[says("1"), says("2"), says("3")], cache={"ttl_s": 60}, **COLD)
    bypass = {"Cache-Control": "no-cache"}
    told = []
    for headers in (bypass, None, bypass, None):
        answer = await house.chat(ask("same"), headers)
        told.append((answer.text, answer.headers["X-OLP-Cache"]))
    assert told == [("1", "bypass"), ("2", "miss"), ("3", "bypass"), ("2", "hit")]


async def test_H2_a_kept_answer_grows_old(open_: OpenHouse) -> None:
    house = await open_(claude=[says("1"), says("2")], cache={"ttl_s": 0.3}, **COLD)
    assert (await house.chat(ask("same"))).text == "1"
    await asyncio.sleep(0.35)
    assert (await house.chat(ask("same"))).text == "2"


@pytest.mark.parametrize(
    "bad",
    [dies(after=["half"]), turn(["init"], ["start"], ["say", "half"], ["end", "length"])],
    ids=["salvaged", "cut"],
)
async def test_G4_H3_what_is_not_whole_is_not_kept(open_: OpenHouse, bad: Turn) -> None:
    house = await open_(claude=[bad, says("whole")], cache={"ttl_s": 60}, **COLD)
    first = await house.chat(ask("same"))
    assert (first.text, first.finish) == ("half", "length")
    second = await house.chat(ask("same"))
    assert (second.text, second.headers["X-OLP-Cache"]) == ("whole", "miss")
    assert house.plan.spawns() == {"claude": 2}


async def test_G4_a_salvage_is_logged_as_not_kept(open_: OpenHouse) -> None:
    house = await open_(claude=dies(after=["half"]), cache={"ttl_s": 60}, **COLD)
    await house.chat(ask("same"))
    await house.settled()
    [line] = house.logged("cache_evicted_truncated")
    assert (line["level"], line["provider"], line["model"]) == ("info", "claude", "sonnet")


async def test_H3_an_answer_whose_client_left_is_not_kept(open_: OpenHouse) -> None:
    house = await open_(claude=[hangs(after=["half"]), says("whole")], cache={"ttl_s": 60}, **COLD)
    async with house.opened(ask("same")) as response:
        await response.content.readany()
    await until(lambda: not house.active, "the process is gone")
    answer = await house.stream(ask("same"))
    assert (answer.text, answer.headers["X-OLP-Cache"]) == ("whole", "miss")


async def test_H3_a_kept_answer_is_given_before_any_skip(open_: OpenHouse) -> None:
    """Its circuit is open and its day is over the threshold: what was kept costs neither."""
    house = await open_(
        claude=[says("kept"), dies()],
        codex=says("saved"),
        chains=PAIR,
        cache={"ttl_s": 60},
        breaker={"threshold": 1},
        **COLD,
    )
    await house.chat(ask("same", model="pair"))
    await house.chat(ask("other", model="pair"))
    assert circuits_of(house)
    answer = await house.chat(ask("same", model="pair"))
    assert (answer.text, answer.headers["X-OLP-Cache"], answer.detail) == ("kept", "hit", [])


# --- the record ----------------------------------------------------------------------------------


def record_of(house: House) -> UsageStore:
    return UsageStore(house.place.state / "olp.db")


async def test_L1_the_story_of_a_fallback_is_on_record(open_: OpenHouse) -> None:
    house = await open_(claude=fails("quota"), codex=says("saved"), chains=PAIR, **COLD)
    answer = await house.chat(ask("the secret word is swordfish", model="pair"))
    request_id = answer.headers["X-OLP-Request-Id"]
    await until(lambda: record_of(house).trace(request_id), "the trace is written")
    trace = record_of(house).trace(request_id)
    assert trace is not None
    assert (trace["asked"], trace["outcome"]) == ("pair", "answered (stop)")
    first, second = trace["hops"]
    assert (first["code"], first["trigger_type"], first["asked"]) == (
        "QUOTA_EXHAUSTED",
        "hard",
        True,
    )
    assert (second["code"], second["provider"], second["bytes_read"] > 0) == (None, "codex", True)
    assert trace["usage"]["output"] == 9
    assert "swordfish" not in json.dumps(trace) and "saved" not in json.dumps(trace)


def test_L1_the_last_thousand_stories_are_kept(tmp_path: Path) -> None:
    store = UsageStore(tmp_path / "olp.db")
    store.open()
    for number in range(KEPT + 20):
        store.keep({"request_id": str(number), "at": float(number)})
    store.close()
    assert store.problem is None
    assert store.trace("19") is None
    assert [store.trace(str(n)) is not None for n in (20, KEPT + 19)] == [True, True]
    assert store.trace() == {"request_id": str(KEPT + 19), "at": float(KEPT + 19)}
    assert (tmp_path / "olp.db").stat().st_mode & 0o777 == 0o600


def test_E2_the_counts_of_a_day_are_on_record(tmp_path: Path) -> None:
    store = UsageStore(tmp_path / "olp.db")
    assert store.counts("2027-01-15") == {}
    store.open()
    for provider in ("claude", "codex", "claude"):
        store.count("2027-01-15", provider)
    store.count("2027-01-16", "claude")
    store.close()
    assert UsageStore(tmp_path / "olp.db").counts("2027-01-15") == {"claude": 2, "codex": 1}


async def test_E2_the_counts_of_the_day_survive_a_restart(
    tmp_path: Path, surroundings: pytest.MonkeyPatch, plan: Plan
) -> None:
    plan.set(claude=says("ok"), codex=says("saved"))
    tables = {"chains": {"pair": {"hops": PAIR["pair"], "daily_request_count_threshold": 3}}}
    texts = []
    for _ in range(2):
        async with open_house(tmp_path, plan, {**tables, **COLD}) as house:
            texts += [(await house.chat(ask(f"q{n}", model="pair"))).text for n in range(2)]
    assert texts == ["ok", "ok", "ok", "saved"]


def _broken(db: Path) -> None:
    db.write_bytes(b"this is no database" * 1000)


def _a_folder(db: Path) -> None:
    db.mkdir()


def _nowhere(db: Path) -> None:
    db.symlink_to(db.parent / "no such folder" / "olp.db")


def _read_only(db: Path) -> None:
    """Root may write anything, so the database itself says that it may not be written."""
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE stories (x)")
        connection.execute("CREATE TABLE days (x)")
    connection.close()
    (db.parent / "olp.db-wal").mkdir()


@pytest.mark.parametrize("harm", [_broken, _a_folder, _nowhere, _read_only])
async def test_L4_a_record_that_cannot_be_written_costs_no_answer_and_is_told(
    tmp_path: Path,
    surroundings: pytest.MonkeyPatch,
    plan: Plan,
    harm: Callable[[Path], None],
) -> None:
    (tmp_path / "state").mkdir()
    harm(tmp_path / "state" / "olp.db")
    plan.set(claude=says("ok"))
    async with open_house(tmp_path, plan, COLD) as house:
        for number in range(3):
            assert (await house.chat(ask(f"q{number}"))).text == "ok"
        await until(lambda: house.service.health()["record"] != "ok", "health says so")
        assert quota_of(house)["requests_today"] == 3
        await house.settled()


async def test_L4_a_full_disk_costs_no_answer_and_is_told_until_there_is_room(
    open_: OpenHouse, go_on: GoOn
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=[slow, says("again")], **COLD)
    asking = asyncio.ensure_future(house.chat())
    await until(lambda: house.plan.spawns() == {"claude": 1}, "the CLI runs")
    await until(lambda: record_of(house).counts(_today()) == {"claude": 1}, "it is counted")
    with no_room():
        go_on.now()
        assert (await asking).text == "ok"
        await until(lambda: house.service.health()["record"] != "ok", "health says so")
    assert (await house.chat()).text == "again"
    await until(lambda: house.service.health()["record"] == "ok", "there is room again")


@contextmanager
def no_room() -> Iterator[None]:
    """No file of this process may grow, as on a full disk; a child that runs is not concerned."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _today() -> str:
    return datetime.now().strftime("%Y-%m-%d")


# --- a server in a process of its own, and the commands that talk to it --------------------------


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


class Town:
    """A served OLP and a shell beside it."""

    def __init__(self, served: Served, folder: Path, plan: Plan, tables: Mapping[str, Any]) -> None:
        self.served = served
        self.url = served.url()
        port = urlsplit(self.url).port
        (folder / "shell").mkdir(exist_ok=True)
        server = {"port": port, "state_dir": str(folder / "state")}
        self.config = write_config(
            folder / "shell" / "olp.toml", plan, {**tables, "server": server}
        )
        self.state = folder / "state"

    def chat(self, text: str = "hello", model: str = "auto") -> tuple[int, dict[str, str]]:
        """One request: its status and its headers."""
        data = json.dumps(ask(text, model=model)).encode()
        request = urllib.request.Request(self.url + CHAT, data)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                response.read()
                return response.status, dict(response.headers)
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers)

    def olp(self, *arguments: str) -> Ran:
        """A command of the same person."""
        done = subprocess.run(
            [sys.executable, "-m", "olp", *arguments],
            env={**os.environ, "OLP_CONFIG": str(self.config)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S * 2,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    def recorded(self, true: Callable[[UsageStore], Any]) -> None:
        """Wait until the record says so."""
        end = time.monotonic() + PATIENCE_S
        while not true(UsageStore(self.state / "olp.db")):
            assert time.monotonic() < end, "it is not on record"
            time.sleep(0.02)


@pytest.fixture
def town(serve: Serve, tmp_path: Path, plan: Plan) -> Callable[..., Town]:
    def start(**tables: Any) -> Town:
        tables = {**COLD, **tables}
        return Town(serve("--port", "0", **tables), tmp_path, plan, tables)

    return start


def test_L1_why_quota_and_status_of_a_running_server(town: Callable[..., Town], plan: Plan) -> None:
    plan.set(claude=used_up(time.time() + 600), codex=says("saved"))
    here = town(chains=PAIR)
    status, headers = here.chat("one", "pair")
    assert status == 200
    first = headers["X-OLP-Request-Id"]
    here.recorded(lambda store: store.trace(first))

    why = here.olp("why", first)
    assert why.code == 0
    lines = why.out.splitlines()
    assert lines[0].startswith(f"request {first} of owner")
    assert "asked for pair: answered (stop)" in lines[1]
    assert "hop 0 claude/sonnet: QUOTA_EXHAUSTED (hard)" in why.out
    assert "hop 1 codex/gpt-5.5: answered, started at" in why.out
    assert json.loads(here.olp("why", first, "--json").out)["request_id"] == first

    _, headers = here.chat("two", "pair")
    second = headers["X-OLP-Request-Id"]
    here.recorded(lambda store: store.trace(second))
    last = here.olp("why", "--last")
    assert last.out.startswith(f"request {second} ")
    assert "hop 0 claude/sonnet: skipped, QUOTA_HOLD (soft)" in last.out

    unknown = here.olp("why", "nobody")
    assert unknown.code != 0 and "no such request" in unknown.err
    assert here.olp("why").out == last.out, "without an id it is the last request"

    screen = here.olp("status").out
    assert "claude   used up until " in screen and "codex    ok" in screen
    assert "on hold (all models)" in screen and "pair     claude/sonnet > codex" in screen
    assert json.loads(here.olp("status", "--json").out)["record"] == "ok"

    plans = json.loads(here.olp("quota", "--json", "--cached").out)
    assert plans["claude"]["requests_today"] == 1
    assert [hold["model"] for hold in plans["claude"]["holds"]] == [None]
    assert plans["codex"]["requests_today"] == 2

    assert here.olp("quota", "clear", "nobody").code != 0
    assert here.olp("quota", "clear", "codex").out == "0 holds lifted\n"
    assert here.olp("quota", "clear").out == "1 hold lifted\n"
    assert json.loads(here.olp("quota", "--json", "--cached").out)["claude"]["holds"] == []


LIMITS = {"five_hour": {"utilization": 42.0, "resets_at": "2099-01-01T00:00:00+00:00"}}


def test_E2_quota_is_asked_without_a_request(town: Callable[..., Town], plan: Plan) -> None:
    plan.set(claude=says("ok"), surveys={"claude": {"limits": LIMITS}})
    here = town()
    told = json.loads(here.olp("quota", "--json").out)
    [window] = told["claude"]["windows"]
    assert (window["name"], window["used_percent"]) == ("five_hour", 42.0)
    assert (window["source"], window["fresh"]) == ("survey", True)
    assert window["age_s"] <= PATIENCE_S
    assert plan.calls() == [], "no request was made for it"
    picture = here.olp("quota", "--cached").out
    assert "five_hour" in picture and " 42.0 %" in picture and "█" in picture


def test_F5_without_a_server_status_says_so_and_quota_asks_the_clis(
    town: Callable[..., Town], plan: Plan
) -> None:
    plan.set(claude=says("ok"), surveys={"claude": {"limits": LIMITS}})
    here = town()
    assert here.chat()[0] == 200
    here.served.signal(signal.SIGTERM)
    assert here.served.wait() == 0
    for command in (("status",), ("quota", "clear")):
        ran = here.olp(*command)
        assert ran.code != 0
        assert "no OLP answers at" in ran.err and "olp serve" in ran.err
    assert here.olp("why", "--last").out.startswith("request ")
    told = json.loads(here.olp("quota", "--json").out)["claude"]
    assert told["requests_today"] == 1 and told["windows"][0]["used_percent"] == 42.0
    _broken(here.state / "olp.db")
    for extra in ("olp.db-wal", "olp.db-shm"):
        (here.state / extra).unlink(missing_ok=True)
    ran = here.olp("why", "--last")
    assert ran.code != 0 and "the usage database cannot be read" in ran.err


def test_E2_E5_a_killed_server_keeps_its_counts_forgets_its_holds_and_leaves_no_cli(
    town: Callable[..., Town], plan: Plan
) -> None:
    plan.set(claude=used_up(time.time() + 600), codex=says("ok"), vibe=hangs(started=True))
    here = town()
    here.chat("one", "claude/sonnet")
    assert here.chat("two", "codex/gpt-5.5")[0] == 200
    data = json.dumps(ask("three", model="vibe/m")).encode()
    with subprocess.Popen(
        [sys.executable, "-c", _POST, here.url + CHAT], stdin=subprocess.PIPE
    ) as client:
        assert client.stdin is not None
        client.stdin.write(data)
        client.stdin.close()
        here.recorded(lambda store: store.counts(_today()).get("vibe") == 1)
        end = time.monotonic() + PATIENCE_S
        while not plan.calls("vibe"):
            assert time.monotonic() < end
            time.sleep(0.02)
        here.served.signal(signal.SIGKILL)
        here.served.wait()
        client.wait(PATIENCE_S)
    [hanging] = plan.calls("vibe")
    again = town()
    assert not runs(hanging.pid), "the next start ends what a killed server left"
    plans = json.loads(again.olp("quota", "--json", "--cached").out)
    assert {name: p["requests_today"] for name, p in plans.items()} == {
        "claude": 1,
        "codex": 1,
        "vibe": 1,
    }
    assert plans["claude"]["holds"] == []


_POST = """
import sys, urllib.request
try:
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.stdin.buffer.read()), timeout=30)
except OSError:
    pass
"""
