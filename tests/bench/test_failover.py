"""bench/failover itself: that it passes what is well, and above all that it fails what is not."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import failover, page
from bench.failover import MODES, SCORECARD, judged, play, scorecard, totals
from bench.faults import (
    FAULTS,
    FIRST_TEXT,
    NEXT_TEXT,
    Fault,
    Kind,
    Stage,
    Tables,
    Verdict,
    Wrong,
    all_of,
    cut,
    expect,
    filtered,
    refused,
    whole,
)
from tests.fakes.plan import says
from tests.support import BOTH, Answer, Client, Streamed, end

BY_ID = {fault.id: fault for fault in FAULTS}
TOTALS = re.compile(r"buffered (\d+)/(\d+), streaming (\d+) pass (\d+) safe (\d+) fail")


# --- the harness, on a real server -------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ["S05", "S12", "S21"])
async def test_a_fault_that_is_survived_passes(name: str, stream: bool, fake_clis: Path) -> None:
    outcome = await play(BY_ID[name], stream, fake_clis)
    assert (outcome.verdict, outcome.mode) == ("pass", MODES[stream]), outcome
    assert outcome.spawns == {"claude": 1, "codex": 1, "vibe": 1}
    assert outcome.seconds < 10


async def test_a_stream_that_breaks_off_is_safe(fake_clis: Path) -> None:
    outcome = await play(BY_ID["S08"], True, fake_clis)
    assert (outcome.verdict, outcome.what) == ("safe", "what had come, then finish `length`")
    assert outcome.hops == [0, 0, 0]


BROKEN: dict[str, tuple[str, Tables, str]] = {
    "no hop is left": ("S05", {"chains": {"auto": ["claude/a", "codex/b"]}}, "hops"),
    "a breaker that never opens": ("S04", {"breaker": {"threshold": 99}}, "codes of hop 0"),
    "a breaker that opens at once": ("S03", {"breaker": {"threshold": 1}}, "CIRCUIT_OPEN"),
    "a login that is missing moves on": (
        "S19",
        {"routing": {"on_auth_missing": "advance"}},
        "codes of the hops",
    ),
    "a slow hop is given up": ("S07", {"routing": {"gate_action": "advance"}}, "SPAWN_TIMEOUT"),
    "the detail is hidden": ("S16", {"routing": {"fallback_detail": "none"}}, "the detail"),
    "the slots are few": (
        "S25",
        {"providers": {"claude": {"max_concurrent": 2}}, "routing": {"queue_s": 0}},
        "CLIs started",
    ),
    "a setting that does not exist": ("S05", {"server": {"prot": 1}}, "did not start"),
}


@BOTH
@pytest.mark.parametrize(("name", "spoil", "told"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_server_that_is_set_wrongly_fails(
    name: str, spoil: Tables, told: str, stream: bool, fake_clis: Path
) -> None:
    outcome = await play(BY_ID[name], stream, fake_clis, spoil=spoil)
    assert outcome.verdict == "fail"
    assert told in outcome.what


@BOTH
async def test_a_client_that_gets_less_than_was_said_fails(
    stream: bool, fake_clis: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Client.ask

    async def short(self: Client, stream: bool, body: Mapping[str, Any] | None = None) -> Answer:
        answer = await real(self, stream, body)
        if isinstance(answer, Streamed):
            answer.frames = [(at, text.replace(" hop.", "")) for at, text in answer.frames]
        return replace(answer, raw=answer.raw.replace(b" hop.", b""))

    monkeypatch.setattr(Client, "ask", short)
    outcome = await play(BY_ID["S05"], stream, fake_clis)
    assert outcome.verdict == "fail"
    assert outcome.what.startswith("an answer that looks whole and is not")


async def test_a_process_that_is_left_fails_and_is_ended(fake_clis: Path) -> None:
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    left = subprocess.Popen(sleeps)  # noqa: ASYNC220

    async def leaves(stage: Stage) -> Verdict:
        async with stage.house(claude=says("ok")) as house:
            answer = await house.ask()
            record = house.plan.path.with_name(house.plan.path.name + ".record")
            line = {"what": "grandchild", "child": left.pid, "provider": "claude", "call": 0}
            with record.open("a") as file:
                file.write(json.dumps(line) + "\n")
            return whole(answer, "ok")

    try:
        outcome = await play(_fault(leaves), False, fake_clis)
        assert outcome.verdict == "fail"
        assert outcome.what.startswith(f"processes that were left: [{left.pid}]")
        assert left.wait(5) == -9
    finally:
        end(left.pid)
        left.wait(5)


async def test_a_server_that_does_not_end_well_fails(fake_clis: Path) -> None:
    async def kills(stage: Stage) -> Verdict:
        async with stage.house(claude=says("ok")) as house:
            answer = await house.ask()
            await house.kill()
            return whole(answer, "ok")

    outcome = await play(_fault(kills), False, fake_clis)
    assert (outcome.verdict, outcome.what[:22]) == ("fail", "the server's exit code")


@pytest.mark.parametrize("error", [Wrong("odd"), AssertionError("odd"), KeyError("odd")])
async def test_whatever_is_raised_is_a_fail(error: Exception, tmp_path: Path) -> None:
    async def raises(stage: Stage) -> Verdict:
        raise error

    outcome = await play(_fault(raises), True, tmp_path)
    assert outcome.verdict == "fail"
    assert "odd" in outcome.what


async def test_what_never_ends_is_a_fail(tmp_path: Path) -> None:
    async def hangs(stage: Stage) -> Verdict:
        await asyncio.sleep(60)
        return Verdict("pass", "never")

    outcome = await play(_fault(hangs), True, tmp_path, longest_s=0.1)
    assert outcome.verdict == "fail"


# --- the judges, on scripted views -------------------------------------------------------------


def chunk(text: str | None = None, finish: str | None = None) -> str:
    """One frame."""
    delta = {} if text is None else {"content": text}
    return "data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]})


DONE = "data: [DONE]"
ERROR = "data: " + json.dumps({"error": {"message": "m", "type": "t", "param": None, "code": "c"}})
HEADERS = {
    "X-OLP-Provider-Used": "claude",
    "X-OLP-Model-Used": "sonnet",
    "X-OLP-Fallback-Hops": "0",
}


def streamed(*frames: str) -> Streamed:
    """A stream of these frames."""
    return Streamed(200, HEADERS, b"", [(0.0, frame) for frame in frames])


def buffered(text: str, finish: str = "stop") -> Answer:
    """A whole answer."""
    choice = {"message": {"content": text}, "finish_reason": finish}
    return Answer(200, HEADERS, json.dumps({"choices": [choice]}).encode())


def error(status: int, code: str, **more: object) -> Answer:
    """An error."""
    told = {"message": "m", "type": "t", "param": None, "code": code}
    return Answer(status, HEADERS, json.dumps({"error": told, **more}).encode())


A, B = chunk("one "), chunk("two")
STOP, LENGTH, FILTER = chunk(finish="stop"), chunk(finish="length"), chunk(finish="content_filter")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (streamed(A, B, STOP, DONE), "pass"),
        (streamed(A, STOP, DONE), "fail"),
        (streamed(A, B, B, STOP, DONE), "fail"),
        (streamed(A, B, STOP), "fail"),
        (streamed(A, B, DONE), "fail"),
        (streamed(A, B, LENGTH, DONE), "fail"),
        (streamed(A, B, ERROR), "fail"),
        (streamed(A, B, ERROR, STOP, DONE), "fail"),
        (streamed(), "fail"),
        (buffered("one two"), "pass"),
        (buffered("one "), "fail"),
        (buffered("one two", "length"), "fail"),
        (error(502, "spawn_failed"), "fail"),
    ],
)
def test_an_answer_is_whole_or_not(answer: Answer, kind: Kind) -> None:
    assert whole(answer, "one two").kind == kind


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (streamed(A, LENGTH, DONE), "safe"),
        (streamed(A, ERROR), "safe"),
        (streamed(A, STOP, DONE), "fail"),
        (streamed(A, LENGTH), "fail"),
        (streamed(A, ERROR, DONE), "fail"),
        (streamed(A, LENGTH, ERROR, DONE), "fail"),
        (streamed(A), "fail"),
        (streamed(A, FILTER, DONE), "fail"),
        (streamed(A, B, LENGTH, DONE), "fail"),
        (streamed(LENGTH, DONE), "fail"),
        (buffered("one ", "length"), "pass"),
        (buffered("one ", "stop"), "fail"),
        (buffered("one two", "length"), "fail"),
        (error(502, "spawn_failed"), "fail"),
    ],
)
def test_an_answer_that_broke_off_says_so_or_fails(answer: Answer, kind: Kind) -> None:
    assert cut(answer, "one ").kind == kind


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(429, "insufficient_quota"), "pass"),
        (error(429, "rate_limit_exceeded"), "fail"),
        (error(502, "insufficient_quota"), "fail"),
        (error(429, "insufficient_quota", choices=[]), "fail"),
        (buffered("one two"), "fail"),
    ],
)
def test_an_error_is_the_right_one_or_not(answer: Answer, kind: Kind) -> None:
    assert refused(answer, 429, "insufficient_quota").kind == kind


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (streamed(FILTER, DONE), "pass"),
        (streamed(STOP, DONE), "fail"),
        (streamed(FILTER), "fail"),
        (streamed(ERROR), "fail"),
        (buffered("", "content_filter"), "pass"),
        (buffered("", "stop"), "fail"),
        (error(502, "spawn_failed"), "fail"),
    ],
)
def test_a_refusal_is_told_or_not(answer: Answer, kind: Kind) -> None:
    assert filtered(answer).kind == kind


def test_the_worst_of_several_counts() -> None:
    good, safe, bad = (Verdict(kind, kind) for kind in ("pass", "safe", "fail"))
    assert all_of([good, safe], "words") == Verdict("safe", "words")
    assert all_of([bad, safe, good], "words") == bad
    assert all_of([]).kind == "fail"


def test_what_the_fakes_saw_is_compared() -> None:
    expect("spawns", {"claude": 1}, {"claude": 1})
    with pytest.raises(Wrong, match=r"spawns: .*'claude': 2"):
        expect("spawns", {"claude": 2}, {"claude": 1})


@pytest.mark.parametrize(
    ("name", "stream", "kind"),
    [("S08", True, "safe"), ("S08", False, "fail"), ("S05", True, "fail"), ("S20", True, "fail")],
)
def test_safe_is_enough_only_where_it_is_the_most(name: str, stream: bool, kind: Kind) -> None:
    assert judged(BY_ID[name], stream, Verdict("safe", "cut")).kind == kind


# --- the list, the command and the page --------------------------------------------------------


def _fault(run: Any, name: str = "S99") -> Fault:
    return Fault(name, "a fault of a test", run, "told")


def test_the_catalogue_is_complete() -> None:
    assert [fault.id for fault in FAULTS] == [f"S{number:02}" for number in range(1, 26)]
    assert [fault.id for fault in FAULTS if fault.may_be_safe] == ["S08", "S09", "S14"]
    assert len({fault.run for fault in FAULTS}) == len({fault.told for fault in FAULTS}) == 25
    assert FIRST_TEXT != NEXT_TEXT


def _saying(buffered: Kind, streaming: Kind) -> Any:
    async def run(stage: Stage) -> Verdict:
        return Verdict(streaming if stage.stream else buffered, "words")

    return run


@pytest.mark.parametrize(
    ("verdicts", "line", "code"),
    [
        ([("pass", "pass")] * 2, "buffered 2/2, streaming 2 pass 0 safe 0 fail", 0),
        ([("pass", "pass"), ("pass", "fail")], "buffered 2/2, streaming 1 pass 0 safe 1 fail", 1),
        ([("fail", "pass"), ("pass", "pass")], "buffered 1/2, streaming 2 pass 0 safe 0 fail", 1),
    ],
)
def test_the_command_ends_with_the_totals_and_tells_a_fail_by_its_exit_code(
    verdicts: list[tuple[Kind, Kind]],
    line: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    faults = [_fault(_saying(*kinds), f"S{number}") for number, kinds in enumerate(verdicts)]
    file = tmp_path / "scorecard.md"
    file.write_text(page.page({"real": "of another run"}))
    monkeypatch.setattr(failover, "FAULTS", faults)
    assert failover.main(["--write", str(file)]) == code
    assert capsys.readouterr().out.splitlines()[-1] == line
    first = file.read_text()
    assert line in first and "of another run" in first
    assert failover.main(["--json", "--write", str(file)]) == code
    assert json.loads(capsys.readouterr().out)["totals"] == line
    assert file.read_text() == first, "a second run gives the same file"


def test_one_fault_alone_does_not_write_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "scorecard.md"
    monkeypatch.setattr(failover, "FAULTS", [_fault(_saying("pass", "pass"), "S08")])
    with pytest.raises(SystemExit, match="only a run of all"):
        failover.main(["--only", "s08", "--write", str(file)])
    assert failover.main(["--only", "s08"]) == 0
    assert not file.exists()
    with pytest.raises(SystemExit, match="no fault S77"):
        failover.main(["--only", "S77"])


@pytest.mark.timeout(300)
async def test_the_page_tells_what_the_command_prints_today() -> None:
    """Every fault is played: 25 pass without streaming, none fails, and the page says so."""
    rows = await failover.play_all(FAULTS, 3)
    bad = [
        outcome for row in rows for outcome in row.outcomes.values() if outcome.verdict == "fail"
    ]
    assert bad == []
    found = TOTALS.fullmatch(totals(rows))
    assert found and (found[1], found[2], found[5]) == ("25", "25", "0")
    text = SCORECARD.read_text("utf-8")
    parts = page.parts_of(text)
    assert parts["scripted"] == scorecard(rows), "run: bench/failover --write docs/scorecard.md"
    assert page.page(parts) == text
