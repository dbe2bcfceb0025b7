"""The fallback rule, table by table: what goes out, what moves on, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from olp.core.routing.chains import Chain, Policy
from olp.core.routing.triggers import RULES
from olp.core.routing.walk import HOP_NEEDS_S, Timeouts, Walk
from olp.events import (
    Answering,
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    Output,
    Quota,
    Reasoning,
    Refused,
    Started,
    Text,
    TriggerType,
    Usage,
    Window,
)
from olp.model import MAX_HOPS, Hop

NOW = 1000.0
WALL = 1_800_000_000.0
THREE = ("claude/sonnet", "codex/gpt-5.5", "vibe/medium")

HARD = [
    ErrorCode.SPAWN_FAILED,
    ErrorCode.CLI_NOT_FOUND,
    ErrorCode.SPAWN_TIMEOUT,
    ErrorCode.CONCURRENCY_LIMIT,
    ErrorCode.QUOTA_EXHAUSTED,
    ErrorCode.RATE_LIMITED,
    ErrorCode.OVERLOADED,
    ErrorCode.VENDOR_CUT,
    ErrorCode.EMPTY_ANSWER,
    ErrorCode.FORMAT_MISMATCH,
]
STOPPING = [
    ErrorCode.AUTH_MISSING,
    ErrorCode.BAD_REQUEST,
    ErrorCode.CONTEXT_TOO_LONG,
    ErrorCode.MODEL_NOT_FOUND,
    ErrorCode.UNKNOWN,
]
ANSWER: tuple[Event, ...] = (Started(), Text("hello"), Usage(1, 1), Done())


def hop(text: str) -> Hop:
    parsed = Hop.parse(text)
    assert parsed is not None
    return parsed


def walk(
    *hops: str,
    streaming: bool = True,
    timeouts: Mapping[str, Timeouts] | None = None,
    **policy: Any,
) -> Walk:
    chain = Chain("test", tuple(map(hop, hops or THREE)), Policy(**policy))
    return Walk(chain, streaming=streaming, now=NOW, timeouts=timeouts, cache="miss")


def play(way: Walk, *attempts: Sequence[Event], now: float = NOW) -> list[Output]:
    """Each attempt's events, hop by hop; what went out."""
    out: list[Output] = []
    for events in attempts:
        assert way.next(now) is not None, "no further hop is tried"
        for event in events:
            out += way.pass_on(event, now)
        assert not way.trying
    return out


def fail(trouble: ErrorCode, detail: str = "", **more: Any) -> list[Event]:
    return [Failed(trouble, detail or f"told by {trouble}", **more)]


def finishes(out: Sequence[Output]) -> list[Finish]:
    return [event.finish for event in out if isinstance(event, Done)]


def held(detail: str = "held back") -> list[Event]:
    """What a hop that is skipped before its spawn is told with."""
    return [Failed(ErrorCode.QUOTA_HOLD, detail)]


# --- A: chains and triggers ----------------------------------------------------------------------


def test_A1_hops_are_tried_one_at_a_time_in_the_written_order() -> None:
    way = walk()
    tried = []
    while (hop := way.next(NOW)) is not None:
        tried.append(str(hop))
        with pytest.raises(AssertionError):
            way.next(NOW)
        way.pass_on(Failed(ErrorCode.OVERLOADED, "no"), NOW)
    assert tried == list(THREE)
    assert way.next(NOW) is None
    assert MAX_HOPS == 3


@pytest.mark.parametrize("streaming", [True, False])
def test_A2_the_first_hop_answers_with_hops_zero_and_no_record(streaming: bool) -> None:
    way = walk(streaming=streaming)
    out = play(way, ANSWER)
    assert out == [Answering("claude", "sonnet", 0), *ANSWER]
    assert way.next(NOW) is None
    assert way.answered and not way.records


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("trouble", HARD)
def test_A3_a_trigger_before_the_first_byte_moves_on(trouble: ErrorCode, streaming: bool) -> None:
    way = walk(streaming=streaming)
    out = play(way, [Started(), *fail(trouble)], ANSWER)
    head = out[0]
    assert isinstance(head, Answering)
    assert (head.provider, head.model, head.hops) == ("codex", "gpt-5.5", 1)
    assert [r.code for r in head.records] == [trouble]
    assert head.records[0].trigger_type is TriggerType.HARD
    assert out[1:] == list(ANSWER)


def test_A3_hops_is_the_index_of_the_hop_that_serves_skipped_hops_included() -> None:
    way = walk()
    out = play(way, held(), fail(ErrorCode.OVERLOADED), ANSWER)
    head = out[0]
    assert isinstance(head, Answering)
    assert (head.provider, head.hops) == ("vibe", 2)
    assert [(r.hop, r.code) for r in head.records] == [(0, "QUOTA_HOLD"), (1, "OVERLOADED")]


@pytest.mark.parametrize("first", HARD)
def test_A4_all_hops_fail_and_the_first_error_is_told(first: ErrorCode) -> None:
    way = walk()
    second = ErrorCode.OVERLOADED if first is not ErrorCode.OVERLOADED else ErrorCode.SPAWN_FAILED
    play(way, fail(first, "the first reason"), fail(second, "another"), fail(second, "a third"))
    end = way.verdict(WALL)
    assert end.failed.code is first
    assert end.failed.detail.startswith("the first reason. claude/sonnet: ")
    assert end.status == RULES[first].status
    assert end.advice == RULES[first].advice or end.status in (429, 503)
    assert len(end.records) == 3


def test_A4_a_skipped_first_hop_is_told_with_the_reason_it_was_skipped_for() -> None:
    way = walk()
    reason = held("held until 5 pm: You've hit your weekly limit")
    play(way, reason, fail(ErrorCode.OVERLOADED), fail(ErrorCode.OVERLOADED))
    end = way.verdict(WALL)
    assert end.failed.code is ErrorCode.QUOTA_HOLD
    assert "weekly limit" in end.failed.detail


@pytest.mark.parametrize("skipped", [(), ("claude",), ("claude", "codex", "vibe")])
def test_A5_exhaustion_names_the_origin_and_every_provider(skipped: tuple[str, ...]) -> None:
    way = walk()
    while hop := way.next(NOW):
        trouble = ErrorCode.QUOTA_HOLD if hop.provider in skipped else ErrorCode.OVERLOADED
        way.pass_on(Failed(trouble, "no"), NOW)
    end = way.verdict(WALL)
    assert (end.provider, end.model, end.hops) == ("claude", "sonnet", 3)
    assert end.exhausted == ("claude", "codex", "vibe")
    assert [r.hop for r in end.records] == [0, 1, 2]
    assert "fallback_chain_exhausted" in [note.event for note in way.notes]


def test_A5_a_chain_of_one_hop_lists_nobody() -> None:
    way = walk("claude/sonnet")
    play(way, fail(ErrorCode.OVERLOADED))
    end = way.verdict(WALL)
    assert (end.provider, end.hops, end.exhausted) == ("claude", 1, ())


@pytest.mark.parametrize("trouble", STOPPING)
def test_A6_a_stop_in_mid_chain_tells_that_hop(trouble: ErrorCode) -> None:
    way = walk()
    play(way, fail(ErrorCode.OVERLOADED, "first"), fail(trouble, "second"))
    assert way.next(NOW) is None
    end = way.verdict(WALL)
    assert (end.provider, end.model, end.hops) == ("codex", "gpt-5.5", 1)
    assert (end.failed.code, end.failed.detail) == (trouble, "second")
    assert end.exhausted == ()
    assert "fallback_chain_exhausted" not in [note.event for note in way.notes]


@pytest.mark.parametrize("trouble", sorted(ErrorCode))
def test_A7_only_triggers_move_on(trouble: ErrorCode) -> None:
    way = walk()
    play(way, fail(trouble))
    moves = RULES[trouble].trigger in (TriggerType.HARD, TriggerType.SOFT)
    assert (way.next(NOW) is not None) == moves


@pytest.mark.parametrize(
    ("status", "moves"),
    [
        (400, 0),
        (401, 0),
        (403, 0),
        (404, 0),
        (422, 0),
        (402, 1),
        (408, 1),
        (409, 1),
        (425, 1),
        (429, 1),
        (500, 1),
        (503, 1),
        (529, 1),
        (302, 0),
        (418, 0),
        (None, 0),
    ],
)
def test_A7_an_unknown_error_goes_by_its_status(status: int | None, moves: int) -> None:
    way = walk()
    play(way, fail(ErrorCode.UNKNOWN, status=status))
    assert (way.next(NOW) is not None) == bool(moves)


@pytest.mark.parametrize("streaming", [True, False])
def test_A8_a_missing_login_stops_the_chain_with_attribution(streaming: bool) -> None:
    way = walk(streaming=streaming)
    play(way, fail(ErrorCode.AUTH_MISSING, "not logged in"))
    assert way.next(NOW) is None
    end = way.verdict(WALL)
    assert (end.provider, end.hops, end.status) == ("claude", 0, 502)
    assert end.records[0].trigger_type is TriggerType.AUTH_MISSING
    events = [note.event for note in way.notes]
    assert "fallback_auth_missing_no_fallback" in events


def test_A8_the_owner_may_let_a_missing_login_move_on() -> None:
    way = walk(on_auth_missing="advance")
    out = play(way, fail(ErrorCode.AUTH_MISSING, "not logged in"), ANSWER)
    head = out[0]
    assert isinstance(head, Answering)
    assert head.hops == 1
    assert head.records[0].trigger_type is TriggerType.AUTH_MISSING
    assert any(note.level == "warn" for note in way.notes), "it stays loud"


@pytest.mark.parametrize(
    "trouble", [ErrorCode.BAD_REQUEST, ErrorCode.CONTEXT_TOO_LONG, ErrorCode.MODEL_NOT_FOUND]
)
def test_A8_advancing_on_a_missing_login_does_not_cover_client_errors(trouble: ErrorCode) -> None:
    way = walk(on_auth_missing="advance")
    play(way, fail(trouble))
    assert way.next(NOW) is None
    assert way.verdict(WALL).records[0].trigger_type is TriggerType.CLIENT_ERROR


@pytest.mark.parametrize("trouble", HARD)
def test_A9_one_attempt_per_hop_and_no_retry(trouble: ErrorCode) -> None:
    way = walk("claude/sonnet", "codex/gpt-5.5")
    play(way, fail(trouble), fail(trouble))
    assert way.next(NOW) is None
    assert [str(hop) for hop, _ in way.ends] == ["claude/sonnet", "codex/gpt-5.5"]


def test_A10_no_hop_is_named_while_an_attempt_is_under_way() -> None:
    way = walk()
    way.next(NOW)
    way.pass_on(Started(), NOW)
    assert way.trying
    with pytest.raises(AssertionError):
        way.next(NOW)
    way.pass_on(Failed(ErrorCode.OVERLOADED, "no"), NOW)
    assert not way.trying
    assert way.pass_on(Text("late"), NOW) == (), "what comes after the end is ignored"
    assert str(way.next(NOW)) == "codex/gpt-5.5"


# --- B: the first-chunk rule ---------------------------------------------------------------------


@pytest.mark.parametrize("trouble", sorted(ErrorCode))
def test_B1_no_fallback_after_the_first_byte(trouble: ErrorCode) -> None:
    way = walk()
    out = play(way, [Started(), Text("a"), *fail(trouble)])
    assert way.next(NOW) is None
    assert way.answered
    assert out[:3] == [Answering("claude", "sonnet", 0), Started(), Text("a")]


def test_B1_fallback_is_possible_up_to_the_last_moment_before_content() -> None:
    way = walk()
    quiet: list[Event] = [Started(), Reasoning("hm"), Quota(()), Usage(3, 0), Text("")]
    out = play(way, [*quiet, *fail(ErrorCode.OVERLOADED)], ANSWER)
    assert out[1:] == list(ANSWER), "nothing of the first hop goes out"


@pytest.mark.parametrize("trouble", HARD)
def test_B2_after_the_first_byte_nobody_else_is_tried_and_the_end_is_seen(
    trouble: ErrorCode,
) -> None:
    way = walk()
    out = play(way, [Text("a"), Text("b"), *fail(trouble)])
    assert [event for event in out if isinstance(event, Text)] == [Text("a"), Text("b")]
    assert len([event for event in out if isinstance(event, Answering)]) == 1
    assert way.next(NOW) is None and way.next(NOW + 1e6) is None
    assert Finish.STOP not in finishes(out)


def test_B3_after_content_a_dead_process_ends_with_length() -> None:
    way = walk()
    out = play(way, [Text("half"), *fail(ErrorCode.SPAWN_FAILED)])
    assert out[-1] == Done(Finish.LENGTH, truncated=True)
    assert not any(isinstance(event, Failed) for event in out)


@pytest.mark.parametrize("trouble", [t for t in sorted(ErrorCode) if t != ErrorCode.SPAWN_FAILED])
def test_B3_after_content_any_other_failure_ends_with_an_error(trouble: ErrorCode) -> None:
    way = walk()
    out = play(way, [Text("half"), *fail(trouble, "at /home/bob/x with sk-ant-abcdefgh")])
    end = out[-1]
    assert isinstance(end, Failed)
    assert end.code is trouble
    assert finishes(out) == []
    assert "bob" not in end.detail and "sk-ant" not in end.detail


def test_B3_a_stream_that_was_opened_without_content_does_not_end_well() -> None:
    way = walk(gate="reasoning")
    out = play(way, [Started(), Reasoning("hm"), *fail(ErrorCode.SPAWN_FAILED)])
    assert isinstance(out[-1], Failed)


# --- C: the gate and the clocks ------------------------------------------------------------------


def test_C1_a_stream_really_streams() -> None:
    way = walk()
    way.next(NOW)
    assert way.pass_on(Started(), NOW) == ()
    first = way.pass_on(Text("a"), NOW)
    assert first == (Answering("claude", "sonnet", 0), Started(), Text("a"))
    assert way.pass_on(Text("b"), NOW) == (Text("b"),)
    assert way.pass_on(Reasoning("c"), NOW) == (Reasoning("c"),)


@pytest.mark.parametrize(
    "event",
    [
        Started(),
        Started("sonnet-5"),
        Reasoning("hm"),
        Text(""),
        Usage(1, 1),
        Quota((Window("five_hour", 42.0),)),
    ],
    ids=repr,
)
def test_C2_what_is_not_content_decides_nothing(event: Event) -> None:
    way = walk()
    way.next(NOW)
    for _ in range(3):
        assert way.pass_on(event, NOW) == ()
    assert not way.answered


def test_C2_content_commits_and_what_was_held_goes_out_in_order() -> None:
    way = walk()
    way.next(NOW)
    quiet: list[Event] = [Started(), Quota((Window("five_hour", 42.0),)), Reasoning("hm"), Text("")]
    for event in quiet:
        way.pass_on(event, NOW)
    assert way.pass_on(Text("x"), NOW)[1:] == (*quiet, Text("x"))


def test_C2_nothing_decisive_for_the_gate_time_commits_anyway() -> None:
    way = walk()
    way.next(NOW)
    way.pass_on(Started(), NOW + 5)
    way.pass_on(Reasoning("hm"), NOW + 6)
    assert way.wake_at == NOW + 35
    assert way.expire(NOW + 34.9) == ()
    out = way.expire(NOW + 35)
    assert out == (Answering("claude", "sonnet", 0), Started(), Reasoning("hm"))
    assert way.trying and way.answered
    assert way.pass_on(Text("late"), NOW + 50) == (Text("late"),)


def test_C2_reasoning_commits_where_the_chain_says_so() -> None:
    way = walk(gate="reasoning")
    way.next(NOW)
    assert way.pass_on(Reasoning(""), NOW) == ()
    assert way.pass_on(Reasoning("hm"), NOW)[-1] == Reasoning("hm")
    assert way.answered


def test_C2_an_empty_answer_is_an_answer() -> None:
    way = walk()
    assert play(way, [Started(), Done()]) == [Answering("claude", "sonnet", 0), Started(), Done()]


def test_C3_the_default_clocks() -> None:
    assert (Timeouts().opening_s, Timeouts().gate_s, Timeouts().total_s) == (240, 30, 600)
    assert (Policy().opening_s, Policy().gate_s, Policy().deadline_s) == (240, 30, 540)
    assert Policy().gate_action == "commit"


@pytest.mark.parametrize(
    ("events", "streaming", "policy", "wake"),
    [
        ([], True, {}, 240),
        ([], False, {}, 240),
        ([Quota(()), Usage(1, 0)], True, {}, 240),
        ([Started()], True, {}, 10 + 30),
        ([Reasoning("x")], True, {}, 10 + 30),
        ([Text("")], True, {}, 10 + 30),
        ([Started()], True, {"gate_action": "advance"}, 10 + 30),
        ([Started(), Text("x")], True, {}, 600),
        ([Started(), Text("x")], True, {"gate_action": "advance"}, 600),
        ([Started(), Reasoning("x")], True, {"gate": "reasoning"}, 600),
        ([Started()], False, {}, 600),
        ([Started()], False, {"gate_action": "advance"}, 10 + 30),
        ([Started(), Text("x")], False, {"gate_action": "advance"}, 600),
    ],
)
def test_C3_which_clock_runs(
    events: list[Event], streaming: bool, policy: dict[str, Any], wake: float
) -> None:
    way = walk(streaming=streaming, **policy)
    way.next(NOW)
    for event in events:
        way.pass_on(event, NOW + 10)
    assert way.wake_at == NOW + wake


def test_C3_the_clocks_of_a_provider_win_over_the_chain() -> None:
    way = walk(timeouts={"claude": Timeouts(opening_s=20, gate_s=3, total_s=100)}, opening_s=50)
    way.next(NOW)
    assert way.wake_at == NOW + 20
    way.pass_on(Started(), NOW + 1)
    assert way.wake_at == NOW + 4
    way.pass_on(Text("x"), NOW + 2)
    assert way.wake_at == NOW + 100
    other = walk(
        "codex/gpt-5.5", timeouts={"claude": Timeouts(opening_s=20)}, opening_s=50, gate_s=7
    )
    other.next(NOW)
    assert other.wake_at == NOW + 50
    other.pass_on(Started(), NOW + 1)
    assert other.wake_at == NOW + 8


def test_C3_the_gate_clock_is_never_later_than_the_total() -> None:
    way = walk(timeouts={"claude": Timeouts(opening_s=20, gate_s=30, total_s=25)})
    way.next(NOW)
    way.pass_on(Started(), NOW + 19)
    assert way.wake_at == NOW + 25


@pytest.mark.parametrize("streaming", [True, False])
def test_C3_no_beginning_within_the_opening_time_is_a_timeout(streaming: bool) -> None:
    way = walk(streaming=streaming)
    way.next(NOW)
    assert way.expire(NOW + 239.9) == ()
    assert way.expire(NOW + 240) == ()
    assert not way.trying
    assert way.records[0].code == "SPAWN_TIMEOUT"
    assert str(way.next(NOW + 240)) == "codex/gpt-5.5"


@pytest.mark.parametrize("streaming", [True, False])
def test_C3_the_gate_may_be_told_to_advance(streaming: bool) -> None:
    way = walk(streaming=streaming, gate_action="advance")
    way.next(NOW)
    way.pass_on(Started(), NOW)
    way.pass_on(Reasoning("hm"), NOW)
    assert way.expire(NOW + 30) == ()
    assert way.records[0].code == "SPAWN_TIMEOUT"
    assert str(way.next(NOW + 30)) == "codex/gpt-5.5"


def test_C3_the_total_time_ends_a_stream_that_was_committed_with_an_error() -> None:
    way = walk()
    way.next(NOW)
    way.pass_on(Text("x"), NOW)
    out = way.expire(NOW + 600)
    assert [type(event) for event in out] == [Failed]
    assert isinstance(out[0], Failed) and out[0].code is ErrorCode.SPAWN_TIMEOUT
    assert way.next(NOW + 600) is None


def test_C3_a_timeout_wins_over_buffered_content() -> None:
    way = walk(streaming=False)
    way.next(NOW)
    way.pass_on(Started(), NOW)
    way.pass_on(Text("nearly all of it"), NOW + 599)
    assert way.expire(NOW + 600) == ()
    assert not way.answered
    assert way.records[0].code == "SPAWN_TIMEOUT"


@pytest.mark.parametrize("action", ["commit", "advance"])
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("start", [0.1, 0.3, 123.456, 98765.4321, 1e6 / 7])
def test_C3_the_total_time_is_over_exactly_when_it_said_it_would_be(
    start: float, streaming: bool, action: Any
) -> None:
    """The clock may stand to the last bit at `wake_at`, where a sum and a difference can differ."""
    for tenth in range(1, 40):
        total = 0.1 * tenth
        chain = Chain("c", (hop("claude/sonnet"),), Policy(gate_action=action))
        way = Walk(
            chain, streaming=streaming, now=start, timeouts={"claude": Timeouts(total, 9, total)}
        )
        way.next(start)
        way.pass_on(Started(), start)
        way.pass_on(Text("x"), start)
        out = way.expire(way.wake_at)
        assert not way.trying, (start, total)
        assert not any(isinstance(event, Answering | Done) for event in out)


def test_C3_no_new_hop_starts_when_too_little_time_is_left() -> None:
    way = walk()
    way.next(NOW)
    way.pass_on(Failed(ErrorCode.SPAWN_TIMEOUT, "slow"), NOW + 535)
    assert way.next(NOW + 535) is None
    end = way.verdict(WALL)
    assert [r.code for r in end.records] == ["SPAWN_TIMEOUT", "DEADLINE", "DEADLINE"]
    assert {r.trigger_type for r in end.records[1:]} == {TriggerType.SOFT}
    assert end.failed.code is ErrorCode.SPAWN_TIMEOUT
    assert end.status == 504


def test_C3_a_hop_starts_while_enough_time_is_left_and_the_first_one_always() -> None:
    way = walk()
    way.next(NOW)
    way.pass_on(Failed(ErrorCode.OVERLOADED, "no"), NOW)
    assert way.next(NOW + 540 - HOP_NEEDS_S) is not None
    hurried = walk(deadline_s=1.0)
    assert hurried.next(NOW) is not None


def test_C4_without_streaming_nothing_goes_out_before_the_end() -> None:
    way = walk(streaming=False)
    way.next(NOW)
    for event in ANSWER[:-1]:
        assert way.pass_on(event, NOW) == ()
    assert way.pass_on(Done(), NOW) == (Answering("claude", "sonnet", 0), *ANSWER)


@pytest.mark.parametrize("trouble", [t for t in HARD if t != ErrorCode.SPAWN_FAILED])
def test_C4_without_streaming_fallback_stays_possible_to_the_end(trouble: ErrorCode) -> None:
    way = walk(streaming=False)
    out = play(way, [Started(), Text("nearly all"), *fail(trouble)], ANSWER)
    assert out == [Answering("codex", "gpt-5.5", 1, tuple(way.records)), *ANSWER]


@pytest.mark.parametrize("streaming", [True, False])
def test_C7_an_end_without_a_final_event_is_no_success(streaming: bool) -> None:
    way = walk(streaming=streaming)
    out = play(way, [Started(), Text("looks whole."), *fail(ErrorCode.SPAWN_FAILED)])
    assert finishes(out) == [Finish.LENGTH]
    assert [end for _, end in way.ends if isinstance(end, Done)] == []


# --- D, E, K: what the client is told ------------------------------------------------------------


def test_D3_a_saturated_chain_may_be_asked_again_soon() -> None:
    way = walk()
    play(way, *[fail(ErrorCode.CONCURRENCY_LIMIT)] * 3)
    end = way.verdict(WALL)
    assert (end.status, end.retry_after, end.retry) == (429, 2, True)


def test_D3_one_hop_that_was_not_saturated_makes_it_an_ordinary_exhaustion() -> None:
    way = walk()
    play(
        way,
        fail(ErrorCode.CONCURRENCY_LIMIT),
        fail(ErrorCode.OVERLOADED),
        fail(ErrorCode.CONCURRENCY_LIMIT),
    )
    assert way.verdict(WALL).retry is False


def test_E4_a_soft_skip_has_a_record_and_counts_as_tried() -> None:
    way = walk()
    play(way, *[fail(ErrorCode.SOFT_TRIGGER, "five_hour at 96 of 90 percent")] * 3)
    assert way.next(NOW) is None
    end = way.verdict(WALL)
    assert end.exhausted == ("claude", "codex", "vibe")
    assert {(r.code, r.trigger_type) for r in end.records} == {("SOFT_TRIGGER", TriggerType.SOFT)}


@pytest.mark.parametrize(
    ("codes", "resets", "expected"),
    [
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED], [WALL + 90.2, WALL + 600], 91),
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED], [WALL + 600, WALL + 90], 90),
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.OVERLOADED], [WALL - 5, None], 1),
        ([ErrorCode.RATE_LIMITED, ErrorCode.OVERLOADED], [None, None], 60),
        ([ErrorCode.SPAWN_FAILED, ErrorCode.RATE_LIMITED], [None, WALL + 9], None),
        ([ErrorCode.SPAWN_TIMEOUT, ErrorCode.OVERLOADED], [None, None], None),
    ],
)
def test_K_retry_after_is_the_earliest_reset(
    codes: list[ErrorCode], resets: list[float | None], expected: int | None
) -> None:
    way = walk("claude/sonnet", "codex/gpt-5.5")
    play(way, *[fail(t, resets_at=at) for t, at in zip(codes, resets, strict=True)])
    assert way.verdict(WALL).retry_after == expected


# --- F, H: circuits that are open, and answers that were kept ------------------------------------


def opened(resets_at: float | None = None) -> list[Event]:
    return [Failed(ErrorCode.CIRCUIT_OPEN, "3 failures", resets_at=resets_at)]


def test_F3_an_open_circuit_is_a_soft_reason_to_move_on() -> None:
    way = walk()
    out = play(way, opened(), ANSWER)
    head = out[0]
    assert isinstance(head, Answering)
    assert (head.hops, head.records[0].code) == (1, "CIRCUIT_OPEN")
    assert head.records[0].trigger_type is TriggerType.SOFT


def test_F4_if_every_circuit_is_open_the_one_that_is_due_first_is_tried() -> None:
    way = walk()
    play(way, opened(WALL + 30), opened(WALL + 10), opened(WALL + 20))
    assert str(way.next(NOW)) == "codex/gpt-5.5"
    assert [n.level for n in way.notes if n.event == "breaker_forced_attempt"] == ["warn"]
    out = [out for event in ANSWER for out in way.pass_on(event, NOW)]
    head = out[0]
    assert isinstance(head, Answering)
    assert (head.provider, head.hops) == ("codex", 1)
    assert [record.hop for record in head.records] == [0, 2]


def test_F4_it_is_tried_once() -> None:
    way = walk()
    play(way, *[opened(WALL + 30)] * 3, fail(ErrorCode.OVERLOADED))
    assert way.next(NOW) is None
    end = way.verdict(WALL)
    assert [(r.hop, r.code) for r in end.records] == [
        (0, "OVERLOADED"),
        (1, "CIRCUIT_OPEN"),
        (2, "CIRCUIT_OPEN"),
    ]
    assert end.failed.code is ErrorCode.OVERLOADED


@pytest.mark.parametrize(
    "others",
    [
        [ErrorCode.QUOTA_HOLD, ErrorCode.SOFT_TRIGGER],
        [ErrorCode.CONCURRENCY_LIMIT, ErrorCode.CONCURRENCY_LIMIT],
    ],
)
def test_F4_it_is_tried_where_no_other_hop_was_asked(others: list[ErrorCode]) -> None:
    way = walk()
    play(way, fail(others[0]), opened(), fail(others[1]))
    assert str(way.next(NOW)) == "codex/gpt-5.5"


@pytest.mark.parametrize("trouble", HARD)
def test_F4_where_another_hop_was_asked_the_circuit_stays_open(trouble: ErrorCode) -> None:
    way = walk()
    play(way, opened(), fail(trouble), opened())
    if trouble is not ErrorCode.CONCURRENCY_LIMIT:
        assert way.next(NOW) is None


def test_F4_the_owner_may_prefer_a_503_with_the_time_to_wait() -> None:
    way = walk(try_open_circuits=False)
    play(way, opened(WALL + 30), opened(WALL + 10), opened(WALL + 20))
    assert way.next(NOW) is None
    end = way.verdict(WALL)
    assert (end.status, end.retry_after) == (503, 10)


def test_H3_a_kept_answer_is_an_answer_of_the_hop_it_was_kept_for() -> None:
    way = walk()
    play(way, fail(ErrorCode.OVERLOADED))
    way.next(NOW)
    out = way.answer_kept("gpt-5.5-2026", [Text("kept"), Done()])
    head = out[0]
    assert isinstance(head, Answering)
    assert (head.provider, head.model, head.hops) == ("codex", "gpt-5.5-2026", 1)
    assert head.cache == "hit" and len(head.records) == 1
    assert out[1:] == (Text("kept"), Done())
    assert not way.trying and way.next(NOW) is None


@pytest.mark.parametrize("cache", ["miss", "bypass"])
def test_H3_an_answer_tells_what_the_cache_had_to_do_with_it(cache: str) -> None:
    way = Walk(Chain("c", (hop("claude/sonnet"),)), streaming=True, now=NOW, cache=cache)
    head = play(way, ANSWER)[0]
    assert isinstance(head, Answering)
    assert head.cache == cache


# --- G: salvage ----------------------------------------------------------------------------------


def test_G1_the_text_of_a_process_that_died_is_given_with_finish_length() -> None:
    way = walk(streaming=False)
    out = play(way, [Started(), Text("half "), Text("of it"), *fail(ErrorCode.SPAWN_FAILED)])
    assert out == [
        Answering("claude", "sonnet", 0),
        Started(),
        Text("half "),
        Text("of it"),
        Done(Finish.LENGTH, truncated=True),
    ]
    assert way.next(NOW) is None
    salvaged = [n for n in way.notes if n.event == "spawn_failed_after_usable_chunks"]
    assert [note.level for note in salvaged] == ["warn"]


def test_G1_without_usable_text_there_is_nothing_to_salvage() -> None:
    way = walk(streaming=False)
    out = play(way, [Started(), Text(""), Reasoning("hm"), *fail(ErrorCode.SPAWN_FAILED)], ANSWER)
    assert isinstance(out[0], Answering)
    assert out[0].hops == 1


@pytest.mark.parametrize("trouble", [t for t in sorted(ErrorCode) if t != ErrorCode.SPAWN_FAILED])
def test_G2_nothing_else_is_salvaged(trouble: ErrorCode) -> None:
    way = walk(streaming=False)
    out = play(way, [Started(), Text("nearly all"), *fail(trouble)])
    assert out == []
    assert not way.answered


def test_G2_a_timeout_with_text_in_hand_moves_on() -> None:
    way = walk(streaming=False)
    way.next(NOW)
    way.pass_on(Text("nearly all"), NOW)
    assert way.expire(NOW + 600) == ()
    assert str(way.next(NOW + 1)) == "codex/gpt-5.5"


@pytest.mark.parametrize("streaming", [True, False])
def test_G3_an_error_text_is_never_content(streaming: bool) -> None:
    way = walk("claude/sonnet", streaming=streaming)
    notice = "You've hit your weekly limit"
    out = play(way, [Started(), *fail(ErrorCode.QUOTA_EXHAUSTED, notice)])
    assert out == []
    assert isinstance(way.verdict(WALL), Refused)


# --- I, J, L: what is said about it --------------------------------------------------------------


def test_I2_a_success_after_a_failure_still_tells_of_the_failure() -> None:
    way = walk()
    out = play(way, fail(ErrorCode.RATE_LIMITED, "slow down"), ANSWER)
    head = out[0]
    assert isinstance(head, Answering)
    record = head.records[0]
    assert (record.hop, record.provider, record.model) == (0, "claude", "sonnet")
    assert (record.code, record.error_message) == ("RATE_LIMITED", "slow down")


def test_I4_records_and_verdicts_are_scrubbed() -> None:
    way = walk("claude/sonnet")
    play(way, fail(ErrorCode.OVERLOADED, "at /home/bob/x\nwith sk-ant-abcdefgh"))
    end = way.verdict(WALL)
    for text in (end.failed.detail, end.records[0].error_message):
        assert text == "at [path] with [secret]"


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("asked", "answered", "differs"),
    [
        ("sonnet", "claude-sonnet-5-5", False),
        ("sonnet", "claude-haiku-5", True),
        ("gpt-5.5", "GPT-5.5-2026-10-01", False),
        ("gpt-5.5", None, False),
    ],
)
def test_J4_the_model_that_really_answers_is_reported(
    streaming: bool, asked: str, answered: str | None, differs: bool
) -> None:
    way = walk(f"claude/{asked}", streaming=streaming)
    out = play(way, [Started(answered), Text("x"), Done()])
    head = out[0]
    assert isinstance(head, Answering)
    assert head.model == (answered or asked)
    warnings = [note for note in way.notes if note.event == "model_differs"]
    assert bool(warnings) == differs
    if differs:
        assert warnings[0].level == "warn"
        assert (warnings[0].fields["asked"], warnings[0].fields["answered"]) == (asked, answered)


@pytest.mark.parametrize(
    ("trouble", "event"),
    [
        (ErrorCode.OVERLOADED, "fallback_hard_trigger"),
        (ErrorCode.SOFT_TRIGGER, "fallback_soft_trigger"),
        (ErrorCode.BAD_REQUEST, "fallback_client_error_no_fallback"),
        (ErrorCode.AUTH_MISSING, "fallback_auth_missing_no_fallback"),
        (ErrorCode.UNKNOWN, "fallback_non_trigger_error"),
    ],
)
def test_L1_each_failure_is_noted_with_its_class(trouble: ErrorCode, event: str) -> None:
    way = walk()
    play(way, fail(trouble))
    notes = {note.event: note.fields for note in way.notes}
    assert notes["fallback_hop_error"]["code"] == trouble.value
    fields = notes[event]
    assert (fields["hop"], fields["provider"], fields["model"]) == (0, "claude", "sonnet")


def test_L2_log_and_header_carry_the_same_classification_and_the_next_provider() -> None:
    way = walk()
    play(way, fail(ErrorCode.OVERLOADED), fail(ErrorCode.AUTH_MISSING))
    noted = [n.fields for n in way.notes if n.event.startswith("fallback_hop_error")]
    assert [(f["code"], f["trigger_type"]) for f in noted] == [
        (r.code, r.trigger_type) for r in way.records
    ]
    hard = next(n.fields for n in way.notes if n.event == "fallback_hard_trigger")
    assert hard["next_provider"] == "codex"


def test_L3_no_word_of_prompt_answer_or_error_is_in_the_notes() -> None:
    way = walk()
    play(
        way,
        fail(ErrorCode.OVERLOADED, "CANARY-1"),
        [Text("CANARY-2"), Reasoning("CANARY-3"), Done()],
    )
    assert "CANARY" not in repr(way.notes)


def test_A7_an_answer_that_is_not_the_wanted_json_moves_on() -> None:
    way = walk(streaming=False)
    play(way, [Started(), *fail(ErrorCode.FORMAT_MISMATCH)])
    assert way.next(NOW) == hop("codex/gpt-5.5")


def test_A1_a_hop_whose_process_waits_for_results_goes_first_and_the_others_follow_in_order() -> (
    None
):
    hops = tuple(Hop(name, "m") for name in ("claude", "codex", "vibe"))
    walk = Walk(Chain("c", hops), streaming=False, now=0, first=1)
    tried = []
    while (hop := walk.next(0)) is not None:
        tried.append(hop.provider)
        walk.pass_on(Failed(ErrorCode.SPAWN_FAILED, "no"), 0)
    assert tried == ["codex", "claude", "vibe"]
    end = walk.verdict(0)
    assert [record.hop for record in end.records] == [0, 1, 2]
    assert (end.provider, end.exhausted) == ("claude", ("claude", "codex", "vibe"))
    served = Walk(Chain("c", hops), streaming=False, now=0, first=2)
    served.next(0)
    (head, *_) = served.pass_on(Done(), 0)
    assert isinstance(head, Answering) and (head.hops, head.records) == (2, ())


def test_A6_what_stops_the_chain_is_told_even_if_a_later_hop_was_tried_first() -> None:
    hops = tuple(Hop(name, "m") for name in ("claude", "codex"))
    walk = Walk(Chain("c", hops), streaming=False, now=0, first=1)
    for trouble in (ErrorCode.RATE_LIMITED, ErrorCode.BAD_REQUEST):
        walk.next(0)
        walk.pass_on(Failed(trouble, "no"), 0)
    assert walk.next(0) is None
    end = walk.verdict(0)
    assert (end.provider, end.status, end.failed.code) == ("claude", 400, ErrorCode.BAD_REQUEST)


def test_A4_a_hop_that_never_could_answer_does_not_hide_what_went_wrong() -> None:
    hops = tuple(Hop(name, "m") for name in ("claude", "codex"))
    walk = Walk(Chain("c", hops), streaming=False, now=0)
    for failed in (
        Failed(ErrorCode.INCAPABLE, "cannot"),
        Failed(ErrorCode.RATE_LIMITED, "slow down"),
    ):
        walk.next(0)
        walk.pass_on(failed, 0)
    end = walk.verdict(0)
    assert (end.provider, end.status) == ("claude", 429)
    assert end.failed.detail.startswith("codex: slow down. claude/m: ")


# --- an answer that is none ----------------------------------------------------------------------

SILENT: dict[str, list[Event]] = {
    "nothing at all": [],
    "an empty text": [Started(), Text("")],
    "white space": [Started(), Text(" "), Text("\n\t")],
    "thinking alone": [Started(), Reasoning("hm")],
}


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("said", SILENT)
def test_A7_an_empty_answer_is_a_failed_hop(said: str, streaming: bool) -> None:
    way = walk(streaming=streaming)
    out = play(way, [*SILENT[said], Usage(1, 0), Done(empty=True)], ANSWER)
    head = out[0]
    assert isinstance(head, Answering)
    assert (head.provider, head.hops, head.empty) == ("codex", 1, False)
    [record] = head.records
    assert (record.code, record.trigger_type) == ("EMPTY_ANSWER", TriggerType.HARD)
    assert out[1:] == list(ANSWER), "nothing of the silent hop goes out"
    assert [end.code for _, end in way.ends if isinstance(end, Failed)] == ["EMPTY_ANSWER"]


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("said", SILENT)
@pytest.mark.parametrize("before", [0, 2])
def test_A7_the_last_hops_empty_answer_is_told_as_it_is(
    said: str, streaming: bool, before: int
) -> None:
    way = walk(*THREE[: before + 1], streaming=streaming)
    silent = [*SILENT[said], Usage(1, 0), Done(empty=True)]
    out = play(way, *[fail(ErrorCode.OVERLOADED)] * before, silent)
    head = out[0]
    assert isinstance(head, Answering)
    assert (head.hops, head.empty) == (before, True)
    assert finishes(out) == [Finish.STOP]


def test_A7_an_empty_end_after_shown_thinking_is_the_end() -> None:
    way = walk(gate="reasoning")
    out = play(way, [Started(), Reasoning("hm"), Usage(1, 1), Done(empty=True)])
    assert isinstance(out[0], Answering) and not out[0].empty
    assert finishes(out) == [Finish.STOP] and way.next(NOW) is None


@pytest.mark.parametrize("finish", [Finish.LENGTH, Finish.CONTENT_FILTER, Finish.TOOL_CALLS])
def test_A7_a_cut_or_a_refusal_without_text_is_an_answer(finish: Finish) -> None:
    way = walk()
    out = play(way, [Started(), Done(finish)])
    assert finishes(out) == [finish]


def test_C2_white_space_holds_the_gate_and_comes_with_the_first_word() -> None:
    way = walk()
    way.next(NOW)
    assert way.pass_on(Text(" \n"), NOW) == ()
    head, *rest = way.pass_on(Text("hello"), NOW)
    assert isinstance(head, Answering) and rest == [Text(" \n"), Text("hello")]


# --- text and failure in one breath --------------------------------------------------------------


@pytest.mark.parametrize("trouble", HARD)
def test_B1_a_failure_wins_over_text_that_has_not_gone_out(trouble: ErrorCode) -> None:
    way = walk()
    way.next(NOW)
    assert way.pass_on_together([Started(), Text("half"), *fail(trouble)], NOW) == ()
    out = play(way, ANSWER)
    assert isinstance(out[0], Answering) and out[0].hops == 1


def test_R3_of_a_cli_that_died_the_last_hop_leaves_its_text_in_a_stream_too() -> None:
    for streaming in (True, False):
        way = walk("claude/sonnet", streaming=streaming)
        way.next(NOW)
        events = [Started(), Text("half"), *fail(ErrorCode.SPAWN_FAILED)]
        out = way.pass_on_together(events, NOW)
        assert Text("half") in out and finishes(out) == [Finish.LENGTH]


def test_B1_what_a_living_cli_said_before_its_failure_is_no_answer_on_the_last_hop() -> None:
    way = walk("claude/sonnet")
    way.next(NOW)
    failed = Failed(ErrorCode.SPAWN_FAILED, "it tried a tool of its own", living=True)
    assert way.pass_on_together([Started(), Text("half"), failed], NOW) == ()


def test_B2_once_something_is_out_the_text_beside_a_failure_goes_out_too() -> None:
    way = walk()
    way.next(NOW)
    way.pass_on_together([Started(), Text("one ")], NOW)
    out = way.pass_on_together([Text("two"), *fail(ErrorCode.VENDOR_CUT)], NOW)
    assert out[0] == Text("two")
    assert isinstance(out[1], Failed) and out[1].code is ErrorCode.VENDOR_CUT


def test_B1_what_comes_after_the_end_is_not_looked_at() -> None:
    way = walk()
    way.next(NOW)
    out = way.pass_on_together([*ANSWER, *fail(ErrorCode.OVERLOADED)], NOW)
    assert out[1:] == ANSWER


def test_G1_without_streaming_a_dead_process_leaves_its_text_in_one_breath_too() -> None:
    way = walk(streaming=False)
    way.next(NOW)
    out = way.pass_on_together([Started(), Text("half"), *fail(ErrorCode.SPAWN_FAILED)], NOW)
    assert finishes(out) == [Finish.LENGTH]


@pytest.mark.parametrize("streaming", [True, False])
def test_G1_a_cut_that_a_living_cli_reports_is_never_salvaged(streaming: bool) -> None:
    way = walk("claude/sonnet", streaming=streaming)
    way.next(NOW)
    out = [*way.pass_on(Started(), NOW), *way.pass_on(Text("forty words"), NOW)]
    out += way.pass_on(Failed(ErrorCode.VENDOR_CUT, "connection closed"), NOW)
    assert finishes(out) == []
    if streaming:
        assert isinstance(out[-1], Failed) and out[-1].code is ErrorCode.VENDOR_CUT
    else:
        assert out == [] and way.verdict(WALL).status == 502


def test_G1_a_living_cli_that_had_to_be_ended_leaves_no_answer() -> None:
    way = walk(streaming=False)
    tried = Failed(ErrorCode.SPAWN_FAILED, "claude tried its own tool Bash", living=True)
    out = play(way, [Started(), Text("Let me look. "), tried], ANSWER)
    assert isinstance(out[0], Answering) and out[0].hops == 1


# --- the opening clock ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeouts", "shown", "seconds"),
    [
        (Timeouts(), None, 240.0),
        (Timeouts(), 60.0, 60.0),
        (Timeouts(opening_s=20.0), 60.0, 20.0),
        (Timeouts(opening_s=120.0, fixed=True), 60.0, 120.0),
        (Timeouts(opening_s=30.0, fixed=True), 60.0, 30.0),
    ],
)
def test_C3_where_the_vendors_first_word_shows_a_minute_without_it_is_enough(
    timeouts: Timeouts, shown: float | None, seconds: float
) -> None:
    way = walk("claude/sonnet", "codex/gpt", timeouts={"claude": timeouts})
    way.next(NOW)
    way.hurry(shown)
    assert way.wake_at == NOW + seconds
    way.expire(NOW + seconds)
    assert [record.code for record in way.records] == ["SPAWN_TIMEOUT"]
    way.next(NOW + seconds)
    assert way.wake_at == NOW + seconds + 240.0, "the next hop's own clock"


# --- full hops -----------------------------------------------------------------------------------


def full(*hops: str, patience: float = 10.0, streaming: bool = True, **policy: Any) -> Walk:
    chain = Chain("test", tuple(map(hop, hops or THREE)), Policy(**policy))
    return Walk(chain, streaming=streaming, now=NOW, patience=patience)


def names(hops: Sequence[Hop]) -> list[str]:
    return [one.provider for one in hops]


BUSY = fail(ErrorCode.CONCURRENCY_LIMIT)


def test_D3_full_hops_are_passed_over_and_waited_for_when_nobody_answered() -> None:
    way = full()
    for _ in range(3):
        assert way.full == ()
        play(way, BUSY)
    assert way.next(NOW) is None
    assert names(way.full) == ["claude", "codex", "vibe"]
    way.waited(4.0, in_vain=False)
    way.again(hop(THREE[1]), NOW + 4)
    assert way.wake_at == NOW + 4 + 240, "its clocks begin with its slot"
    out = [output for event in ANSWER for output in way.pass_on(event, NOW + 4)]
    assert isinstance(out[0], Answering)
    assert (out[0].hops, [r.hop for r in out[0].records]) == (1, [0, 2])
    assert way.full == () and way.next(NOW) is None


@pytest.mark.parametrize(
    "other", [*HARD, ErrorCode.QUOTA_HOLD, ErrorCode.SOFT_TRIGGER, ErrorCode.CIRCUIT_OPEN]
)
def test_D3_one_full_hop_among_failed_ones_is_waited_for(other: ErrorCode) -> None:
    way = full()
    play(way, fail(other), BUSY, fail(other))
    assert way.next(NOW) is None
    assert "codex" in names(way.full)


@pytest.mark.parametrize("other", STOPPING)
def test_D3_what_stops_the_chain_stops_the_waiting(other: ErrorCode) -> None:
    way = full()
    play(way, BUSY, fail(other))
    assert way.next(NOW) is None and way.full == ()


def test_D3_a_hop_that_turns_out_to_be_held_is_not_waited_for_any_more() -> None:
    way = full()
    play(way, *[BUSY] * 3)
    way.next(NOW)
    way.again(hop(THREE[0]), NOW)
    assert way.full == (), "while it is being tried"
    way.pass_on(Failed(ErrorCode.QUOTA_HOLD, "held"), NOW)
    assert names(way.full) == ["codex", "vibe"]
    assert [r.code for r in way.records] == ["QUOTA_HOLD"] + ["CONCURRENCY_LIMIT"] * 2


def test_D3_in_vain_it_is_429_and_a_short_retry_after() -> None:
    way = full()
    play(way, *[BUSY] * 3)
    way.next(NOW)
    way.waited(10.0, in_vain=True)
    assert way.next(NOW + 10) is None and way.full == ()
    end = way.verdict(WALL)
    assert (end.status, end.retry_after, end.retry) == (429, 2, True)


def test_D3_the_patience_is_for_the_whole_request() -> None:
    way = full()
    play(way, *[BUSY] * 3)
    way.next(NOW)
    assert way.patience(NOW) == 10.0
    way.waited(7.0, in_vain=False)
    way.again(hop(THREE[0]), NOW + 7)
    way.pass_on(Failed(ErrorCode.OVERLOADED, "no"), NOW + 8)
    assert way.next(NOW + 8) is None
    assert names(way.full) == ["codex", "vibe"]
    assert way.patience(NOW + 8) == 3.0


def test_C3_nobody_waits_longer_than_a_hop_would_need_after_it() -> None:
    way = full(deadline_s=60.0)
    play(way, *[BUSY] * 3)
    assert way.patience(NOW + 45) == 5.0
    assert way.patience(NOW + 55) == 0.0


def test_D3_without_patience_there_is_no_waiting() -> None:
    way = full(patience=0.0)
    play(way, *[BUSY] * 3)
    assert way.next(NOW) is None and way.full == ()


def test_F4_a_full_hop_is_waited_for_before_an_open_circuit_is_tried() -> None:
    way = full()
    play(way, opened(), BUSY, opened())
    assert way.next(NOW) is None
    assert names(way.full) == ["codex"] and not way.forced
    way.waited(10.0, in_vain=True)
    assert str(way.next(NOW + 10)) == THREE[0] and way.forced


def test_A7_an_empty_answer_beside_a_full_hop_is_not_the_last_word() -> None:
    way = full("claude/sonnet", "codex/gpt-5.5")
    play(way, BUSY, [Started(), Done(empty=True)])
    assert way.next(NOW) is None
    assert names(way.full) == ["claude"]


# --- a context that is too small -----------------------------------------------------------------

LONG = fail(ErrorCode.CONTEXT_TOO_LONG)


def reading(*tokens: int | None, patience: float = 0.0) -> Walk:
    hops = tuple(map(hop, THREE[: len(tokens)]))
    contexts = {h: n for h, n in zip(hops, tokens, strict=True) if n is not None}
    chain = Chain("test", hops)
    return Walk(chain, streaming=True, now=NOW, patience=patience, contexts=contexts)


@pytest.mark.parametrize(
    ("tokens", "following"),
    [
        ((200, 400, 300), "codex"),
        ((200, 200, 300), "vibe"),
        ((200, None, 300), "vibe"),
        ((200, 100, None), None),
        ((200, 200, 200), None),
        ((None, 400, 300), None),
        ((None, None, None), None),
    ],
)
def test_A7_a_context_that_is_too_long_moves_on_to_a_larger_one_only(
    tokens: tuple[int | None, ...], following: str | None
) -> None:
    way = reading(*tokens)
    play(way, LONG)
    found = way.next(NOW)
    assert (found.provider if found else None) == following
    if found is None:
        end = way.verdict(WALL)
        assert (end.status, end.provider, end.hops, end.exhausted) == (400, "claude", 0, ())
    elif following == "vibe":
        assert [r.code for r in way.records] == ["CONTEXT_TOO_LONG", "INCAPABLE"]
        assert "too long for 200 tokens" in way.records[1].error_message
    noted = {note.event: note.fields for note in way.notes}
    assert ("fallback_larger_context" in noted) == (following is not None)
    if following:
        assert noted["fallback_larger_context"]["next_provider"] == following


def test_A7_every_hop_after_it_has_to_be_larger() -> None:
    way = reading(200, 400, 300)
    play(way, LONG, fail(ErrorCode.OVERLOADED))
    assert way.next(NOW) is not None, "300 are more than the 200 that were too few"
    longer = reading(200, 400, 300)
    play(longer, LONG, LONG)
    assert longer.next(NOW) is None
    end = longer.verdict(WALL)
    assert (end.provider, end.status, end.hops) == ("codex", 400, 1)


def test_A7_a_larger_hop_that_is_full_is_waited_for() -> None:
    way = reading(400, 200, patience=10.0)
    play(way, BUSY, LONG)
    assert way.next(NOW) is None
    assert names(way.full) == ["claude"]
    smaller = reading(100, 200, patience=10.0)
    play(smaller, BUSY, LONG)
    assert smaller.next(NOW) is None and smaller.full == ()


# --- what a person is told -----------------------------------------------------------------------


def test_A4_the_message_tells_what_happened_to_each_hop_and_when_it_is_back() -> None:
    way = walk()
    play(
        way,
        fail(ErrorCode.QUOTA_EXHAUSTED, "You've hit your weekly limit", resets_at=WALL + 7500),
        fail(ErrorCode.QUOTA_HOLD, "the plan of codex is used up", resets_at=WALL + 300_000),
        fail(ErrorCode.OVERLOADED, "529 with words of the vendor"),
    )
    end = way.verdict(WALL)
    told = end.failed.detail
    assert told.startswith("You've hit your weekly limit. claude/sonnet: the subscription's ")
    assert "exhausted; available again in 2 h 05 min. codex/gpt-5.5: " in told
    assert "available again in 3 days 12 h. vibe/medium: the vendor is overloaded" in told
    assert "529" not in told, "the others' own words are in the detail header"
    assert (end.status, end.retry_after, end.advice) == (429, 60, "try again in 60 s")
    assert "add another provider" not in end.advice


@pytest.mark.parametrize("trouble", [ErrorCode.QUOTA_EXHAUSTED, ErrorCode.QUOTA_HOLD])
def test_K1_a_chain_of_one_is_advised_to_have_another(trouble: ErrorCode) -> None:
    way = walk("claude/sonnet")
    play(way, fail(trouble))
    assert "fallback to another provider" in way.verdict(WALL).advice


@pytest.mark.parametrize(
    ("codes", "resets", "expected"),
    [
        # A used-up plan that is back in an hour, and one that nobody knows of: it is probed.
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.QUOTA_EXHAUSTED], [3600, None], 300),
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.QUOTA_EXHAUSTED], [3600, 7200], 3600),
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED], [3600, None], 60),
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.OVERLOADED], [3600, None], 60),
        ([ErrorCode.QUOTA_HOLD, ErrorCode.SPAWN_FAILED], [3600, None], 60),
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.CONCURRENCY_LIMIT], [3600, None], 2),
        ([ErrorCode.RATE_LIMITED, ErrorCode.RATE_LIMITED], [7, 20], 7),
        # What time does not heal does not shorten the wait.
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.CLI_NOT_FOUND], [3600, None], 3600),
        ([ErrorCode.QUOTA_EXHAUSTED, ErrorCode.INCAPABLE], [3600, None], 3600),
        ([ErrorCode.OVERLOADED, ErrorCode.DEADLINE], [None, None], 60),
    ],
)
def test_K_retry_after_is_when_any_hop_may_be_well_again(
    codes: list[ErrorCode], resets: list[float | None], expected: int
) -> None:
    way = walk("claude/sonnet", "codex/gpt-5.5")
    at = [None if seconds is None else WALL + seconds for seconds in resets]
    play(way, *[fail(t, resets_at=reset) for t, reset in zip(codes, at, strict=True)])
    assert way.verdict(WALL).retry_after == expected
