"""The quota hold: how long, of what, and what lifts it."""

from __future__ import annotations

import pytest

from olp.core.admission.half_open import Probe
from olp.core.admission.holds import MAX_HOLD_S, Holds
from olp.core.routing.triggers import UNTOLD_HOLD_S
from olp.events import Done, ErrorCode, Failed, Finish
from olp.model import Hop

SONNET, OPUS, CODEX = Hop("claude", "sonnet"), Hop("claude", "opus"), Hop("codex", "sonnet")
WALL = 1_800_000_000.0


def used_up(
    resets_in: float | None = 3600.0, *, model_limit: bool = False, detail: str = "session limit"
) -> Failed:
    at = None if resets_in is None else WALL + resets_in
    return Failed(ErrorCode.QUOTA_EXHAUSTED, detail, resets_at=at, model_limit=model_limit)


def held(*ends: Failed, hop: Hop = SONNET) -> Holds:
    """Holds after these ends, all at time 0."""
    holds = Holds()
    for end in ends:
        holds.note(hop, end, 0, WALL)
    return holds


def only(probes: tuple[Probe, ...]) -> Probe:
    [probe] = probes
    return probe


@pytest.mark.parametrize(
    ("resets_in", "hold"),
    [
        (30.0, 30.0),
        (899.0, 899.0),
        (900.0, MAX_HOLD_S),
        (3 * 86400.0, MAX_HOLD_S),
        (None, UNTOLD_HOLD_S),
    ],
)
def test_E5_it_lasts_until_the_reset_and_at_most_15_minutes(
    resets_in: float | None, hold: float
) -> None:
    holds = held(used_up(resets_in))
    assert MAX_HOLD_S == 15 * 60
    assert holds.blocking(SONNET, 0) and holds.blocking(SONNET, hold - 0.1)
    assert holds.blocking(SONNET, hold) is None


@pytest.mark.parametrize("resets_in", [0.0, -5.0, -1e6])
def test_E5_a_reset_that_has_passed_holds_nobody(resets_in: float) -> None:
    assert held(used_up(resets_in)).blocking(SONNET, 0) is None


def test_E5_the_skip_is_soft_and_says_what_the_provider_said() -> None:
    skipped = held(used_up(3600, detail="You've hit your session limit")).blocking(SONNET, 1)
    assert skipped is not None
    assert skipped.code is ErrorCode.QUOTA_HOLD
    assert "You've hit your session limit" in skipped.detail
    assert skipped.resets_at == WALL + 3600 and not skipped.model_limit


def test_E5_a_plans_limit_holds_all_its_models_and_no_other_provider() -> None:
    holds = held(used_up())
    assert holds.blocking(SONNET, 1) and holds.blocking(OPUS, 1)
    assert holds.blocking(CODEX, 1) is None


def test_E5_a_models_limit_holds_that_model_alone() -> None:
    holds = held(used_up(model_limit=True), hop=OPUS)
    skipped = holds.blocking(OPUS, 1)
    assert skipped is not None and skipped.model_limit
    assert holds.blocking(SONNET, 1) is None


def test_E5_one_request_probes_and_the_others_are_still_held() -> None:
    holds = held(used_up())
    assert holds.blocking(SONNET, MAX_HOLD_S) is None
    probe = only(holds.enter(SONNET))
    for hop in (SONNET, OPUS):
        assert holds.blocking(hop, MAX_HOLD_S + 500)
    assert holds.enter(OPUS) == ()
    probe.leave()
    assert holds.blocking(OPUS, MAX_HOLD_S + 500) is None


def test_E5_a_probe_of_two_holds_is_the_probe_of_both() -> None:
    holds = held(used_up(), used_up(model_limit=True))
    probes = holds.enter(SONNET)
    assert len(probes) == 2
    for probe in probes:
        probe.leave()
    assert holds.blocking(SONNET, MAX_HOLD_S) is None


def test_E5_a_success_lifts_the_plans_hold_and_the_models() -> None:
    holds = held(used_up(), used_up(model_limit=True))
    holds.note(OPUS, used_up(model_limit=True), 0, WALL)
    holds.note(SONNET, Done(), MAX_HOLD_S, WALL + MAX_HOLD_S)
    assert holds.blocking(SONNET, 1) is None
    assert holds.blocking(OPUS, 1), "another model's own limit is not concerned"


def test_E5_any_complete_answer_lifts_it() -> None:
    for finish in Finish:
        holds = held(used_up())
        holds.note(SONNET, Done(finish), 1, WALL)
        assert holds.blocking(SONNET, 1) is None


@pytest.mark.parametrize("trouble", [t for t in ErrorCode if t is not ErrorCode.QUOTA_EXHAUSTED])
def test_E5_no_other_failure_makes_or_lifts_one(trouble: ErrorCode) -> None:
    holds = Holds()
    failed = Failed(trouble, "no", resets_at=WALL + 100)
    holds.note(SONNET, failed, 0, WALL)
    assert holds.blocking(SONNET, 0) is None
    holds = held(used_up())
    holds.note(SONNET, failed, 1, WALL)
    assert holds.blocking(SONNET, 1)


def test_E5_a_probe_that_is_told_the_same_again_holds_again() -> None:
    holds = held(used_up(3600))
    probe = only(holds.enter(SONNET))
    holds.note(SONNET, used_up(3600), MAX_HOLD_S, WALL + MAX_HOLD_S)
    probe.leave()
    assert holds.blocking(SONNET, 2 * MAX_HOLD_S - 1)
    assert holds.blocking(SONNET, 2 * MAX_HOLD_S) is None


def test_E5_news_of_a_request_from_before_makes_no_second_probe() -> None:
    holds = held(used_up(10))
    slow = only(holds.enter(SONNET))
    holds.note(OPUS, used_up(60), 20, WALL)
    assert holds.blocking(SONNET, 5000), "the first probe is still on its way"
    slow.leave()
    second = only(holds.enter(OPUS))
    slow.leave()
    assert holds.blocking(SONNET, 5000)
    second.leave()
    assert holds.blocking(SONNET, 5000) is None


def test_E5_a_probe_of_a_hold_that_was_lifted_leaves_a_new_one_alone() -> None:
    holds = held(used_up())
    old = only(holds.enter(SONNET))
    holds.clear()
    holds.note(SONNET, used_up(0), 100, WALL)
    new = only(holds.enter(SONNET))
    old.leave()
    assert holds.blocking(SONNET, 200)
    new.leave()
    assert holds.blocking(SONNET, 200) is None


@pytest.mark.parametrize(
    ("provider", "gone", "left"), [(None, 3, 0), ("claude", 2, 1), ("x", 0, 3)]
)
def test_E5_clear_lifts_one_providers_holds_or_all(
    provider: str | None, gone: int, left: int
) -> None:
    holds = held(used_up(), used_up(model_limit=True))
    holds.note(CODEX, used_up(), 0, WALL)
    assert holds.clear(provider) == gone
    assert len(list(holds.report(0))) == left


def test_E5_nobody_is_a_probe_where_there_is_no_hold() -> None:
    holds = held(used_up())
    assert holds.enter(CODEX) == ()


def test_F5_each_hold_is_told_with_its_reset_and_its_reason() -> None:
    holds = held(used_up(3600, model_limit=True, detail="opus limit"), hop=OPUS)
    holds.note(CODEX, used_up(None, detail="plan"), 0, WALL)
    assert list(holds.report(100)) == [
        (("claude", "opus"), 800.0, WALL + 3600, "opus limit"),
        (("codex", None), 200.0, None, "plan"),
    ]
    assert [left for _, left, _, _ in holds.report(1e6)] == [0.0, 0.0]


def test_F5_new_holds_know_nothing() -> None:
    assert list(Holds().report(0)) == []
