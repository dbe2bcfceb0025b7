"""What moves a chain on although it looks like an answer, and what does not although it looks like
a failure: over HTTP, with each fake CLI."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from olp.cli import compose as composition
from olp.providers.claude import Claude
from olp.runtime.serving import service
from tests.conftest import OpenHouse
from tests.fakes.plan import Turn, fails, hangs, says, turn
from tests.support import BOTH, House, ask

CLIS = ("claude", "codex", "vibe")
MODELS = {"claude": "claude/sonnet", "codex": "codex/gpt-5.5", "vibe": "vibe/mistral-medium-3.5"}
FROM = {cli: [f"{cli}/m", "claude/next" if cli != "claude" else "codex/next"] for cli in CLIS}
EMPTY = "X-OLP-Empty-Answer"

BLANK: dict[str, Turn] = {
    "nothing": turn(["init"], ["start"], ["end"]),
    "no letter": says(""),
    "white space": says(" ", "\n"),
    "thinking alone": turn(["init"], ["start"], ["think", "hm"], ["end"]),
}


async def two(open_: OpenHouse, cli: str, doing: Turn, **tables: Any) -> House:
    """A house with a chain that begins with `cli`; its other hop answers."""
    other = FROM[cli][1].partition("/")[0]
    turns = {other: says("the next"), cli: doing}
    return await open_(**turns, chains={"two": FROM[cli]}, **tables)


# --- an answer that is none ----------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize("blank", BLANK)
async def test_A7_an_empty_answer_moves_the_chain_on(
    open_: OpenHouse, cli: str, blank: str, stream: bool
) -> None:
    house = await two(open_, cli, BLANK[blank])
    answer = await house.ask(stream, ask(model="two"))
    assert (answer.text, answer.finish, answer.codes) == ("the next", "stop", ["EMPTY_ANSWER"])
    assert answer.served[2] == 1 and EMPTY not in answer.headers
    assert answer.detail[0]["trigger_type"] == "hard"


@BOTH
@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize("blank", BLANK)
async def test_A7_alone_an_empty_answer_is_told_as_such(
    open_: OpenHouse, cli: str, blank: str, stream: bool
) -> None:
    house = await open_(**{cli: BLANK[blank]})
    answer = await house.ask(stream, ask(model=MODELS[cli]))
    assert (answer.status, answer.text.strip(), answer.finish) == (200, "", "stop")
    assert answer.headers[EMPTY] == "true"


@BOTH
async def test_A7_the_last_hops_empty_answer_is_told_after_failures(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=fails("quota"), codex=fails("overloaded"), vibe=says(""))
    answer = await house.ask(stream)
    assert (answer.status, answer.finish, answer.served[0]) == (200, "stop", "vibe")
    assert answer.headers[EMPTY] == "true"
    assert answer.codes == ["QUOTA_EXHAUSTED", "OVERLOADED"]


@BOTH
@pytest.mark.parametrize(
    ("asked", "said", "finish"),
    [
        ({"stop": "STOP"}, says("STOP and more"), "stop"),
        ({"max_tokens": 5}, turn(["init"], ["start"], ["end", "length"]), "length"),
        ({}, turn(["init"], ["start"], ["end", "refusal"]), "content_filter"),
    ],
    ids=["a stop string first", "a cut", "a refusal"],
)
async def test_A7_what_ends_for_a_reason_is_not_empty(
    open_: OpenHouse, asked: dict[str, Any], said: Turn, finish: str, stream: bool
) -> None:
    house = await open_(claude=said, codex=says("never"), chains={"two": FROM["claude"]})
    answer = await house.ask(stream, ask(model="two", **asked))
    assert (answer.text, answer.finish) == ("", finish)
    assert EMPTY not in answer.headers
    assert house.plan.spawns() == {"claude": 1}


async def test_F2_three_empty_answers_open_the_circuit_in_a_chain(open_: OpenHouse) -> None:
    house = await two(open_, "claude", says(""))
    codes = [(await house.chat(ask(f"q{n}", model="two"))).codes for n in range(4)]
    assert codes == [["EMPTY_ANSWER"]] * 3 + [["CIRCUIT_OPEN"]]


async def test_H3_an_empty_answer_is_not_kept(open_: OpenHouse) -> None:
    house = await open_(claude=[says(""), says("words")], cache={"ttl_s": 60})
    answers = [await house.chat(ask(model="claude/sonnet")) for _ in range(3)]
    assert [answer.text for answer in answers] == ["", "words", "words"]
    assert [answer.headers["X-OLP-Cache"] for answer in answers] == ["miss", "miss", "hit"]


# --- text and failure in one breath --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["overloaded", "quota", "rate"])
async def test_B1_a_failure_read_with_the_first_text_moves_the_stream_on(
    open_: OpenHouse, kind: str
) -> None:
    """The fake's whole output is one write, so that it is read at once."""
    first = await open_(claude=says("x"), codex=says("the next"), chains={"two": FROM["claude"]})
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "ha"},
    }
    status = {"overloaded": 529, "quota": 402, "rate": 429}[kind]
    result = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error"}
    lines = [
        {"type": "stream_event", "event": delta, "parent_tool_use_id": None},
        {**result, "api_error_status": status},
    ]
    raw = "".join(json.dumps(line) + "\n" for line in lines)
    first.plan.set(claude=turn(["init"], ["start"], ["raw", raw], ["hang"]), codex=says("the next"))
    answer = await first.stream(ask(model="two"))
    assert (answer.text, answer.finish, answer.served[2]) == ("the next", "stop", 1)


@pytest.mark.parametrize("stream", [True])
async def test_B1_a_vibe_that_tells_its_text_and_its_failure_at_its_end(
    open_: OpenHouse, stream: bool
) -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "half"}]}
    cut = turn(["start"], ["json", {**said, "outcome": {}}], ["fail", "overloaded"])
    house = await open_(vibe=cut, claude=says("the next"), chains={"two": FROM["vibe"]})
    answer = await house.ask(stream, ask(model="two"))
    assert (answer.text, answer.codes) == ("the next", ["OVERLOADED"])


# --- a context that is too small -----------------------------------------------------------------


def sized(**sizes: int) -> dict[str, Any]:
    return {cli: {"context": {"m": size, "next": size}} for cli, size in sizes.items()}


@BOTH
@pytest.mark.parametrize("cli", CLIS)
async def test_A7_a_context_that_is_too_long_goes_to_a_larger_one(
    open_: OpenHouse, cli: str, stream: bool
) -> None:
    other = FROM[cli][1].partition("/")[0]
    house = await two(open_, cli, fails("context"), providers=sized(**{cli: 100, other: 200}))
    answer = await house.ask(stream, ask(model="two"))
    assert (answer.text, answer.codes) == ("the next", ["CONTEXT_TOO_LONG"])
    assert answer.detail[0]["trigger_type"] == "client_error"


@BOTH
@pytest.mark.parametrize(
    "sizes", [{}, {"claude": 200, "codex": 100}, {"codex": 100}, {"claude": 9}]
)
async def test_A7_a_context_that_is_too_long_stops_where_nobody_is_known_to_read_more(
    open_: OpenHouse, sizes: dict[str, int], stream: bool
) -> None:
    house = await two(open_, "claude", fails("context"), providers=sized(**sizes))
    answer = await house.ask(stream, ask(model="two"))
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    assert house.plan.spawns() == {"claude": 1}


async def test_A7_the_sizes_are_those_that_the_clis_tell(
    open_: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """codex in its list of models, claude with each answer."""
    monkeypatch.setattr(service, "SURVEY_AFTER_S", 3600.0)
    chains = {"two": ["codex/gpt-5.5", "claude/sonnet"]}
    house = await open_(chains=chains)
    told = ["json", {"type": "result", "subtype": "success", "result": "hi", "usage": {}}]
    told[1]["modelUsage"] = {"claude-sonnet": {"contextWindow": 1_000_000}}  # type: ignore[index]
    talks = turn(["init"], ["start"], ["say", "hi"], told)
    house.plan.set(
        claude=talks,
        codex=fails("context"),
        surveys={"codex": {"contexts": {"gpt-5.5": 272_000}}},
    )
    assert (await house.chat(ask("1", model="two"))).status == 400, "nothing is known yet"
    assert (await house.chat(ask("2", model="claude/sonnet"))).text == "hi"
    assert (await house.chat(ask("3", model="two"))).status == 400
    await house.service.refresh()
    answer = await house.chat(ask("4", model="two"))
    assert (answer.text, answer.codes) == ("hi", ["CONTEXT_TOO_LONG"])


# --- the opening clock ---------------------------------------------------------------------------


def test_C3_a_silent_vendor_costs_a_minute_where_the_cli_would_show_it() -> None:
    found = composition.find_providers(composition.read_config(None).config)
    shown = {name: item.provider.info.opening_s for name, item in found.items()}
    assert (shown["claude"], shown["codex"], shown["vibe"]) == (60.0, None, None)


@pytest.mark.parametrize(
    ("routing", "own", "seconds"),
    [({}, {}, 2.0), ({"opening_s": 0.7}, {}, 0.7), ({"opening_s": 0.7}, {"opening_s": 4.0}, 4.0)],
    ids=["as the CLI shows", "less in [routing]", "the owner's own"],
)
async def test_C3_the_owners_word_on_it_goes_before_the_clis_sign(
    open_: OpenHouse,
    monkeypatch: pytest.MonkeyPatch,
    routing: dict[str, float],
    own: dict[str, float],
    seconds: float,
) -> None:
    monkeypatch.setattr(Claude, "info", replace(Claude.info, opening_s=2.0))
    house = await two(open_, "claude", hangs(), routing=routing, providers={"claude": own})
    began = time.monotonic()
    answer = await house.chat(ask(model="two"))
    assert (answer.text, answer.codes) == ("the next", ["SPAWN_TIMEOUT"])
    assert seconds <= time.monotonic() - began < seconds * 1.9


@BOTH
@pytest.mark.parametrize("cli", ["codex", "vibe"])
async def test_C3_a_clis_own_first_lines_are_no_sign_of_its_vendor(
    open_: OpenHouse, cli: str, stream: bool
) -> None:
    """An echo of the prompt, and the start of a thread: the vendor may not have been reached."""
    begun = turn(["init"], ["start"], ["hang"])
    house = await two(open_, cli, begun, routing={"opening_s": 0.7, "gate_s": 0.1})
    answer = await house.ask(stream, ask(model="two"))
    assert (answer.text, answer.codes) == ("the next", ["SPAWN_TIMEOUT"])
