"""The judges of `bench/failover --real`, on scripted answers, and what it prints and writes.

That the faults themselves are played as told is shown by tests/real/test_scorecard.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bench import page
from bench.failover import SCORECARD
from bench.real import command
from bench.real.card import CHAINS, Cell, judged, ways
from bench.real.faults import FAULTS, accounted, flapped
from bench.real.judge import Kind, Verdict, all_of, refused, served, stopped
from bench.real.scene import Reply, Way, text_of
from bench.real.tell import as_json, part, short_of, table, totals, verdicts_of
from tests.real.install import Found
from tests.support import Answer, Streamed

WHOLE = Way(("claude", "codex"), False, "auto")
STREAM = Way(("claude", "codex"), True, "auto")
ERROR = {"message": "m", "type": "t", "param": None, "code": "vendor_cut"}
DETAIL = [{"hop": 0, "provider": "claude", "model": "sonnet", "code": "VENDOR_CUT"}]
BY_ID = {fault.id: fault for fault in FAULTS}


def headers(hop: int, model: str = "", detail: Any = None) -> dict[str, str]:
    """What OLP says of an answer by `hop`."""
    told = {
        "X-OLP-Provider-Used": WHOLE.chain[hop],
        "X-OLP-Model-Used": model or ("claude-sonnet-5", "gpt-5.5")[hop],
        "X-OLP-Fallback-Hops": str(hop),
    }
    detail = DETAIL[:hop] if detail is None else detail
    return told | ({"X-OLP-Fallback-Detail": json.dumps(detail)} if detail else {})


def buffered(text: str, hop: int = 1, finish: str = "stop", **more: Any) -> Answer:
    """A whole answer."""
    told = headers(hop, more.pop("header", ""), more.pop("detail", None))
    choice = {"message": {"content": text}, "finish_reason": finish}
    body = {"model": told["X-OLP-Model-Used"], "choices": [choice], **more}
    return Answer(200, told, json.dumps(body).encode())


def streamed(
    text: str, hop: int = 1, finish: str | None = "stop", error: bool = False, done: bool = True
) -> Streamed:
    """A stream that says `text`, and ends like this."""
    told = headers(hop)
    parts: list[Any] = [{"delta": {"content": text}, "finish_reason": None}]
    parts += [{"delta": {}, "finish_reason": finish}] if finish else []
    frames: list[Any] = [{"model": told["X-OLP-Model-Used"], "choices": [one]} for one in parts]
    frames += [{"error": ERROR}] if error else []
    lines = [f"data: {json.dumps(frame)}" for frame in frames] + ["data: [DONE]"] * done
    return Streamed(200, told, b"", [(0.0, line) for line in lines])


def error(status: int, code: str) -> Answer:
    """An error in the place of an answer."""
    return Answer(status, headers(0), json.dumps({"error": {**ERROR, "code": code}}).encode())


def reply(answer: Answer | None, asked: tuple[int, ...] = (1, 1), **more: Any) -> Reply:
    """What came of a request."""
    return Reply(answer, more.pop("seconds", 1.0), asked, more.pop("sent_at", 0.0), **more)


FIRST, NEXT, CUT = text_of(0), text_of(1), text_of(0, 40)
BROKEN: dict[str, Any] = {"finish": None, "error": True, "done": False}
SERVED: dict[str, tuple[Reply, Kind, str]] = {
    "whole": (reply(buffered(NEXT)), "pass", "the whole answer of hop 1"),
    "streamed": (reply(streamed(NEXT)), "pass", "the whole answer of hop 1"),
    "its white space is not looked at": (reply(buffered(NEXT.strip())), "pass", "hop 1"),
    "late": (reply(buffered(NEXT), seconds=11), "partial", "after 11 s"),
    "another hop is named": (reply(buffered(NEXT, 0)), "partial", "served by claude, hops 0"),
    "another model is named": (reply(buffered(NEXT, model="x")), "partial", "`model`"),
    "the wrong model is named": (reply(buffered(NEXT, header="x")), "partial", "`model`"),
    "no detail": (reply(buffered(NEXT, detail=[])), "partial", "detail []"),
    "broken off, and told": (
        reply(streamed(CUT, 0, **BROKEN), (1, 0)),
        "safe",
        "40 of 60 words, then the error `vendor_cut`",
    ),
    "broken off, and the next asked": (reply(streamed(CUT, 0, **BROKEN)), "fail", "next hop"),
    "broken off, other words": (reply(streamed("a b", 0, **BROKEN), (1, 0)), "fail", "not what"),
    "broken off before a word": (reply(streamed("", 0, **BROKEN), (1, 0)), "fail", "0 of 60"),
    "cut, and whole by its looks": (reply(streamed(CUT, 0), (1, 0)), "fail", "not hop 1's"),
    "cut, as by a limit": (reply(streamed(CUT, 0, "length"), (1, 0)), "fail", "then [DONE]"),
    "cut, with an error and [DONE]": (
        reply(streamed(CUT, 0, None, True), (1, 0)),
        "fail",
        "then [DONE]",
    ),
    "cut, without a word of it": (reply(streamed(CUT, 0, None, done=False)), "fail", "40 of 60"),
    "cut, not streamed": (reply(buffered(CUT, 0, "length"), (1, 0)), "fail", "finish length"),
    "truncated": (reply(buffered(text_of(1, 40))), "fail", "a truncated answer that looks whole"),
    "doubled": (reply(buffered(NEXT + NEXT)), "fail", "doubled text"),
    "of two hops": (reply(buffered(CUT + NEXT)), "fail", "not hop 1's answer"),
    "an error": (reply(error(502, "spawn_failed")), "fail", "502 spawn_failed, with hop 1"),
    "a hang": (reply(None, seconds=60), "fail", "nothing in 60 s"),
    "asked twice": (reply(buffered(NEXT), (2, 1)), "fail", "hop 0's vendor was asked 2 times"),
    "a stranger": (reply(buffered(NEXT), strangers=("mistral/x",)), "fail", "mistral/x"),
}


@pytest.mark.parametrize(("got", "kind", "what"), SERVED.values(), ids=SERVED.keys())
def test_an_answer_is_worth_what_a_client_can_make_of_it(got: Reply, kind: Kind, what: str) -> None:
    verdict = served(got, STREAM if isinstance(got.answer, Streamed) else WHOLE, 1)
    assert (verdict.kind, what in verdict.what) == (kind, True), verdict


@pytest.mark.parametrize(
    ("got", "kind"),
    [
        (reply(buffered("", 0, "content_filter"), (1, 0)), "pass"),
        (reply(streamed("no", 0, "content_filter"), (1, 0)), "pass"),
        (reply(error(400, "bad_request"), (1, 0)), "pass"),
        (reply(error(502, "spawn_failed"), (1, 0)), "fail"),
        (reply(error(429, "rate_limited"), (1, 0)), "fail"),
        (reply(buffered(FIRST, 0), (1, 0)), "fail"),
        (reply(error(400, "bad_request"), (3, 0)), "fail"),
        (reply(buffered(NEXT)), "partial"),
        (reply(None), "fail"),
    ],
)
def test_a_refusal_is_told_as_one_and_nobody_else_is_asked(got: Reply, kind: Kind) -> None:
    assert refused(got).kind == kind


@pytest.mark.parametrize(
    ("got", "kind"),
    [
        (reply(error(400, "too_long"), (1, 0)), "pass"),
        (reply(error(400, "too_long")), "fail"),
        (reply(error(400, "bad_request"), (1, 0)), "fail"),
        (reply(error(502, "too_long"), (1, 0)), "fail"),
        (reply(error(400, "too_long"), (2, 0)), "fail"),
        (reply(None, (1, 0)), "fail"),
    ],
)
def test_a_chain_that_stops_says_why(got: Reply, kind: Kind) -> None:
    assert stopped(got, 400, "too_long").kind == kind


@pytest.mark.parametrize(
    ("usage", "detail", "kind"),
    [
        ({"prompt_tokens": 321, "completion_tokens": 123}, DETAIL, "pass"),
        ({"prompt_tokens": 0, "completion_tokens": 123}, DETAIL, "partial"),
        (None, DETAIL, "partial"),
        (
            {"prompt_tokens": 321, "completion_tokens": 123},
            [{**DETAIL[0], "model": "opus"}],
            "partial",
        ),
    ],
)
def test_the_accounting_is_compared(usage: Any, detail: Any, kind: Kind) -> None:
    answer = buffered(NEXT, usage=usage, detail=detail)
    assert accounted(answer, WHOLE, Verdict("pass", "whole")).kind == kind


def outage(*hops_and_moments: tuple[int, float], asked: int = 1) -> list[Reply]:
    """Replies by these hops at these seconds after the recovery."""
    return [
        reply(buffered(text_of(hop), hop), (asked, hop), sent_at=at) for hop, at in hops_and_moments
    ]


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        (outage((1, -2), (1, -1), (0, 5.9)), "pass"),
        (outage((1, -9), (0, 6.1)), "pass"),
        (outage((1, -9), (1, 6.1), (0, 7), asked=0), "fail"),
        (outage((1, -9), (1, 6.1), (0, 7)), "pass"),
        (outage((1, -1), (1, 1)), "fail"),
        (outage(*[(1, -1.0)] * 7, (0, 1)), "fail"),
        ([*outage((0, 1)), reply(error(503, "overloaded"), (1, 0), sent_at=-1)], "fail"),
    ],
)
def test_a_vendor_that_is_back_is_used_again_in_time(replies: list[Reply], kind: Kind) -> None:
    assert flapped(WHOLE, replies, 0.0, 12.0).kind == kind


def test_the_worst_of_several_counts_and_passes_are_told_together() -> None:
    good, other, weak = Verdict("pass", "a"), Verdict("pass", "b"), Verdict("partial", "c")
    safe, bad = Verdict("safe", "d"), Verdict("fail", "e")
    assert all_of([good, good, other]) == Verdict("pass", "a; b")
    assert all_of([good, weak]) == weak
    assert all_of([safe, weak, good]) == safe
    assert all_of([bad, safe]) == bad
    assert all_of([]).kind == "fail"


@pytest.mark.parametrize(
    ("fault", "way", "kind"),
    [
        ("S08", STREAM, "safe"),
        ("S08", WHOLE, "fail"),
        ("S05", STREAM, "fail"),
        ("S10", STREAM, "safe"),
        ("S10", Way(("codex", "claude"), True, "auto"), "fail"),
    ],
)
def test_safe_is_enough_only_where_it_is_the_most(fault: str, way: Way, kind: Kind) -> None:
    assert judged(BY_ID[fault], way, Verdict("safe", "cut")).kind == kind


# --- the list, the command and the page --------------------------------------------------------


def test_the_catalogue_is_complete() -> None:
    assert [fault.id for fault in FAULTS] == [f"S{number:02}" for number in range(1, 17)]
    assert len({fault.run for fault in FAULTS}) == len({fault.told for fault in FAULTS}) == 16


def column(way: Way, *verdicts: Kind) -> list[Cell]:
    """A column with these verdicts, the rest passes."""
    kinds = [*verdicts, *["pass"] * (16 - len(verdicts))]
    return [
        Cell(fault.id, way.chain_name, way.mode, way.transport, kind, f"of {fault.id}")  # type: ignore[arg-type]
        for fault, kind in zip(FAULTS, kinds, strict=True)
    ]


@pytest.mark.parametrize(
    ("way", "verdicts", "short"),
    [
        (STREAM, ["safe"] * 5, 0),
        (STREAM, ["safe"] * 6, 1),
        (WHOLE, ["partial"] * 2, 0),
        (WHOLE, ["partial"] * 3, 1),
        (WHOLE, ["fail"], 1),
    ],
)
def test_less_than_is_wanted_is_told(way: Way, verdicts: Sequence[Kind], short: int) -> None:
    assert len(short_of(column(way, *verdicts), [way])) == short


def test_the_table_and_the_numbers() -> None:
    cells = [*column(WHOLE, "partial"), *column(STREAM, "safe", "fail")]
    on = [WHOLE, STREAM]
    text = "\n".join(table(cells, on))
    assert "15/1/0/0   14/0/1/1" in text
    assert text.count("of S01") == 2 and "of S03" not in text
    assert totals(cells) == "29/1/1/1"
    told = as_json(cells, on, {"vibe": Found("vibe", SCORECARD, "3.0.2")})
    assert len(told["cells"]) == 32 and told["clis"] == {"vibe": "3.0.2"}
    assert told["totals"]["claude → codex, streaming, auto"] == "14/0/1/1"


def test_each_part_of_the_page_is_left_alone_by_the_other() -> None:
    cells = column(WHOLE, "partial")
    real = part(cells, [WHOLE], {})
    assert "| S01 | one 429 with Retry-After | partial |" in real
    assert verdicts_of(real)["S01", WHOLE.name] == "partial"
    assert list(verdicts_of(real).values()) == ["partial", *["pass"] * 15]
    parts = {"scripted": "scripted words", "real": real}
    assert page.parts_of(page.page(parts)) == parts
    assert page.parts_of(page.page({"real": real}))["scripted"] == page.EMPTY


def test_what_is_not_there_is_said() -> None:
    options = {"only": ["S17"], "chain": [], "transport": []}
    with pytest.raises(SystemExit, match="no fault S17"):
        command.faults(options["only"])
    with pytest.raises(SystemExit, match="no chain codex-vibe"):
        command.on(["codex-vibe"], [])
    assert command.on([], []) == ways(CHAINS, ("auto", "oneshot"))
    assert command.on(["vibe-claude"], ["auto"]) == ways([("vibe", "claude")], ["auto"])
