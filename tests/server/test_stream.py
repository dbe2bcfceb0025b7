"""B and C: the first-chunk rule, the gate and the clocks, over HTTP with fake CLIs."""

from __future__ import annotations

import asyncio
import json
import time
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.conftest import OpenHouse
from tests.fakes.plan import Turn, dies, fails, hangs, says, turn
from tests.support import BOTH, CHAT, GoOn, House, ask, until

HOPS = ("claude", "codex", "vibe")
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
THIRTY_S = ["sleep", 30]


async def begun(house: House) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a stream was asked for: what a client library would not show."""
    url = urlsplit(house.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    body = json.dumps(ask(stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    return reader, writer


async def test_B1_not_one_byte_goes_out_while_another_hop_may_still_serve(
    open_: OpenHouse, go_on: GoOn
) -> None:
    before = turn(*(["init"], ["start"], ["think", "hm"], go_on.wait), ["fail", "quota"])
    house = await open_(claude=before, codex=says("saved"), server={"keepalive_s": 0.05})
    reader, writer = await begun(house)
    reading = asyncio.ensure_future(reader.read(1))
    await until(lambda: house.plan.calls(), "the first hop runs")
    await asyncio.sleep(0.4)
    assert not reading.done()
    go_on.now()
    first = await asyncio.wait_for(reading, 10)
    rest = await asyncio.wait_for(reader.readuntil(b"[DONE]"), 10)
    assert (first + rest).startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"saved" in rest
    assert b"hm" not in rest.partition(b"\r\n\r\n")[2]
    writer.close()


@pytest.mark.parametrize(
    "broken",
    [
        dies(after=["one ", "two"]),
        fails("overloaded", after=["one ", "two"]),
        fails("quota", after=["one ", "two"]),
        hangs(after=["one ", "two"]),
    ],
    ids=["dies", "overloaded", "quota", "hangs"],
)
async def test_B2_after_the_first_byte_nobody_else_is_tried(open_: OpenHouse, broken: Turn) -> None:
    house = await open_(
        claude=broken, codex=says("never"), providers={"claude": {"max_spawn_s": 1.5}}
    )
    answer = await house.stream()
    assert answer.text == "one two"
    assert answer.served[::2] == ("claude", 0)
    assert house.plan.spawns() == {"claude": 1}


@pytest.mark.parametrize("code", [0, 1, 137])
async def test_B3_a_death_after_content_ends_with_length(open_: OpenHouse, code: int) -> None:
    house = await open_(claude=dies(after=["one ", "two"], code=code))
    answer = await house.stream()
    assert (answer.text, answer.finish, answer.done) == ("one two", "length", True)


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (fails("overloaded", after=["one"]), "overloaded"),
        (fails("quota", after=["one"]), "insufficient_quota"),
        (fails("expired", after=["one"]), "provider_auth_missing"),
        (fails("unknown", after=["one"]), "vendor_cut"),
        (hangs(after=["one"]), "spawn_timeout"),
    ],
)
async def test_B3_another_failure_after_content_ends_with_an_error_event(
    open_: OpenHouse, broken: Turn, code: str
) -> None:
    house = await open_(claude=broken, providers={"claude": {"max_spawn_s": 1.0}})
    answer = await house.stream()
    assert answer.text == "one"
    assert answer.error["code"] == code
    assert not answer.done
    assert not answer.finished


async def test_C1_deltas_come_as_they_are_said(open_: OpenHouse, go_on: GoOn) -> None:
    live = turn(*(["init"], ["start"], ["say", "one"], go_on.wait, ["say", "two"], ["end"]))
    house = await open_(claude=fails("rate"), vibe=says("never"), codex=says("never"))
    house.plan.set(claude=[live])
    async with house.opened() as response:
        seen = b""
        async with asyncio.timeout(10):
            while b'"one"' not in seen:
                seen += await response.content.readany()
        assert b"two" not in seen
        go_on.now()
        async with asyncio.timeout(10):
            rest = await response.content.read()
    assert b"two" in rest
    assert rest.endswith(b"data: [DONE]\n\n")


async def test_C1_the_notices_before_the_content_are_no_reason_to_stay(open_: OpenHouse) -> None:
    before = turn(["init"], ["start"], ["think", "hm"], ["say", ""], ["fail", "overloaded"])
    house = await open_(claude=before, codex=says("saved"))
    answer = await house.stream()
    assert (answer.text, answer.reasoning) == ("saved", "")
    assert answer.served == ("codex", "gpt-5.5", 1)


async def test_C2_after_the_content_everything_passes(open_: OpenHouse) -> None:
    talk = turn(["init"], ["start"], ["think", "hm"], ["say", "a"], ["think", "so"], ["end"])
    house = await open_(claude=talk)
    answer = await house.stream()
    assert (answer.text, answer.reasoning, answer.finish) == ("a", "hmso", "stop")


async def test_C2_a_slow_model_is_committed_to_when_the_gate_ends(
    open_: OpenHouse, go_on: GoOn
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "at last"], ["end"])
    house = await open_(claude=slow, codex=says("never"), routing={"gate_s": 0.3})
    began = time.monotonic()
    async with house.opened() as response:
        assert time.monotonic() - began >= 0.3
        go_on.now()
        async with asyncio.timeout(10):
            rest = await response.content.read()
    assert b"at last" in rest
    assert house.plan.spawns() == {"claude": 1}


async def test_C2_committed_and_then_nothing_is_an_error_event(open_: OpenHouse) -> None:
    slow = turn(["init"], ["start"], ["sleep", 0.8], ["fail", "overloaded"])
    house = await open_(claude=slow, codex=says("never"), routing={"gate_s": 0.1})
    answer = await house.stream()
    assert answer.error["code"] == "overloaded"
    assert not answer.done
    assert house.plan.spawns() == {"claude": 1}


async def test_C2_a_provider_may_have_a_gate_of_its_own(open_: OpenHouse) -> None:
    slow = turn(["init"], ["start"], ["sleep", 0.6], ["fail", "overloaded"])
    house = await open_(
        claude=slow,
        codex=says("saved"),
        routing={"gate_s": 0.1},
        providers={"claude": {"gate_s": 20.0}},
    )
    assert (await house.stream()).text == "saved"


async def test_C2_reasoning_may_commit_where_the_chain_says_so(
    open_: OpenHouse, go_on: GoOn
) -> None:
    thinking = turn(*(["init"], ["start"], ["think", "hm"], go_on.wait, ["say", "a"], ["end"]))
    house = await open_(
        claude=thinking, chains={"live": {"hops": ["claude/x"], "gate": "reasoning"}}
    )
    async with house.opened(ask(model="live")) as response:
        seen = b""
        async with asyncio.timeout(10):
            while b"hm" not in seen:
                seen += await response.content.readany()
        go_on.now()
        async with asyncio.timeout(10):
            assert b'"a"' in await response.content.read()


@BOTH
@pytest.mark.parametrize("started", [False, True], ids=["silent", "only init"])
async def test_C3_the_opening_ends_where_the_vendor_begins(
    open_: OpenHouse, started: bool, stream: bool
) -> None:
    silent = turn(["init"], ["hang"]) if started else hangs()
    house = await open_(claude=silent, codex=says("saved"), routing={"opening_s": 0.5})
    answer = await house.ask(stream)
    assert answer.text == "saved"
    assert answer.codes == ["SPAWN_TIMEOUT"]


@BOTH
async def test_C3_the_gate_begins_after_the_opening(open_: OpenHouse, stream: bool) -> None:
    slow = turn(["init"], ["sleep", 0.2], ["start"], ["sleep", 1.2], ["say", "ok"], ["end"])
    house = await open_(claude=slow, codex=says("never"), routing={"opening_s": 1.3})
    assert (await house.ask(stream)).text == "ok"


async def test_C3_a_provider_may_declare_a_shorter_opening(open_: OpenHouse) -> None:
    house = await open_(
        claude=hangs(), codex=says("saved"), providers={"claude": {"opening_s": 0.3}}
    )
    began = time.monotonic()
    assert (await house.stream()).text == "saved"
    assert time.monotonic() - began < 10


async def test_C3_the_total_wins_over_what_was_buffered(open_: OpenHouse) -> None:
    house = await open_(
        claude=hangs(after=["half an answer"]),
        codex=says("saved"),
        providers={"claude": {"max_spawn_s": 0.8}},
    )
    answer = await house.chat()
    assert answer.text == "saved"
    assert answer.codes == ["SPAWN_TIMEOUT"]


@BOTH
async def test_C3_no_hop_is_started_when_the_time_is_nearly_over(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(
        claude=hangs(),
        codex=says("never"),
        vibe=says("never"),
        routing={"opening_s": 0.6, "deadline_s": 10.3},
    )
    answer = await house.ask(stream)
    assert answer.status == 504
    assert answer.codes == ["SPAWN_TIMEOUT", "DEADLINE", "DEADLINE"]
    assert house.plan.spawns() == {"claude": 1}


@BOTH
async def test_C3_a_chain_may_move_on_at_the_gate(open_: OpenHouse, stream: bool) -> None:
    thinks = turn(["init"], ["start"], ["think", "hm"], ["hang"])
    house = await open_(
        claude=thinks,
        codex=says("saved"),
        chains={"quick": {"hops": ["claude/x", "codex/y"], "gate_action": "advance"}},
        routing={"gate_s": 0.4},
    )
    answer = await house.ask(stream, ask(model="quick"))
    assert answer.text == "saved"
    assert answer.codes == ["SPAWN_TIMEOUT"]


@pytest.mark.parametrize("kind", ["overloaded", "quota", "rate"])
async def test_C4_without_streaming_fallback_is_possible_to_the_end(
    open_: OpenHouse, kind: str
) -> None:
    house = await open_(claude=fails(kind, after=["most of ", "it"]), codex=says("saved"))
    answer = await house.chat()
    assert answer.text == "saved"
    assert answer.served == ("codex", "gpt-5.5", 1)


async def test_C5_comments_come_only_after_the_commit(open_: OpenHouse) -> None:
    slow = turn(["init"], ["start"], ["say", "a"], ["sleep", 0.6], ["say", "b"], ["end"])
    wait = turn(["init"], ["start"], ["sleep", 0.6], ["fail", "rate"])
    house = await open_(claude=[wait, slow], codex=says("x"), server={"keepalive_s": 0.1})
    answer = await house.stream()
    assert (answer.served[0], answer.comments) == ("codex", [])
    answer = await house.stream()
    assert answer.served[0] == "claude"
    first_text = next(at for at, text in answer.frames if '"a"' in text)
    assert 3 <= len(answer.comments) <= 6
    assert all(at > first_text for at in answer.comments)


async def test_C5_zero_switches_the_comments_off(open_: OpenHouse) -> None:
    slow = turn(["init"], ["start"], ["say", "a"], ["sleep", 0.4], ["say", "b"], ["end"])
    house = await open_(claude=slow, server={"keepalive_s": 0})
    assert (await house.stream()).comments == []


@BOTH
@pytest.mark.parametrize("provider", ["claude", "codex", "vibe"])
@pytest.mark.parametrize(
    "extra",
    [[THIRTY_S], [["grandchild", "group"]], [["grandchild", "own"]]],
    ids=["lingers", "grandchild", "grandchild of its own session"],
)
async def test_C6_the_answer_ends_at_the_final_event(
    open_: OpenHouse, extra: list[list[object]], provider: str, stream: bool
) -> None:
    talk = says("all of it")
    linger = extra == [THIRTY_S]
    talk["do"] = [*talk["do"], *extra] if linger else [*extra, *talk["do"]]
    house = await open_(**{provider: talk}, chains={"one": [f"{provider}/m"]})
    began = time.monotonic()
    answer = await house.ask(stream, ask(model="one"))
    spent = time.monotonic() - began
    assert (answer.text, answer.finish) == ("all of it", "stop")
    # What keeps the output open stays for 30 s and more.
    assert spent < 10


@BOTH
@pytest.mark.parametrize("provider", ["claude", "codex", "vibe"])
async def test_C7_an_exit_without_a_final_event_is_no_success(
    open_: OpenHouse, provider: str, stream: bool
) -> None:
    other = "codex" if provider == "claude" else "claude"
    house = await open_(
        **{provider: turn(["init"], ["start"], ["exit", 0]), other: says("saved")},
        chains={"two": [f"{provider}/x", f"{other}/y"]},
    )
    answer = await house.ask(stream, ask(model="two"))
    assert answer.text == "saved"
    assert answer.codes == ["SPAWN_FAILED"]


@BOTH
async def test_C7_however_complete_the_text_looks(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=dies(after=["It is 42."], code=0), codex=says("never"))
    answer = await house.ask(stream)
    assert (answer.text, answer.finish) == ("It is 42.", "length")


@BOTH
async def test_C7_output_cut_at_64_KiB_with_exit_code_0(open_: OpenHouse, stream: bool) -> None:
    cut = turn(["init"], ["start"], ["say", "word{i} ", 2000], ["end"], cap=64 * 1024)
    house = await open_(claude=cut, codex=says("never"))
    answer = await house.ask(stream)
    assert answer.text.startswith("word0 word1 ")
    assert answer.finish == "length"
    assert house.plan.spawns() == {"claude": 1}


@BOTH
async def test_C7_garbage_between_the_events_is_no_end(open_: OpenHouse, stream: bool) -> None:
    odd: list[list[object]] = [
        ["raw", "npm notice: not JSON\n"],
        ["raw", "[1, 2]\n\n{\n"],
        ["hex", "fffe800a"],
        ["json", {"type": "brand_new", "event": None}],
        ["raw", "null\r\n"],
    ]
    talk = turn(["init"], *odd, ["start"], ["say", "a"], *odd, ["say", "b"], *odd, ["end"])
    house = await open_(claude=talk)
    answer = await house.ask(stream)
    assert (answer.text, answer.finish) == ("ab", "stop")


@BOTH
async def test_C7_a_character_cut_between_two_reads_is_whole(
    open_: OpenHouse, stream: bool
) -> None:
    talk = turn(["init"], ["start"], ["split", "für 日本 😀"], ["say", "!"], ["end"])
    house = await open_(claude=talk)
    assert (await house.ask(stream)).text == "für 日本 😀!"


@BOTH
async def test_C1_twenty_thousand_deltas_arrive_in_order(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=turn(["init"], ["start"], ["say", "{i} ", 20_000], ["end"]))
    answer = await house.ask(stream)
    assert answer.text.split() == [str(number) for number in range(20_000)]
    assert answer.finish == "stop"


async def test_D3_a_client_that_takes_no_byte_at_the_very_end_is_given_up(
    open_: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last chunk of a stream waits for the client like every other; what the answer held is
    free again after `STALLED_S`."""

    async def stuck(response: web.StreamResponse, data: bytes = b"") -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(web.StreamResponse, "write_eof", stuck)
    monkeypatch.setattr("olp.server.endpoint.STALLED_S", 0.3)
    house = await open_(claude=says("ok"))
    reader, writer = await begun(house)
    await asyncio.wait_for(reader.readuntil(b"[DONE]"), 10)
    assert len(house.service.request_log.live()) == 1
    await until(lambda: not house.service.request_log.live(), "it is given up", 5)
    assert (await asyncio.wait_for(reader.read(), 5)).strip() == b"", "and hung up on"
    writer.close()


@BOTH
@pytest.mark.parametrize("model", ["claude/sonnet", "codex/gpt-5.5", "vibe/mistral-medium-3.5"])
async def test_N2_tools_are_never_dropped_where_the_assistant_is_to_go_on(
    open_: OpenHouse, model: str, stream: bool
) -> None:
    """No session can continue its own message, and a one-shot process can be given no tools."""
    house = await open_(providers={name: {"transport": "auto"} for name in HOPS})
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "I will"}]
    answer = await house.ask(stream, {"model": model, "messages": said, "tools": [TOOL]})
    assert (answer.status, answer.error["code"]) == (400, "unsupported_parameter")
    assert "cannot continue its own message" in answer.error["message"]
    assert house.plan.spawns() == {}


async def test_N2_tools_are_never_dropped_where_a_cli_has_no_session(
    open_: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("olp.runtime.process.fleet.Fleet.waiting", lambda *given: None)
    house = await open_(providers={name: {"transport": "auto"} for name in HOPS})
    answer = await house.chat({**ask("go", "claude/sonnet"), "tools": [TOOL]})
    assert (answer.status, answer.error["code"]) == (400, "unsupported_parameter")
    assert house.plan.spawns() == {}
