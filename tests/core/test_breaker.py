"""The circuit breaker: when it opens, whom it lets through, and what closes it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from olp.config import BreakerConfig
from olp.core.admission.breaker import Breaker
from olp.core.admission.half_open import HalfOpenGate, Probe
from olp.core.routing.triggers import RULES, counted
from olp.events import Done, ErrorCode, Failed, Finish
from olp.model import Hop

SONNET, OPUS = Hop("claude", "sonnet"), Hop("claude", "opus")
DEAD = Failed(ErrorCode.SPAWN_FAILED, "died")
COUNTED = {
    ErrorCode.SPAWN_FAILED,
    ErrorCode.SPAWN_TIMEOUT,
    ErrorCode.OVERLOADED,
    ErrorCode.VENDOR_CUT,
    ErrorCode.EMPTY_ANSWER,
}


def breaker(window_s: float = 300, threshold: int = 3, cooldown_s: float = 60) -> Breaker:
    return Breaker(
        BreakerConfig(window_s=window_s, threshold=threshold, cooldown_s=cooldown_s),
    )


def fail(breaker: Breaker, *times: float, hop: Hop = SONNET) -> list[str | None]:
    """Counted failures at these times; what each changed."""
    return [breaker.note(hop, DEAD, at) for at in times]


def opened(*times: float) -> Breaker:
    """One that was opened by failures at these times."""
    new = breaker()
    assert fail(new, *times)[-1] == "opened"
    return new


def probe_of(breaker: Breaker, hop: Hop = SONNET) -> Probe:
    probe = breaker.enter(hop)
    assert probe is not None
    return probe


# --- F1: opening, the window, the cool-down ------------------------------------------------------


def test_F1_the_defaults_are_three_in_300_s_for_60_s() -> None:
    config = BreakerConfig()
    assert (config.threshold, config.window_s, config.cooldown_s) == (3, 300, 60)


def test_F1_three_failures_in_the_window_open_it_for_the_cool_down() -> None:
    one = breaker()
    assert fail(one, 0, 100) == [None, None]
    assert not one.blocks(SONNET, 100)
    assert fail(one, 299.9) == ["opened"]
    assert one.blocks(SONNET, 299.9) and one.blocks(SONNET, 359.8)
    assert not one.blocks(SONNET, 359.9)
    assert one.opens_again(SONNET, 310) == pytest.approx(359.9)


@pytest.mark.parametrize(
    ("times", "opens"),
    [
        ([0, 0, 299.9], True),
        ([0, 0, 300], False),
        ([0, 150, 301], False),
        ([0, 150, 301, 302], True),
    ],
)
def test_F1_failures_older_than_the_window_are_forgotten(times: list[float], opens: bool) -> None:
    one = breaker()
    assert fail(one, *times)[-1] == ("opened" if opens else None)
    assert one.blocks(SONNET, times[-1]) == opens


def test_F1_it_is_for_one_provider_and_model() -> None:
    one = opened(0, 0, 0)
    assert one.blocks(SONNET, 1)
    assert not one.blocks(OPUS, 1)
    assert not one.blocks(Hop("codex", "sonnet"), 1)


@pytest.mark.parametrize("threshold", [1, 2, 5])
def test_F1_the_threshold_is_what_the_owner_says(threshold: int) -> None:
    one = breaker(threshold=threshold)
    assert fail(one, *range(threshold)) == [*[None] * (threshold - 1), "opened"]


def test_F1_one_more_failure_inside_the_window_opens_it_again() -> None:
    one = opened(0, 0, 0)
    probe = probe_of(one)
    assert fail(one, 70) == ["opened"]
    probe.leave()
    assert one.blocks(SONNET, 129) and not one.blocks(SONNET, 130)


def test_F1_a_failure_after_the_window_is_the_first_of_a_new_count() -> None:
    one = opened(0, 0, 0)
    probe = probe_of(one)
    assert fail(one, 300) == [None]
    probe.leave()
    assert not one.blocks(SONNET, 300)
    assert one.enter(SONNET) is None, "it is closed: nobody is a probe"
    assert fail(one, 301, 302) == [None, "opened"]


def test_F1_a_success_closes_it_and_forgets_the_failures() -> None:
    one = opened(0, 0, 0)
    probe_of(one)
    assert one.note(SONNET, Done(), 60) == "closed"
    assert not one.blocks(SONNET, 60) and list(one.open_circuits(60)) == []
    assert fail(one, 61, 62) == [None, None], "it needs three again"
    assert one.note(SONNET, Done(), 63) is None, "it was not open"


def test_F1_an_opening_is_told_once() -> None:
    """Requests that were on their way when it opened fail too: that is no second opening."""
    one = breaker()
    assert fail(one, 0, 0, 0, 0, 1) == [None, None, "opened", None, None]
    assert one.blocks(SONNET, 60.9) and not one.blocks(SONNET, 61)


# --- half-open: exactly one probe ----------------------------------------------------------------


def test_F1_after_the_cool_down_one_request_probes_and_the_others_skip() -> None:
    one = opened(0, 0, 0)
    assert not one.blocks(SONNET, 60)
    probe = probe_of(one)
    assert one.blocks(SONNET, 60) and one.blocks(SONNET, 1e9)
    assert one.opens_again(SONNET, 70) == 70
    assert one.enter(SONNET) is None
    probe.leave()
    assert not one.blocks(SONNET, 70)


@pytest.mark.parametrize("code", [t for t in ErrorCode if t not in COUNTED])
def test_F1_a_probe_that_says_nothing_of_the_provider_lets_the_next_one_try(
    code: ErrorCode,
) -> None:
    one = opened(0, 0, 0)
    probe = probe_of(one)
    assert one.note(SONNET, Failed(code, "no"), 61) is None
    probe.leave()
    assert not one.blocks(SONNET, 61)
    assert probe_of(one) is not probe


def test_F1_a_slow_probe_does_not_let_go_of_the_door_for_another_one() -> None:
    """The first probe outlives a second opening; what it leaves is its own turn, not another's."""
    one = opened(0, 0, 0)
    slow = probe_of(one)
    fail(one, 61)
    assert one.blocks(SONNET, 200), "the first probe is still on its way"
    slow.leave()
    second = probe_of(one)
    slow.leave()
    assert one.blocks(SONNET, 200), "the second one is"
    second.leave()
    assert not one.blocks(SONNET, 200)


def test_F1_a_probe_of_before_a_closing_is_none_afterwards() -> None:
    one = opened(0, 0, 0)
    old = probe_of(one)
    one.note(SONNET, Done(), 60)
    fail(one, 61, 62, 63)
    new = probe_of(one)
    old.leave()
    assert one.blocks(SONNET, 500)
    new.leave()
    assert not one.blocks(SONNET, 500)


# --- F2: what is counted -------------------------------------------------------------------------


@pytest.mark.parametrize("code", list(ErrorCode))
def test_F2_only_the_providers_own_faults_are_counted(code: ErrorCode) -> None:
    one = breaker(threshold=1)
    changed = one.note(SONNET, Failed(code, "no"), 0)
    assert (changed == "opened") == (code in COUNTED)
    assert one.blocks(SONNET, 1) == (code in COUNTED)
    assert RULES[code].counted_by_breaker == (code in COUNTED)


@pytest.mark.parametrize("status", [400, 401, 404, 408, 422, 429, 499, 500, 503, 529, 599, None])
def test_F2_an_unknown_failure_is_counted_from_500_on(status: int | None) -> None:
    failed = Failed(ErrorCode.UNKNOWN, "odd", status=status)
    assert counted(failed) == (status is not None and status >= 500)
    assert (breaker(threshold=1).note(SONNET, failed, 0) == "opened") == counted(failed)


def test_F2_what_is_not_counted_neither_opens_nor_closes() -> None:
    one = breaker()
    fail(one, 0, 1)
    for code in (ErrorCode.BAD_REQUEST, ErrorCode.QUOTA_EXHAUSTED, ErrorCode.CONCURRENCY_LIMIT):
        one.note(SONNET, Failed(code, "no"), 2)
    one.note(SONNET, Done(Finish.LENGTH, truncated=True), 2)
    assert fail(one, 3) == ["opened"], "the two before are still counted"


# --- F3, F5 --------------------------------------------------------------------------------------


def test_F3_nobody_is_blocked_before_anything_happened() -> None:
    one = breaker()
    assert not one.blocks(SONNET, 0) and one.enter(SONNET) is None
    assert one.opens_again(SONNET, 5) == 5


@pytest.mark.parametrize(("now", "left"), [(0.0, 60.0), (45.0, 15.0), (60.0, 0.0), (600.0, 0.0)])
def test_F5_an_open_circuit_is_told_with_the_seconds_left(now: float, left: float) -> None:
    assert list(opened(0, 0, 0).open_circuits(now)) == [(SONNET, left)]


def test_F5_a_new_breaker_knows_nothing() -> None:
    assert list(breaker().open_circuits(0)) == []


def test_F1_successes_leave_nothing_behind() -> None:
    """A client can name any model of a provider: what went well must not pile up."""
    one = breaker()
    for number in range(100):
        hop = Hop("claude", f"m{number}")
        one.note(hop, Failed(ErrorCode.MODEL_NOT_FOUND, "no"), 0)
        one.note(hop, DEAD, 0)
        one.note(hop, Done(), 0)
    assert one._circuits == {}


# --- the latch -----------------------------------------------------------------------------------


def test_F1_an_open_latch_has_no_probe() -> None:
    gate = HalfOpenGate()
    assert gate.enter() is None and not gate.blocks(0)
    assert "probing=False" in repr(gate)


@pytest.mark.parametrize("ends", [("open",), ("leave",), ("open", "leave"), ("leave", "open")])
def test_F1_a_latch_is_free_again_however_its_probe_ended(ends: Sequence[str]) -> None:
    gate = HalfOpenGate()
    gate.shut(10)
    probe = gate.enter()
    assert probe is not None and gate.blocks(10) and "probing=True" in repr(gate)
    for end in ends:
        gate.open() if end == "open" else probe.leave()
    assert not gate.blocks(10)
