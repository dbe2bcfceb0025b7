"""D and M6: slots, and what is left when an answer ends in any way."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest

from tests.conftest import OpenHouse
from tests.fakes.plan import Call, Turn, dies, fails, hangs, says, turn
from tests.support import BOTH, CHAT, GoOn, House, ask, exists, runs, until

ONE = {"claude": {"max_concurrent": 1}}
LIMIT = "no free slot: providerName=claude maxConcurrent=1 activeSpawns=1"


async def running_call(house: House, number: int = 0) -> Call:
    """A call that has read its request, as soon as it has."""
    await until(lambda: len(house.plan.calls()) > number, f"call {number} began")
    await until(lambda: house.plan.calls()[number].line("read"), f"call {number} read")
    return house.plan.calls()[number]


@BOTH
async def test_D1_a_full_provider_moves_the_chain_on_at_once(
    open_: OpenHouse, go_on: GoOn, stream: bool
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "first"], ["end"])
    house = await open_(claude=slow, codex=says("saved"), providers=ONE)
    first = asyncio.ensure_future(house.ask(stream, ask("one")))
    await running_call(house)
    began = time.monotonic()
    second = await house.ask(stream, ask("two"))
    assert time.monotonic() - began < 8
    assert second.text == "saved"
    [record] = second.detail
    assert (record["code"], record["trigger_type"]) == ("CONCURRENCY_LIMIT", "hard")
    assert record["error_message"] == LIMIT
    go_on.now()
    assert (await first).text == "first"
    assert house.plan.spawns() == {"claude": 1, "codex": 1}


async def test_D1_eight_at_once_take_four_slots_and_no_more(open_: OpenHouse, go_on: GoOn) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=slow)
    asking = [
        asyncio.ensure_future(house.chat(ask(f"question {n}", model="claude/sonnet")))
        for n in range(8)
    ]
    await until(lambda: sum(task.done() for task in asking) == 4, "four were refused")
    assert house.active == {"claude": 4}
    go_on.now()
    statuses = sorted([answer.status for answer in await asyncio.gather(*asking)])
    assert statuses == [200] * 4 + [429] * 4
    assert house.plan.spawns() == {"claude": 4}


ENDS: dict[str, Turn] = {
    "success": says("ok"),
    "failure": fails("rate"),
    "login": fails("login"),
    "death": dies(),
    "death after text": dies(after=["half"]),
    "error after text": fails("overloaded", after=["half"]),
    "own tool": turn(["init"], ["start"], ["tool", "Bash"], ["hang"]),
    "timeout": hangs(),
    "timeout after text": hangs(after=["half"]),
}


@BOTH
@pytest.mark.parametrize("way", ENDS)
async def test_D2_every_end_gives_the_slot_back_once(
    open_: OpenHouse, way: str, stream: bool
) -> None:
    hurry = {"opening_s": 1.5, "max_spawn_s": 1.5} if "timeout" in way else {}
    options = {"claude": {"max_concurrent": 1, **hurry}}
    house = await open_(claude=[ENDS[way], says("again")], providers=options)
    await house.ask(stream, ask(model="claude/sonnet"))
    await until(lambda: not house.active, "the slot is back")
    assert min(house.service.health()["providers"]["claude"]["slots"].values()) == 0
    answer = await house.ask(stream, ask(model="claude/sonnet"))
    assert answer.text == "again"


async def test_D2_a_program_that_is_not_there_gives_the_slot_back(open_: OpenHouse) -> None:
    missing = {"enabled": True, "command": ["/nowhere/claude"], "max_concurrent": 1}
    house = await open_(providers={"claude": missing})
    for _ in range(3):
        answer = await house.chat(ask(model="claude/sonnet"))
        assert answer.codes == ["CLI_NOT_FOUND"]


async def test_D2_a_program_that_cannot_be_started_gives_the_slot_back(open_: OpenHouse) -> None:
    huge = {"claude": {"max_concurrent": 1, "args": ["x" * 200_000]}}
    house = await open_(providers=huge)
    for _ in range(3):
        answer = await house.chat(ask(model="claude/sonnet"))
        assert answer.codes == ["SPAWN_FAILED"]
        assert "could not be started" in answer.detail[0]["error_message"]


@BOTH
async def test_D3_a_saturated_chain_welcomes_a_retry(
    open_: OpenHouse, go_on: GoOn, stream: bool
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "first"], ["end"])
    both = {name: {"max_concurrent": 1} for name in ("claude", "codex")}
    house = await open_(
        claude=slow,
        codex=slow,
        chains={"two": ["claude/x", "codex/y"]},
        providers=both,
        routing={"queue_s": 0.3},
    )
    first = [asyncio.ensure_future(house.chat(ask(f"q{n}", model="two"))) for n in range(2)]
    await running_call(house, 1)
    answer = await house.ask(stream, ask("q2", model="two"))
    assert answer.status == 429
    assert answer.error["code"] == "concurrency_limit"
    assert 1 <= int(answer.headers["Retry-After"]) <= 5
    assert answer.headers.get("x-should-retry") != "false"
    assert answer.headers["X-OLP-Fallback-Exhausted"] == "claude,codex"
    go_on.now()
    await asyncio.gather(*first)


@BOTH
async def test_D3_one_real_failure_among_full_ones_is_no_saturation(
    open_: OpenHouse, go_on: GoOn, stream: bool
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "first"], ["end"])
    house = await open_(
        claude=slow,
        codex=fails("quota"),
        chains={"two": ["claude/x", "codex/y"]},
        providers=ONE,
        routing={"queue_s": 0.3},
    )
    first = asyncio.ensure_future(house.chat(ask("q", model="claude/x")))
    await running_call(house)
    answer = await house.ask(stream, ask("q2", model="two"))
    assert answer.codes == ["CONCURRENCY_LIMIT", "QUOTA_EXHAUSTED"]
    assert answer.headers["x-should-retry"] == "false"
    go_on.now()
    await first


# --- M6: the client leaves ---------------------------------------------------------------------


LEAVING: dict[str, Turn] = {
    "before the first byte": hangs(),
    "in the opening": hangs(started=True),
    "in mid-stream": hangs(after=["one ", "two"]),
    "never read": turn(["hang"], stdin="ignore"),
    "in a torrent": turn(["init"], ["start"], ["say", "word ", 10_000_000], ["end"]),
}


@BOTH
@pytest.mark.parametrize("moment", LEAVING)
async def test_M6_a_client_that_leaves_leaves_nothing(
    open_: OpenHouse, moment: str, stream: bool
) -> None:
    house = await open_(claude=LEAVING[moment], codex=says("never"))
    asking = asyncio.ensure_future(house.ask(stream, ask("x" * 300_000)))
    await until(lambda: house.plan.calls(), "the CLI runs")
    await asyncio.sleep(0.15)
    [call] = house.plan.calls()
    left = time.monotonic()
    asking.cancel()
    await until(lambda: not exists(call.pid), "the process is gone", 6)
    await until(lambda: not house.active, "the slot is back", 1)
    await until(lambda: not house.private, "the private folder is gone", 3)
    await until(lambda: house.service.in_flight == 0, "the flight is over", 1)
    assert time.monotonic() - left < 6
    assert house.plan.spawns() == {"claude": 1}


async def test_M6_a_group_that_ignores_TERM_is_gone_within_six_seconds(
    open_: OpenHouse,
) -> None:
    stubborn = turn(
        ["grandchild", "group"], ["init"], ["start"], ["say", "one"], ["hang"], term="ignore"
    )
    house = await open_(claude=stubborn)
    asking = asyncio.ensure_future(house.stream())
    call = await running_call(house)
    await until(lambda: house.plan.calls()[0].grandchildren, "the grandchild runs")
    [grandchild] = house.plan.calls()[0].grandchildren
    await asyncio.sleep(0.1)
    asking.cancel()
    await until(lambda: not exists(call.pid), "the process is gone", 6)
    await until(lambda: not runs(grandchild), "the grandchild is gone", 1)
    assert house.plan.calls()[0].line("term"), "it was asked politely first"
    await until(lambda: not house.active, "the slot is back", 1)


async def test_M6_thirty_requests_leak_no_descriptor(open_: OpenHouse) -> None:
    house = await open_(
        claude=[says("ok"), dies(), hangs(after=["half"]), fails("quota")],
        codex=dies(after=["half"]),
        providers={"claude": {"max_spawn_s": 0.4}},
    )
    await house.chat()
    await house.settled()
    before = _descriptors()
    turns = [says("ok"), dies(), fails("quota"), turn(["grandchild", "group"], ["exit", 1])]
    for number in range(30):
        house.plan.set(claude=turns[number % len(turns)], codex=says("ok"))
        if number % 5:
            await house.ask(bool(number % 2))
        else:
            await _ask_and_leave(house)
    await house.settled()
    await asyncio.sleep(0.2)
    assert _descriptors() <= before + 2


async def _ask_and_leave(house: House) -> None:
    calls = len(house.plan.calls())
    house.plan.set(claude=hangs(after=["half"]))
    asking = asyncio.ensure_future(house.stream())
    await until(lambda: len(house.plan.calls()) > calls, "the CLI runs")
    asking.cancel()
    await until(lambda: not house.active, "the slot is back")


def _descriptors() -> int:
    folder = "/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"  # noqa: PTH110
    return len(os.listdir(folder))  # noqa: PTH208


@BOTH
async def test_M6_a_reader_that_stalls_holds_nobody_up(open_: OpenHouse, stream: bool) -> None:
    torrent = turn(["init"], ["start"], ["say", "x" * 1000, 20_000], ["end"])
    house = await open_(claude=torrent, codex=says("quick"))
    async with house.opened(ask("the slow one")) as response:
        await response.content.readany()
        began = time.monotonic()
        answer = await house.ask(stream, ask("the quick one", model="codex/gpt-5.5"))
        assert answer.text == "quick"
        assert time.monotonic() - began < 10


async def test_M6_a_client_that_only_stops_sending_gets_its_answer(open_: OpenHouse) -> None:
    house = await open_(claude=turn(["init"], ["start"], ["sleep", 0.3], ["say", "ok"], ["end"]))
    host, _, port = house.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = b'{"model":"auto","messages":[{"role":"user","content":"hi"}]}'
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    data: bytes = await asyncio.wait_for(reader.read(), 10)
    assert data.startswith(b"HTTP/1.1 200 OK")
    assert b'"ok"' in data
    writer.close()


# --- M1, M3: what a CLI gets to see ------------------------------------------------------------


@pytest.mark.parametrize("provider", ["claude", "codex", "vibe"])
async def test_M1_a_cli_starts_in_an_empty_folder_with_an_allow_listed_environment(
    open_: OpenHouse, provider: str, surroundings: pytest.MonkeyPatch
) -> None:
    canaries = {
        "OLP_AUTH_KEY_X": "canary",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "ANTHROPIC_API_KEY": "canary",
        "OPENAI_API_KEY": "canary",
        "LD_PRELOAD_X": "canary",
        "NODE_OPTIONS": "canary",
        "CLAUDE_CODE_OAUTH_TOKEN": "canary-of-claude",
        "MISTRAL_API_KEY": "canary-of-vibe",
    }
    for name, value in canaries.items():
        surroundings.setenv(name, value)
    house = await open_(**{provider: says("ok")}, chains={"one": [f"{provider}/m"]})
    assert (await house.chat(ask("the prompt", model="one"))).text == "ok"
    [call] = house.plan.calls()
    assert call.start["listing"] == []
    assert call.start["cwd"] == str(house.place.work)
    own = f"canary-of-{provider}"
    values = [value for value in call.env.values() if "canary" in value]
    assert values == ([own] if provider != "codex" else [])
    assert call.start["private"]["mode"] == "0o700"
    files = call.start["private"]["entries"]
    assert all(mode == "0o600" for name, mode in files.items() if "." in name), files
    assert "the prompt" not in " ".join(call.argv)
    assert call.pid == call.start["pgid"] == call.start["sid"]


async def test_M1_a_big_prompt_and_a_big_system_prompt_arrive(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s" * 300_000},
        {"role": "user", "content": "p" * 300_000},
    ]
    answer = await house.chat({"model": "auto", "messages": messages})
    assert answer.text == "ok"
    [call] = house.plan.calls()
    read = call.line("read")
    assert read is not None
    assert read["size"] == 300_000
    assert max(map(len, call.argv)) < 4096


@BOTH
async def test_M2_a_cli_that_uses_its_own_tool_is_ended(open_: OpenHouse, stream: bool) -> None:
    house = await open_(
        claude=turn(["init"], ["start"], ["tool", "Bash"], ["say", "root"], ["hang"]),
        codex=turn(["init"], ["start"], ["tool", "cat"], ["say", "root"], ["hang"]),
        vibe=turn(["start"], ["tool", "bash"], ["say", "root"], ["hang"]),
    )
    answer = await house.ask(stream)
    assert answer.status == 502
    assert answer.codes == ["SPAWN_FAILED"] * 3
    assert "own tool Bash" in answer.detail[0]["error_message"]
