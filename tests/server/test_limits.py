"""Limits of a person, a fair share of what is short, and the jobs that nobody asked for."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from collections import Counter
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from olp.cli.compose import find_providers
from olp.core.admission.queue import Queue
from olp.core.keys import keyfile
from olp.core.keys.key_usage import DayUsage
from olp.runtime.access import people
from olp.runtime.access.keyring import Keyring
from olp.runtime.usage.store import UsageStore
from tests.conftest import OpenHouse, Serve
from tests.fakes.plan import Plan, fails, hangs, says, turn
from tests.server.people import COLD, key_of, make_key
from tests.server.test_auth import refused
from tests.support import BOTH, Answer, GoOn, House, Served, ask, connected, open_house, until

WIDE = {"claude": {"max_concurrent": 200}}
MANY = {"server": {"max_requests": 200}, "providers": WIDE, **COLD}


def used(state: Path) -> dict[str, tuple[int, int, int]]:
    """What the record says of today, by name."""
    names = {key.id: key.name for key in Keyring(state).look().keys}
    today = UsageStore(state / "olp.db").people(datetime.now().strftime("%Y-%m-%d"))
    return {
        names.get(person, person): (count.requests, count.tokens, count.background)
        for person, count in today.items()
    }


def final(answer: Answer, code: str = "insufficient_quota", status: int = 429) -> str:
    """The message of a limit: to be asked again later, and not at once."""
    assert answer.headers["x-should-retry"] == "false"
    assert int(answer.headers["Retry-After"]) > 0
    assert "X-OLP-Fallback-Detail" not in answer.headers
    return refused(answer, status, code)


# --- requests ------------------------------------------------------------------------------------


@BOTH
async def test_a_hundred_at_once_on_a_key_with_fifty_left(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"), **MANY)
    anna = key_of(house, "anna", daily_requests=60)
    asking = house.stream if stream else house.chat
    for n in range(10):
        assert (await asking(ask(f"first {n % 3}"), anna)).text == "ok"
    # Three questions for a hundred requests: whoever shares an answer is counted too.
    answers = await asyncio.gather(*(asking(ask(f"q{n % 3}"), anna) for n in range(100)))
    assert Counter(answer.status for answer in answers) == {200: 50, 429: 50}
    for answer in answers:
        if answer.status == 429:
            assert "60 requests of today are used up" in final(answer)
            assert answer.error["type"] == "insufficient_quota"
    await house.settled()
    assert used(house.place.state)["anna"][0] == 60
    assert sum(house.plan.spawns().values()) <= 60


@BOTH
async def test_M5_fifty_at_once_on_a_budget_of_twenty_tokens(
    open_: OpenHouse, stream: bool
) -> None:
    """Each answer costs 18 of them: the first is let in, and the next when it is charged for."""
    house = await open_(
        claude=turn(["init"], ["start"], ["sleep", 0.3], ["say", "ok"], ["end"]), **MANY
    )
    anna = key_of(house, "anna", daily_tokens=20)
    asking = house.stream if stream else house.chat
    answers = await asyncio.gather(*(asking(ask(f"q{n}"), anna) for n in range(50)))
    assert Counter(answer.status for answer in answers) == {200: 1, 429: 49}
    for answer in answers:
        if answer.status == 429:
            assert "is set aside for its requests in the air" in final(answer)
            assert answer.headers["Retry-After"] == "2"
    assert (await asking(ask("one more"), anna)).status == 200, "18 of 20 are used"
    assert "20 tokens of today are used up" in final(await asking(ask("the last"), anna))
    await house.settled()
    assert used(house.place.state)["anna"][1] == 36


@BOTH
async def test_M5_a_large_budget_lets_many_in_at_once(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"), **MANY)
    anna = key_of(house, "anna", daily_tokens=50_000)
    asking = house.stream if stream else house.chat
    answers = await asyncio.gather(*(asking(ask(f"q{n}"), anna) for n in range(30)))
    assert {answer.status for answer in answers} == {200}
    await house.settled()
    assert house.service.people._usage._reserved == {}


@BOTH
async def test_M5_what_was_set_aside_is_free_before_the_last_byte(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_tokens=400)
    asking = house.stream if stream else house.chat
    told = [(await asking(ask(f"q{n}"), anna)).status for n in range(25)]
    assert told == [200] * 23 + [429] * 2, "23 times 18 are 414"


async def test_M5_an_answer_that_is_left_keeps_its_tokens_until_it_is_charged_for(
    open_: OpenHouse,
) -> None:
    """Or leaving, and asking again while the CLI ends, would be the way around a budget."""
    slow = turn(["init"], ["start"], ["say", "half"], ["hang"], term="ignore")
    house = await open_(claude=slow, **COLD)
    anna = key_of(house, "anna", daily_tokens=20)
    leaving = asyncio.ensure_future(house.stream(ask("x" * 80), anna))
    await until(lambda: house.plan.calls(), "it runs")
    await asyncio.sleep(0.2)
    leaving.cancel()
    await asyncio.sleep(0.2)
    assert "is set aside" in final(await house.chat(ask("again"), anna))
    await until(lambda: not house.service.in_flight, "it is over", 8)
    assert "20 tokens of today are used up" in final(await house.chat(ask("again"), anna))
    assert house.service.people._usage._reserved == {}


async def test_M5_an_answer_called_off_before_it_began_leaves_nothing_aside(
    open_: OpenHouse,
) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_tokens=5000)
    for _ in range(5):
        leaving = asyncio.ensure_future(house.chat(ask("gone"), anna))
        await asyncio.sleep(0)
        leaving.cancel()
    await house.settled()
    await until(lambda: not house.service.people._usage._reserved, "nothing is set aside")


async def test_a_limit_is_never_a_reason_to_fall_back(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), codex=says("never"), **COLD)
    anna = key_of(house, "anna", daily_requests=1)
    assert (await house.chat(ask("1"), anna)).text == "ok"
    final(await house.chat(ask("2"), anna))
    assert house.plan.spawns() == {"claude": 1}
    assert house.logged("fallback_hop_error") == []


async def test_a_bad_request_is_not_counted(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_requests=1, chains=("auto",))
    for body in ({"x": 1}, {"model": "auto"}, ask(model="codex/x"), ask(model="auto", n=2)):
        assert (await house.chat(body, anna)).status in (400, 403)
    assert (await house.chat(ask(), anna)).text == "ok"
    final(await house.chat(ask("2"), anna))


async def test_the_limit_is_of_the_person_and_not_of_the_name(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_requests=1)
    assert (await house.chat(ask("1"), anna)).text == "ok"
    Keyring(house.place.state).change(lambda keys: keyfile.renamed(keys, "anna", "Anne"))
    final(await house.chat(ask("2"), anna))
    ben = key_of(house, "anna", daily_requests=1)
    assert (await house.chat(ask("3"), ben)).text == "ok"


async def test_the_counts_of_a_person_survive_a_restart(
    tmp_path: Path, surroundings: pytest.MonkeyPatch, plan: Plan
) -> None:
    plan.set(claude=says("ok"))
    anna = make_key(tmp_path / "state", "anna", daily_requests=5)
    told = []
    for _ in range(3):
        async with open_house(tmp_path, plan, COLD) as house:
            told += [(await house.chat(ask(f"q{n}"), anna)).status for n in range(3)]
    assert told == [200] * 5 + [429] * 4


async def test_M5_a_second_server_over_the_same_folder_is_refused(
    serve: Serve, plan: Plan, tmp_path: Path
) -> None:
    """Or each of the two would let all of a key's requests of the day through."""
    plan.set(claude=says("ok"))
    anna = make_key(tmp_path / "state", "anna", daily_requests=5)
    first = serve(**COLD)
    async with connected(first.url()) as client:
        with Served(tmp_path / "home", ["--config", str(tmp_path / "olp.toml")]) as second:
            assert await asyncio.to_thread(second.wait) == 2
            assert "a server runs over the folder" in second.err
        told = [(await client.chat(ask(f"q{n}"), anna)).status for n in range(7)]
    assert told == [200] * 5 + [429] * 2
    first.signal(signal.SIGKILL)
    first.wait()
    third = serve(**COLD)
    async with connected(third.url()) as client:
        assert (await client.chat(ask("again"), anna)).status == 429


async def test_not_one_too_many_after_a_SIGKILL(
    serve: Serve, plan: Plan, tmp_path: Path, go_on: GoOn
) -> None:
    """The request that was let in is on disk before anything is started for it."""
    ok = turn(["init"], ["start"], ["say", "ok"], ["end"])
    held = turn(["init"], ["start"], go_on.wait, ["end"], when="held")
    plan.set(claude=[ok, held])
    anna = make_key(tmp_path / "state", "anna", daily_requests=50)
    first = serve(**MANY)
    async with connected(first.url()) as client:
        done = await asyncio.gather(*(client.chat(ask(f"q{n}"), anna) for n in range(20)))
        assert {answer.text for answer in done} == {"ok"}
        in_air = [asyncio.ensure_future(client.chat(ask(f"held {n}"), anna)) for n in range(10)]
        await until(lambda: len(plan.calls()) == 30, "ten more run")
        first.signal(signal.SIGKILL)
        first.wait()
        await asyncio.gather(*in_air, return_exceptions=True)
    assert used(tmp_path / "state")["anna"][0] == 30
    second = serve(**MANY)
    async with connected(second.url()) as client:
        answers = await asyncio.gather(*(client.chat(ask(f"r{n}"), anna) for n in range(100)))
    assert Counter(answer.status for answer in answers) == {200: 20, 429: 80}
    go_on.now()


async def test_SIGKILL_at_any_moment_is_never_a_free_request(
    serve: Serve, plan: Plan, tmp_path: Path
) -> None:
    plan.set(claude=says("ok"))
    anna = make_key(tmp_path / "state", "anna", daily_requests=60)
    passed = 0
    for round_ in range(4):
        served = serve(**MANY)
        async with connected(served.url()) as client:
            asking = [
                asyncio.ensure_future(client.chat(ask(f"{round_} {n}"), anna)) for n in range(30)
            ]
            if round_ < 3:
                await asyncio.sleep(0.05 + 0.06 * round_)
                served.signal(signal.SIGKILL)
                served.wait()
            answers = await asyncio.gather(*asking, return_exceptions=True)
        passed += sum(isinstance(a, Answer) and a.status == 200 for a in answers)
        counted = used(tmp_path / "state").get("anna", (0, 0, 0))[0]
        assert passed <= counted <= 60
        assert len(plan.calls()) <= counted, "nothing is started that is not counted"


async def test_a_change_of_the_configuration_forgets_nobody(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_requests=2)
    told = []
    for n in range(3):
        told.append((await house.chat(ask(f"q{n}"), anna)).status)
        config = house.server.config
        house.server.change(config, find_providers(config))
    assert told == [200, 200, 429]
    assert (await house.request("GET", "/health", headers=anna)).body["you"]["today"][
        "requests"
    ] == 2


@pytest.mark.parametrize("harm", ["broken", "locked"])
async def test_a_record_that_cannot_be_written_costs_no_answer_and_no_limit(
    tmp_path: Path,
    surroundings: pytest.MonkeyPatch,
    plan: Plan,
    harm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(people, "RECORD_WAIT_S", 0.1)
    plan.set(claude=says("ok"))
    anna = make_key(tmp_path / "state", "anna", daily_requests=3)
    db = tmp_path / "state" / "olp.db"
    if harm == "broken":
        db.write_bytes(b"this is no database" * 1000)
    async with open_house(tmp_path, plan, COLD) as house:
        if harm == "locked":
            await house.chat(ask("0"))
            lock = sqlite3.connect(db, isolation_level=None)
            lock.execute("BEGIN EXCLUSIVE")
        told = [(await house.chat(ask(f"q{n}"), anna)).status for n in range(5)]
        assert told == [200, 200, 200, 429, 429]
        if harm == "locked":
            lock.execute("ROLLBACK")
            lock.close()
        await house.settled()


def test_an_older_record_gets_the_new_table(tmp_path: Path) -> None:
    db = tmp_path / "olp.db"
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE days (day TEXT, provider TEXT, requests INTEGER)")
    connection.close()
    record = UsageStore(db)
    assert record.people("2027-01-15") == {} and record.problem is None
    record.open()
    record.count_person("2027-01-15", "p", DayUsage(2, 30, 1))
    record.written().result(10)
    record.count_person("2027-01-15", "p", DayUsage(1, 5, 0))
    record.written().result(10)
    record.close()
    assert UsageStore(db).people("2027-01-15") == {"p": DayUsage(3, 35, 1)}


# --- tokens --------------------------------------------------------------------------------------


@BOTH
async def test_the_tokens_of_a_day(open_: OpenHouse, stream: bool) -> None:
    """claude's fake tells of 11 tokens in and 7 out. The answer that crosses the line is whole."""
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_tokens=30)
    asking = house.stream if stream else house.chat
    answers = [await asking(ask(f"q{n}"), anna) for n in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]
    assert "30 tokens of today are used up (36 used)" in final(answers[2])
    await house.settled()
    assert used(house.place.state)["anna"] == (2, 36, 0)


@BOTH
async def test_tokens_are_counted_when_the_last_word_goes_out(
    open_: OpenHouse, stream: bool
) -> None:
    """A CLI that lingers after its answer opens no gap."""
    lingering = turn(["init"], ["start"], ["say", "ok"], ["end"], ["sleep", 3])
    house = await open_(claude=lingering, **COLD)
    anna = key_of(house, "anna", daily_tokens=10)
    asking = house.stream if stream else house.chat
    assert [(await asking(ask(f"q{n}"), anna)).status for n in range(2)] == [200, 429]


async def test_a_shared_answer_and_a_kept_one_cost_their_tokens_once(open_: OpenHouse) -> None:
    house = await open_(claude=says("a", "b", every=0.2), cache={"ttl_s": 60}, **COLD)
    anna = key_of(house, "anna")
    answers = await asyncio.gather(*(house.chat(ask(), anna) for _ in range(5)))
    kept = await house.chat(ask(), anna)
    assert {answer.text for answer in answers} == {"ab"}
    assert kept.headers["X-OLP-Cache"] == "hit"
    await house.settled()
    await until(lambda: used(house.place.state)["anna"] == (6, 18, 0), "all are counted")


async def test_leaving_in_the_middle_is_not_free(open_: OpenHouse) -> None:
    house = await open_(claude=hangs(after=["some words that were told"] * 3), **COLD)
    anna = key_of(house, "anna", daily_tokens=5)
    async with house.opened(ask("a question"), anna) as response:
        await response.content.readany()
    await house.settled()
    await until(lambda: used(house.place.state)["anna"][1] >= 5, "it is counted")
    final(await house.chat(ask("more"), anna))


async def test_a_failure_costs_no_tokens(open_: OpenHouse) -> None:
    house = await open_(claude=fails("rate"), chains={"one": ["claude/sonnet"]}, **COLD)
    anna = key_of(house, "anna", daily_tokens=1)
    for _ in range(2):
        assert (await house.chat(ask(model="one"), anna)).error["code"] != "insufficient_quota"
    await house.settled()
    assert used(house.place.state)["anna"] == (2, 0, 0)


# --- at one time, hours --------------------------------------------------------------------------


@BOTH
async def test_requests_at_one_time(open_: OpenHouse, go_on: GoOn, stream: bool) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=slow, **MANY)
    anna, ben = key_of(house, "anna", concurrent=2), key_of(house, "ben")
    asking = house.stream if stream else house.chat
    first = [asyncio.ensure_future(asking(ask(f"q{n}"), anna)) for n in range(2)]
    await until(lambda: len(house.plan.calls()) == 2, "two run")
    over = await asyncio.gather(*(asking(ask(f"more {n}"), anna) for n in range(10)))
    for answer in over:
        assert "2 requests in flight" in final(answer)
    other = asyncio.ensure_future(asking(ask("mine"), ben))
    await until(lambda: len(house.plan.calls()) == 3, "the other person's runs")
    go_on.now()
    assert {(await task).text for task in (*first, other)} == {"ok"}
    assert (await asking(ask("later"), anna)).text == "ok"


async def test_whoever_leaves_is_not_in_the_air(open_: OpenHouse) -> None:
    house = await open_(claude=[hangs(), says("ok")], **COLD)
    anna = key_of(house, "anna", concurrent=1)
    task = asyncio.ensure_future(house.chat(ask("1"), anna))
    await until(lambda: house.plan.calls(), "it runs")
    task.cancel()
    await until(lambda: not house.active, "it is gone")
    assert (await house.chat(ask("2"), anna)).text == "ok"


@BOTH
async def test_hours_over_midnight(
    open_: OpenHouse, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", hours="22:00-06:00")
    asking = house.stream if stream else house.chat
    for hour, minute, status in ((21, 59, 403), (22, 0, 200), (5, 59, 200), (6, 0, 403)):
        moment = datetime(2027, 1, 15, hour, minute).timestamp()
        monkeypatch.setattr(house.service.people, "_wall", lambda at=moment: at)
        answer = await asking(ask(f"{hour}"), anna)
        assert answer.status == status, hour
        if status == 403:
            message = final(answer, "outside_hours", 403)
            assert f"from 22:00 to 06:00 (the server's local time); it is {hour:02}" in message
    assert len(house.plan.calls()) == 2


async def test_a_clock_that_is_set_back_gives_nothing_and_takes_nothing(
    open_: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_requests=1)
    told: list[int] = []
    for day in (15, 16, 15, 16, 2, 15):
        moment = datetime(2027, 1, day, 12).timestamp()
        monkeypatch.setattr(house.service.people, "_wall", lambda at=moment: at)
        told.append((await house.chat(ask(f"{day} {len(told)}"), anna)).status)
    assert told == [200, 200, 429, 429, 200, 429]


# --- a fair share --------------------------------------------------------------------------------


def one_slot(**routing: Any) -> dict[str, Any]:
    return {
        "providers": {"claude": {"max_concurrent": 1}},
        "chains": {"one": ["claude/sonnet"], "two": ["claude/sonnet", "codex/gpt-5.5"]},
        "routing": routing,
        "server": {"max_requests": 200},
        **COLD,
    }


@BOTH
async def test_D1_without_a_queue_a_full_hop_is_left_at_once(
    open_: OpenHouse, go_on: GoOn, stream: bool
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=slow, codex=says("saved"), **one_slot(queue_s=0))
    first = asyncio.ensure_future(house.chat(ask("1", model="one")))
    await until(lambda: house.plan.calls(), "it runs")
    began = time.monotonic()
    assert (await house.ask(stream, ask("2", model="two"))).text == "saved"
    assert (await house.ask(stream, ask("3", model="one"))).error["code"] == "concurrency_limit"
    assert time.monotonic() - began < 2
    assert house.service.lasting.admission.queue.waiting("claude") == 0
    go_on.now()
    assert (await first).text == "ok"


@BOTH
async def test_one_busy_person_does_not_starve_the_others(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"), **one_slot(queue_s=20))
    busy, anna, ben = (key_of(house, name) for name in ("busy", "anna", "ben"))
    queue = house.service.lasting.admission.queue
    order: list[str] = []

    async def one(name: str, headers: dict[str, str], n: int) -> None:
        body = ask(f"{name} {n}", model="one")
        answer = await (house.stream(body, headers) if stream else house.chat(body, headers))
        assert answer.text == "ok", answer.raw
        order.append(name)

    tasks = [asyncio.ensure_future(one("busy", busy, n)) for n in range(12)]
    await until(lambda: queue.waiting("claude") >= 8, "the busy one's wait")
    tasks += [asyncio.ensure_future(one("anna", anna, n)) for n in range(2)]
    tasks += [asyncio.ensure_future(one("ben", ben, 0))]
    await asyncio.gather(*tasks)
    rest = order[: order.index("ben") + 1]
    assert order.index("ben") < 9 and order.index("anna") < 9, order
    assert rest.count("busy") <= 7, order
    assert house.plan.spawns() == {"claude": 15}
    assert queue.waiting("claude") == 0
    assert house.logged("waited_for_slot")


async def test_D3_the_wait_is_bounded_and_only_for_those_with_nowhere_else_to_go(
    open_: OpenHouse, go_on: GoOn
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=slow, codex=says("saved"), **one_slot(queue_s=2))
    first = asyncio.ensure_future(house.chat(ask("1", model="one")))
    await until(lambda: house.plan.calls(), "it runs")
    began = time.monotonic()
    answer = await house.chat(ask("2", model="two"))
    assert (answer.text, answer.codes) == ("saved", ["CONCURRENCY_LIMIT"])
    assert time.monotonic() - began < 1.5, "passed over at once"
    began = time.monotonic()
    full = await house.chat(ask("3", model="one"))
    assert 1.9 < time.monotonic() - began < 6
    assert full.status == 429 and full.error["code"] == "concurrency_limit"
    assert "x-should-retry" not in full.headers
    assert int(full.headers["Retry-After"]) <= 5
    go_on.now()
    assert (await first).text == "ok"


def _waiting(queue: Queue, count: int) -> bool:
    return queue.waiting("claude") == count


async def test_a_client_that_leaves_gives_up_its_place(open_: OpenHouse, go_on: GoOn) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=slow, **one_slot(queue_s=30))
    people_ = [key_of(house, f"p{n}") for n in range(4)]
    queue = house.service.lasting.admission.queue
    tasks = []
    for n, headers in enumerate(people_):
        tasks.append(asyncio.ensure_future(house.chat(ask(f"q{n}", model="one"), headers)))
        await until(lambda: len(house.plan.calls()) == 1, "the first runs")
        await until(partial(_waiting, queue, n), "the others wait")
    for task in tasks[1:3]:
        task.cancel()
    await until(lambda: queue.waiting("claude") == 1, "two have left")
    go_on.now()
    assert (await tasks[0]).text == "ok" and (await tasks[3]).text == "ok"
    assert house.plan.spawns() == {"claude": 2}


async def test_the_wait_ends_when_the_provider_turns_out_to_be_held(
    open_: OpenHouse, go_on: GoOn
) -> None:
    """Nobody waits for a slot of what cannot answer."""
    spent = turn(["init"], go_on.wait, ["fail", "quota"])
    house = await open_(claude=spent, **one_slot(queue_s=30))
    tasks = [asyncio.ensure_future(house.chat(ask(f"q{n}", model="one"))) for n in range(6)]
    queue = house.service.lasting.admission.queue
    await until(lambda: queue.waiting("claude") == 5, "five wait")
    go_on.now()
    answers = await asyncio.gather(*tasks)
    told = Counter(answer.codes[0] for answer in answers if answer.codes)
    assert told == {"QUOTA_EXHAUSTED": 1, "QUOTA_HOLD": 5}
    assert house.plan.spawns()["claude"] == 1


async def test_C3_the_clocks_of_a_hop_begin_after_the_wait(open_: OpenHouse, go_on: GoOn) -> None:
    held = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"], when="first")
    tables = one_slot(queue_s=20)
    tables["providers"]["claude"] |= {"opening_s": 1.0, "max_spawn_s": 20.0}
    house = await open_(claude=[says("ok"), held], **tables)
    first = asyncio.ensure_future(house.chat(ask("first", model="one")))
    await until(lambda: house.plan.calls(), "it runs")
    second = asyncio.ensure_future(house.chat(ask("second", model="one")))
    await asyncio.sleep(1.5)
    go_on.now()
    assert ((await first).text, (await second).text) == ("ok", "ok")


# --- jobs that nobody asked for ------------------------------------------------------------------

TITLE = "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history."


@BOTH
async def test_a_background_job_is_counted_apart(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"), **COLD)
    anna = key_of(house, "anna", daily_requests=3)
    asking = house.stream if stream else house.chat
    answers = [await asking(ask(text), anna) for text in ("hi", TITLE)]
    assert {answer.text for answer in answers} == {"ok"}
    await house.settled()
    assert used(house.place.state)["anna"] == (2, 36, 1)
    lines = house.logged("answered")
    assert [line.get("background") for line in lines] == [None, "title"]
    trace = UsageStore(house.place.state / "olp.db").trace(answers[1].headers["X-OLP-Request-Id"])
    assert trace is not None and trace["background"] == "title"
    mine = (await house.request("GET", "/health", headers=anna)).body["you"]
    assert mine["today"] == {"requests": 2, "tokens": 36, "background": 1}


BACKGROUND: dict[str, Any] = {
    "routing": {"background": "cheap"},
    "chains": {"cheap": ["vibe/mistral-medium-3.5"], "kids": ["claude/haiku"]},
    **COLD,
}


@BOTH
async def test_a_background_job_may_go_to_another_chain(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("talk"), vibe=says("title"), **BACKGROUND)
    assert (await house.ask(stream, ask("hi"))).text == "talk"
    answer = await house.ask(stream, ask(TITLE))
    assert answer.text == "title"
    assert answer.served == ("vibe", "mistral-medium-3.5", 0)
    body = answer.data[0] if stream else answer.body  # type: ignore[attr-defined]
    assert body["model"] == "mistral-medium-3.5", "who really answered"
    direct = await house.ask(stream, ask(TITLE, model="claude/opus"))
    assert direct.text == "title"


async def test_J3_a_client_that_forbids_substitution_gets_its_model(open_: OpenHouse) -> None:
    house = await open_(claude=says("talk"), vibe=says("title"), **BACKGROUND)
    answer = await house.chat(ask(TITLE), {"X-OLP-Substitution": "forbid"})
    assert answer.text == "talk"


async def test_a_job_opens_no_chain_that_its_sender_may_not_ask_for(open_: OpenHouse) -> None:
    house = await open_(claude=says("talk"), vibe=says("title"), **BACKGROUND)
    ben, cara = key_of(house, "ben", chains=("kids",)), key_of(house, "c", chains=("kids", "cheap"))
    assert (await house.chat(ask(TITLE, model="kids"), ben)).text == "talk"
    assert (await house.chat(ask(TITLE, model="kids"), cara)).text == "title"
    answer = await house.chat(ask(TITLE, model="auto"), ben)
    refused(answer, 403, "chain_not_allowed")


async def test_a_keys_system_prompt_hides_no_job(open_: OpenHouse) -> None:
    house = await open_(claude=says("talk"), vibe=says("title"), **BACKGROUND)
    anna = key_of(house, "anna", system_prompt="Answer as a pirate.")
    assert (await house.chat(ask(TITLE), anna)).text == "title"


def test_a_background_chain_that_does_not_exist_stops_the_start(serve: Serve) -> None:
    served = serve(routing={"background": "chep"}, chains={"cheap": ["claude/haiku"]})
    assert served.wait() == 2
    assert "routing.background: no chain 'chep'; did you mean cheap?" in served.err


async def test_the_house_has_nobody_waiting_when_it_ends(open_: OpenHouse) -> None:
    house: House = await open_(claude=hangs(), **one_slot(queue_s=30))
    tasks = [asyncio.ensure_future(house.chat(ask(f"q{n}", model="one"))) for n in range(5)]
    await until(lambda: house.service.lasting.admission.queue.waiting("claude") == 4, "four wait")
    for task in tasks:
        task.cancel()
    await house.settled()
    assert house.service.lasting.admission.queue.waiting("claude") == 0
