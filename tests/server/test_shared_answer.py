"""G and H1: salvage, and identical requests in flight, over HTTP with fake CLIs."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import OpenHouse
from tests.fakes.plan import dies, fails, hangs, says, turn
from tests.support import BOTH, GoOn, ask, exists, until


async def test_G1_a_death_after_text_is_salvaged(open_: OpenHouse) -> None:
    house = await open_(claude=dies(after=["half ", "of it"]), codex=says("never"))
    answer = await house.chat()
    assert (answer.text, answer.finish) == ("half of it", "length")
    assert answer.served[::2] == ("claude", 0)
    assert answer.body["usage"]["completion_tokens"] > 0
    assert house.plan.spawns() == {"claude": 1}
    await house.settled()
    [line] = house.logged("spawn_failed_after_usable_chunks")
    assert (line["level"], line["provider"], line["hop"]) == ("warn", "claude", 0)


@pytest.mark.parametrize("pieces", [[], [""], ["", ""]])
async def test_G1_without_text_there_is_nothing_to_salvage(
    open_: OpenHouse, pieces: list[str]
) -> None:
    house = await open_(claude=dies(after=pieces), codex=says("saved"))
    assert (await house.chat()).text == "saved"


async def test_G1_a_salvage_after_a_fallback_says_so(open_: OpenHouse) -> None:
    chains = {"late": ["codex/gpt-5.5", "vibe/mistral-medium-3.5", "claude/sonnet"]}
    dead = dies(after=["half"])
    house = await open_(codex=fails("rate"), vibe=fails("rate"), claude=dead, chains=chains)
    answer = await house.chat(ask(model="late"))
    assert (answer.text, answer.finish) == ("half", "length")
    assert answer.served[::2] == ("claude", 2)
    assert answer.codes == ["RATE_LIMITED", "RATE_LIMITED"]


@BOTH
async def test_G1_a_part_that_a_living_cli_gives_up_is_not_salvaged(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(vibe=fails("retry"))
    answer = await house.ask(stream, ask(model="vibe/mistral-medium-3.5"))
    assert (answer.status, answer.error["code"]) == (502, "vendor_cut")


async def test_G2_a_timeout_is_never_salvaged(open_: OpenHouse) -> None:
    house = await open_(
        claude=hangs(after=["half"]),
        codex=says("saved"),
        providers={"claude": {"max_spawn_s": 0.6}},
    )
    answer = await house.chat()
    assert (answer.text, answer.finish) == ("saved", "stop")
    assert answer.codes == ["SPAWN_TIMEOUT"]
    assert not house.logged("spawn_failed_after_usable_chunks")


@pytest.mark.parametrize("kind", ["quota", "overloaded", "rate"])
async def test_G2_only_a_death_is_salvaged(open_: OpenHouse, kind: str) -> None:
    house = await open_(claude=fails(kind, after=["half"]), codex=says("saved"))
    assert (await house.chat()).text == "saved"


@BOTH
@pytest.mark.parametrize("provider", ["claude", "codex", "vibe"])
@pytest.mark.parametrize("kind", ["prose", "login", "quota"])
async def test_G3_an_error_text_is_never_an_answer(
    open_: OpenHouse, kind: str, provider: str, stream: bool
) -> None:
    house = await open_(**{provider: fails(kind)}, chains={"one": [f"{provider}/m"]})
    answer = await house.ask(stream, ask(model="one"))
    assert answer.status in (429, 502)
    assert "choices" not in answer.body


@BOTH
async def test_G3_an_older_claude_that_prints_its_limit_as_the_result(
    open_: OpenHouse, stream: bool
) -> None:
    notice = "You've hit your 5-hour limit \u00b7 resets 5:26am (UTC)"
    result = {"type": "result", "subtype": "success", "is_error": False, "result": notice}
    house = await open_(claude=turn(["init"], ["json", result]), codex=says("saved"))
    answer = await house.ask(stream)
    assert answer.text == "saved"
    assert answer.codes == ["QUOTA_EXHAUSTED"]


async def test_G4_a_salvaged_answer_is_shared_in_flight_and_not_kept(
    open_: OpenHouse, go_on: GoOn
) -> None:
    broken = turn(["init"], ["start"], ["say", "half"], go_on.wait, ["exit", 1])
    house = await open_(claude=[broken, dies(after=["other half"])])
    both = [asyncio.ensure_future(house.chat()) for _ in range(2)]
    await until(lambda: house.plan.calls(), "the CLI runs")
    await asyncio.sleep(0.1)
    go_on.now()
    assert [answer.text for answer in await asyncio.gather(*both)] == ["half", "half"]
    assert house.plan.spawns() == {"claude": 1}
    assert (await house.chat()).text == "other half"
    assert house.plan.spawns() == {"claude": 2}


# --- H1 ----------------------------------------------------------------------------------------


@BOTH
async def test_H1_identical_requests_in_flight_share_one_spawn(
    open_: OpenHouse, go_on: GoOn, stream: bool
) -> None:
    slow = turn(["init"], ["start"], ["say", "one "], go_on.wait, ["say", "two"], ["end"])
    house = await open_(claude=slow)
    asking = [asyncio.ensure_future(house.ask(stream)) for _ in range(8)]
    await until(lambda: house.plan.calls(), "the CLI runs")
    await asyncio.sleep(0.1)
    go_on.now()
    answers = await asyncio.gather(*asking)
    assert {answer.text for answer in answers} == {"one two"}
    assert len({answer.headers["X-OLP-Request-Id"] for answer in answers}) == 8
    assert house.plan.spawns() == {"claude": 1}


async def test_H1_a_late_joiner_gets_everything_from_the_start(
    open_: OpenHouse, go_on: GoOn
) -> None:
    slow = turn(["init"], ["start"], ["say", "one "], go_on.wait, ["say", "two"], ["end"])
    house = await open_(claude=slow)
    async with house.opened() as response:
        await response.content.readany()
        late = asyncio.ensure_future(house.stream())
        await asyncio.sleep(0.1)
        go_on.now()
        assert (await late).text == "one two"
    assert house.plan.spawns() == {"claude": 1}


@BOTH
@pytest.mark.parametrize(
    "other",
    [
        {"content": "hello!"},
        {"model": "claude/opus"},
        {"max_tokens": 99},
        {"stop": ["x"]},
        {"reasoning_effort": "low"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_H1_a_request_that_differs_is_not_the_same(
    open_: OpenHouse, go_on: GoOn, other: dict[str, object], stream: bool
) -> None:
    house = await open_(claude=turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"]))
    body = ask(model="claude/sonnet")
    more = {**body, **other}
    if "content" in other:
        more = ask(str(other["content"]), model="claude/sonnet")
    asking = [asyncio.ensure_future(house.ask(stream, each)) for each in (body, more)]
    await until(lambda: len(house.plan.calls()) == 2, "both run")
    go_on.now()
    assert [answer.text for answer in await asyncio.gather(*asking)] == ["ok", "ok"]


@BOTH
async def test_H1_one_reader_that_leaves_disturbs_nobody(
    open_: OpenHouse, go_on: GoOn, stream: bool
) -> None:
    slow = turn(["init"], ["start"], ["say", "one "], go_on.wait, ["say", "two"], ["end"])
    house = await open_(claude=slow)
    stays, leaves = (asyncio.ensure_future(house.ask(stream)) for _ in range(2))
    await until(lambda: house.plan.calls(), "the CLI runs")
    await asyncio.sleep(0.15)
    leaves.cancel()
    await asyncio.sleep(0.15)
    [call] = house.plan.calls()
    assert exists(call.pid)
    go_on.now()
    assert (await stays).text == "one two"
    assert house.plan.calls()[0].line("term") is None


@BOTH
async def test_H1_the_last_reader_that_leaves_ends_the_spawn(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=hangs(after=["one"]))
    asking = [asyncio.ensure_future(house.ask(stream)) for _ in range(3)]
    await until(lambda: house.plan.calls(), "the CLI runs")
    await asyncio.sleep(0.15)
    [call] = house.plan.calls()
    for task in asking:
        assert exists(call.pid)
        task.cancel()
        await asyncio.sleep(0.1)
    await until(lambda: not exists(call.pid), "the process is gone", 6)


@BOTH
async def test_H1_the_same_question_after_an_answer_is_a_new_one(
    open_: OpenHouse, stream: bool
) -> None:
    lingering = turn(["init"], ["start"], ["say", "first"], ["end"], ["sleep", 30])
    house = await open_(claude=[lingering, says("second"), says("third")])
    texts = [(await house.ask(stream)).text for _ in range(3)]
    assert texts == ["first", "second", "third"]


@BOTH
async def test_H1_the_same_question_after_leaving_is_a_new_one(
    open_: OpenHouse, stream: bool
) -> None:
    stubborn = turn(["init"], ["start"], ["say", "old"], ["sleep", 1.5], term="ignore")
    house = await open_(claude=[stubborn, says("new")])
    asking = asyncio.ensure_future(house.ask(stream))
    await until(lambda: house.plan.calls(), "the CLI runs")
    await asyncio.sleep(0.1)
    asking.cancel()
    await asyncio.sleep(0.1)
    assert (await house.ask(stream)).text == "new"
