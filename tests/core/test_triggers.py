"""The trigger table, row by row, as the specification has it."""

from __future__ import annotations

import pytest

from olp.core.routing.triggers import (
    CLIENT_ERROR_STATUSES,
    HARD_STATUSES,
    RULES,
    counted,
    status_of,
    trigger_of,
)
from olp.events import ErrorCode, Failed, TriggerType

TABLE = {
    "SPAWN_FAILED": ("hard", 502, True),
    "CLI_NOT_FOUND": ("hard", 502, False),
    "SPAWN_TIMEOUT": ("hard", 504, True),
    "CONCURRENCY_LIMIT": ("hard", 429, False),
    "INCAPABLE": ("soft", 400, False),
    "QUOTA_EXHAUSTED": ("hard", 429, False),
    "RATE_LIMITED": ("hard", 429, False),
    "OVERLOADED": ("hard", 503, True),
    "AUTH_MISSING": ("auth_missing", 502, False),
    "BAD_REQUEST": ("client_error", 400, False),
    "CONTEXT_TOO_LONG": ("client_error", 400, False),
    "MODEL_NOT_FOUND": ("client_error", 404, False),
    "FORMAT_MISMATCH": ("hard", 502, False),
    "VENDOR_CUT": ("hard", 502, True),
    "EMPTY_ANSWER": ("hard", 502, True),
    "SOFT_TRIGGER": ("soft", 429, False),
    "QUOTA_HOLD": ("soft", 429, False),
    "CIRCUIT_OPEN": ("soft", 503, False),
    "DEADLINE": ("soft", 504, False),
    "UNKNOWN": ("non_trigger", 500, False),
}


def unknown(status: int | None) -> Failed:
    return Failed(ErrorCode.UNKNOWN, "?", status)


def test_A7_the_hard_triggers_are_exactly_these() -> None:
    hard = {t.value for t, rule in RULES.items() if rule.trigger is TriggerType.HARD}
    assert hard == {
        "SPAWN_FAILED",
        "CLI_NOT_FOUND",
        "SPAWN_TIMEOUT",
        "CONCURRENCY_LIMIT",
        "QUOTA_EXHAUSTED",
        "RATE_LIMITED",
        "OVERLOADED",
        "VENDOR_CUT",
        "EMPTY_ANSWER",
        "FORMAT_MISMATCH",
    }


@pytest.mark.parametrize("code", sorted(TABLE))
def test_A7_each_row(code: str) -> None:
    trigger, _, _ = TABLE[code]
    for status in (None, 400, 404, 429, 503):
        assert trigger_of(Failed(ErrorCode(code), "x", status)) == trigger or code == "UNKNOWN"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_A7_these_statuses_never_trigger(status: int) -> None:
    assert status in CLIENT_ERROR_STATUSES
    assert trigger_of(unknown(status)) is TriggerType.CLIENT_ERROR


@pytest.mark.parametrize(
    "status", [402, 408, 409, 425, 429, 500, 501, 502, 503, 504, 520, 529, 599]
)
def test_A7_these_statuses_always_trigger(status: int) -> None:
    assert (status in HARD_STATUSES) == (status < 500)
    assert trigger_of(unknown(status)) is TriggerType.HARD


@pytest.mark.parametrize("status", [None, 100, 200, 302, 405, 418, 451])
def test_A7_neither_a_known_code_nor_a_status_is_a_non_trigger(status: int | None) -> None:
    assert trigger_of(unknown(status)) is TriggerType.NON_TRIGGER


def test_A11_the_categories() -> None:
    assert {t.value for t in TriggerType} == {
        "hard",
        "soft",
        "auth_missing",
        "client_error",
        "non_trigger",
    }
    soft = {t for t, rule in RULES.items() if rule.trigger is TriggerType.SOFT}
    assert soft == {
        ErrorCode.SOFT_TRIGGER,
        ErrorCode.QUOTA_HOLD,
        ErrorCode.CIRCUIT_OPEN,
        ErrorCode.DEADLINE,
        ErrorCode.INCAPABLE,
    }


def test_A12_every_trouble_has_a_row_in_the_one_table() -> None:
    assert set(RULES) == set(ErrorCode) == {ErrorCode(code) for code in TABLE}
    with pytest.raises(TypeError):
        RULES[ErrorCode.UNKNOWN] = RULES[ErrorCode.UNKNOWN]  # type: ignore[index]


@pytest.mark.parametrize("code", sorted(TABLE))
def test_K_the_status_of_each_row(code: str) -> None:
    assert status_of(Failed(ErrorCode(code), "x")) == TABLE[code][1]


@pytest.mark.parametrize(("upstream", "status"), [(500, 502), (529, 502), (418, 500), (400, 500)])
def test_K_the_status_of_an_unknown_error(upstream: int, status: int) -> None:
    assert status_of(unknown(upstream)) == status


@pytest.mark.parametrize("trouble", sorted(ErrorCode))
def test_K_every_row_says_what_happened_and_what_to_do_next(trouble: ErrorCode) -> None:
    rule = RULES[trouble]
    for text in (rule.meaning, rule.advice):
        assert len(text) > 10
        assert not text.endswith((".", "\n")) and text[0].islower()


@pytest.mark.parametrize("code", sorted(TABLE))
def test_F2_what_the_breaker_counts(code: str) -> None:
    assert counted(Failed(ErrorCode(code), "x")) == TABLE[code][2]


@pytest.mark.parametrize(("status", "counts"), [(None, 0), (400, 0), (429, 0), (500, 1), (529, 1)])
def test_F2_an_unknown_error_counts_by_its_status(status: int | None, counts: int) -> None:
    assert counted(unknown(status)) == bool(counts)
