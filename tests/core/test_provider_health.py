"""Health is what finished requests say, and it grows old."""

from __future__ import annotations

import pytest

from olp.core.admission.provider_health import STALE_S, WINDOW, ProviderHealth
from olp.events import Done, ErrorCode, Failed, Finish

SILENT = [
    ErrorCode.CONCURRENCY_LIMIT,
    ErrorCode.BAD_REQUEST,
    ErrorCode.CONTEXT_TOO_LONG,
    ErrorCode.MODEL_NOT_FOUND,
    ErrorCode.SOFT_TRIGGER,
    ErrorCode.QUOTA_HOLD,
    ErrorCode.CIRCUIT_OPEN,
    ErrorCode.DEADLINE,
    ErrorCode.INCAPABLE,
]


def health(*ends: Done | Failed, now: float = 0.0) -> ProviderHealth:
    seen = ProviderHealth(["claude", "codex"])
    for step, end in enumerate(ends):
        seen.note("claude", end, now + step)
    return seen


def test_M8_before_the_first_request_nothing_is_known() -> None:
    report = health().report("claude", 5.0)
    assert report == {
        "state": "unknown",
        "last_success_age_s": None,
        "last_failure": None,
        "attempts": 0,
        "success_rate": None,
    }


def test_M8_a_finished_answer_is_health_and_the_other_provider_is_not_concerned() -> None:
    seen = health(Done())
    assert seen.state("claude", 1.0) == "ok"
    assert seen.state("codex", 1.0) == "unknown"
    assert seen.report("claude", 7.0)["last_success_age_s"] == 7


@pytest.mark.parametrize("trouble", [t for t in sorted(ErrorCode) if t not in SILENT])
def test_M8_a_failure_of_the_provider_is_told_with_its_reason_and_age(trouble: ErrorCode) -> None:
    seen = health(Done(), Failed(trouble, "what it said"))
    report = seen.report("claude", 11.0)
    assert report["state"] == ("stale" if trouble is ErrorCode.QUOTA_EXHAUSTED else "failing")
    assert report["last_failure"] == {"code": trouble.value, "error": "what it said", "age_s": 10}
    assert report["success_rate"] == 0.5


@pytest.mark.parametrize("trouble", SILENT)
def test_M8_what_says_nothing_about_the_provider_changes_nothing(trouble: ErrorCode) -> None:
    seen = health(Done(), Failed(trouble, "x"))
    assert seen.report("claude", 1.0) == health(Done()).report("claude", 1.0)


def test_M8_the_last_request_decides() -> None:
    assert health(Failed(ErrorCode.OVERLOADED, "x"), Done()).state("claude", 2.0) == "ok"
    assert health(Done(), Failed(ErrorCode.OVERLOADED, "x")).state("claude", 2.0) == "failing"


@pytest.mark.parametrize(("before", "state"), [(Done(), "ok"), (None, "stale")])
def test_M8_a_limit_of_one_model_says_nothing_of_the_others(
    before: Done | None, state: str
) -> None:
    used_up = Failed(ErrorCode.QUOTA_EXHAUSTED, "x", model_limit=True)
    assert health(*([before] if before else []), used_up).state("claude", 2.0) == state


def test_M8_what_was_seen_long_ago_is_stale() -> None:
    seen = health(Done())
    assert seen.state("claude", STALE_S) == "ok"
    assert seen.state("claude", STALE_S + 1) == "stale"


def test_M8_a_success_at_time_zero_of_the_clock_counts() -> None:
    assert health(Done(), now=0.0).state("claude", 0.0) == "ok"


def test_L4_the_rate_is_what_was_really_seen_broken_answers_included() -> None:
    broken = Done(Finish.LENGTH, truncated=True)
    seen = health(Done(), broken, Failed(ErrorCode.SPAWN_FAILED, "x"), Done())
    assert seen.report("claude", 9.0)["success_rate"] == 0.5
    assert seen.report("claude", 9.0)["attempts"] == 4


def test_L4_the_rate_is_of_the_last_attempts() -> None:
    failed = Failed(ErrorCode.SPAWN_FAILED, "x")
    seen = health(*[failed] * WINDOW, *[Done()] * (WINDOW // 2))
    assert seen.report("claude", 999.0)["success_rate"] == 0.5
    assert seen.report("claude", 999.0)["attempts"] == WINDOW
