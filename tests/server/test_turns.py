"""D3: nobody who waits for an answer is sent away because of that very answer, and nobody is sent
away while a slot of any hop is free in time."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenHouse
from tests.fakes import waiting
from tests.fakes.plan import Turn, fails, says, turn
from tests.server.people import key_of
from tests.support import BOTH, GoOn, House, ask, until

FAKES = Path(__file__).parents[1] / "fakes"
MODELS = {"claude": "claude/sonnet", "codex": "codex/gpt-5.5", "vibe": "vibe/mistral-medium-3.5"}
QUICK: Turn = says("ok")


def stuck(go_on: GoOn) -> Turn:
    """An answer that is there as soon as the test says so."""
    return turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])


# --- a slot is free before the last byte is out -------------------------------------------------


async def in_a_row(
    house: House, model: str, client: int, requests: int, stream: bool
) -> Counter[int | str]:
    """One client's requests, one after the other, each as soon as the one before has ended: how
    many had which status, or which error."""
    told: Counter[int | str] = Counter()
    for number in range(requests):
        answer = await house.ask(stream, ask(f"{client}.{number}", model=model))
        told[200 if answer.status == 200 else answer.raw.decode()] += 1
    return told


async def four_clients(house: House, model: str) -> Counter[int | str]:
    each = [in_a_row(house, model, n, 50, stream=bool(n % 2)) for n in range(4)]
    async with asyncio.timeout(100):
        return sum(await asyncio.gather(*each), Counter())


@pytest.mark.parametrize("cli", MODELS)
async def test_D3_four_clients_on_four_oneshot_slots_are_never_sent_away(
    open_: OpenHouse, cli: str
) -> None:
    house = await open_(**{cli: QUICK}, providers={cli: {"max_concurrent": 4}})
    assert await four_clients(house, MODELS[cli]) == {200: 200}
    assert house.plan.spawns() == {cli: 200}


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path: vibe's socket is in the state, and has 107 bytes for its own."""
    with tempfile.TemporaryDirectory(prefix="olp-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.mark.parametrize("cli", MODELS)
async def test_D3_four_clients_on_four_waiting_slots_are_never_sent_away(
    short: Path, open_: OpenHouse, tmp_path: Path, cli: str
) -> None:
    programs = waiting.install(tmp_path / "waiting")
    claude = [sys.executable, str(FAKES / "waiting_claude.py")]
    commands = {"claude": claude, "codex": [str(programs / "codex")]}
    commands["vibe"] = [str(programs / "vibe")]
    options = {"command": commands[cli], "transport": "auto", "warm": 4, "max_concurrent": 4}
    others = {name: {"enabled": False} for name in MODELS if name != cli}
    server = {"state_dir": str(short)}
    house = await open_(providers={cli: options, **others}, server=server)
    report: Any = house.service.health
    await until(lambda: report()["providers"][cli]["waiting"]["ready"], "one waits")
    assert await four_clients(house, MODELS[cli]) == {200: 200}


@BOTH
async def test_D3_one_client_on_one_slot_finds_it_free_without_any_wait(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(
        claude=QUICK, providers={"claude": {"max_concurrent": 1}}, routing={"queue_s": 0}
    )
    assert await in_a_row(house, MODELS["claude"], 0, 40, stream) == {200: 40}


@BOTH
async def test_D3_processes_on_their_way_out_are_bounded(open_: OpenHouse, stream: bool) -> None:
    """Each ignores SIGTERM and is killed after 5 s: four may be in that."""
    stubborn = turn(["init"], ["start"], ["say", "ok"], ["end"], ["hang"], term="ignore")
    house = await open_(
        claude=stubborn, providers={"claude": {"max_concurrent": 1}}, routing={"queue_s": 0}
    )
    answers = [await house.ask(stream, ask(f"q{n}", MODELS["claude"])) for n in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    slots = house.service.lasting.admission.slots
    assert (slots.active["claude"], slots.leaving["claude"]) == (1, 4)
    await until(lambda: not (slots.active["claude"] or slots.leaving["claude"]), "all are gone")
    assert (await house.ask(stream, ask("q4", MODELS["claude"]))).status == 200


@BOTH
async def test_D3_a_key_for_one_request_at_a_time_may_ask_again_at_once(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=QUICK)
    anna = key_of(house, "anna", concurrent=1)
    for number in range(30):
        body = ask(f"q{number}")
        answer = await (house.stream(body, anna) if stream else house.chat(body, anna))
        assert answer.status == 200, answer.raw


# --- all hops are full --------------------------------------------------------------------------


async def test_D3_six_conversations_at_once_on_default_settings(open_: OpenHouse) -> None:
    """Four are answered at once, the others when these have ended, 2.5 s later."""
    slow = turn(["init"], ["start"], ["sleep", 2.5], ["say", "ok"], ["end"])
    house = await open_(claude=slow)
    asking = [house.ask(bool(n % 2), ask(f"q{n}", model="claude/sonnet")) for n in range(6)]
    answers = await asyncio.gather(*asking)
    assert [answer.status for answer in answers] == [200] * 6
    assert [answer.text for answer in answers] == ["ok"] * 6


@BOTH
@pytest.mark.parametrize("free", ["claude", "codex", "vibe"])
async def test_D3_the_first_slot_of_any_hop_is_taken(
    open_: OpenHouse, go_on: GoOn, tmp_path: Path, free: str, stream: bool
) -> None:
    never = GoOn(tmp_path / "never")
    one = {name: {"max_concurrent": 1} for name in MODELS}
    turns = {name: [stuck(go_on if name == free else never), says(name)] for name in MODELS}
    house = await open_(**turns, providers=one)
    first = [asyncio.ensure_future(house.chat(ask(f"q{m}", model=m))) for m in MODELS.values()]
    await until(lambda: len(house.plan.calls()) == 3, "every slot is taken")
    waits = asyncio.ensure_future(house.ask(stream, ask("mine")))
    queue = house.service.lasting.admission.queue
    await until(lambda: queue.waiting(free) == 1, "it waits")
    assert [queue.waiting(name) for name in MODELS] == [1, 1, 1]
    go_on.now()
    answer = await waits
    assert answer.text == free
    assert answer.served[0] == free
    assert sorted(answer.codes) == ["CONCURRENCY_LIMIT"] * 2
    assert [queue.waiting(name) for name in MODELS] == [0, 0, 0]
    never.now()
    await asyncio.gather(*first)


@BOTH
async def test_D3_a_full_hop_among_failed_ones_is_waited_for(
    open_: OpenHouse, go_on: GoOn, stream: bool
) -> None:
    house = await open_(
        claude=[stuck(go_on), says("mine")],
        codex=fails("quota"),
        vibe=fails("overloaded"),
        providers={"claude": {"max_concurrent": 1}},
    )
    first = asyncio.ensure_future(house.chat(ask("q", model="claude/sonnet")))
    await until(lambda: house.plan.calls(), "it runs")
    second = asyncio.ensure_future(house.ask(stream, ask("q2")))
    queue = house.service.lasting.admission.queue
    await until(lambda: queue.waiting("claude") == 1, "it waits")
    assert house.plan.spawns() == {"claude": 1, "codex": 1, "vibe": 1}
    go_on.now()
    answer = await second
    assert (answer.text, answer.served[0]) == ("mine", "claude")
    assert answer.codes == ["QUOTA_EXHAUSTED", "OVERLOADED"]
    assert (await first).status == 200


async def test_D3_nobody_goes_before_those_who_wait(open_: OpenHouse, go_on: GoOn) -> None:
    """Who comes when a slot has just become free passes over it, if it is somebody else's turn."""
    house = await open_(
        claude=[stuck(go_on), says("waited")],
        codex=says("passed over"),
        chains={"one": ["claude/sonnet"], "two": ["claude/sonnet", "codex/gpt-5.5"]},
        providers={"claude": {"max_concurrent": 1}},
    )
    first = asyncio.ensure_future(house.chat(ask("q", model="one")))
    await until(lambda: house.plan.calls(), "it runs")
    waits = asyncio.ensure_future(house.chat(ask("q2", model="one")))
    queue = house.service.lasting.admission.queue
    await until(lambda: queue.waiting("claude") == 1, "it waits")
    late = await house.chat(ask("q3", model="two"))
    assert (late.text, late.codes) == ("passed over", ["CONCURRENCY_LIMIT"])
    go_on.now()
    assert (await waits).text == "waited" and (await first).text == "ok"


async def test_D3_the_wait_is_told_by_health_and_by_the_log(open_: OpenHouse, go_on: GoOn) -> None:
    house = await open_(
        claude=[stuck(go_on), says("ok")], providers={"claude": {"max_concurrent": 1}}
    )
    tasks = [asyncio.ensure_future(house.chat(ask(f"{n}", "claude/sonnet"))) for n in range(2)]
    queue = house.service.lasting.admission.queue
    await until(lambda: queue.waiting("claude") == 1, "one waits")
    assert house.service.health()["providers"]["claude"]["queued"] == 1
    go_on.now()
    await asyncio.gather(*tasks)
    [line] = house.logged("waited_for_slot")
    assert line["provider"] == "claude" and line["ms"] > 0
