"""K1: one status for each failure, and an error body that says what to do."""

from __future__ import annotations

import json

import pytest

from olp.core.routing.chains import Chain
from olp.core.routing.triggers import RULES
from olp.core.routing.walk import Walk
from olp.dialects import openai_chat
from olp.events import ErrorCode, Failed, Refused
from olp.model import Hop

WALL = 1_800_000_000.0
STATUSES = {
    ErrorCode.QUOTA_EXHAUSTED: 429,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.CONCURRENCY_LIMIT: 429,
    ErrorCode.SOFT_TRIGGER: 429,
    ErrorCode.QUOTA_HOLD: 429,
    ErrorCode.SPAWN_TIMEOUT: 504,
    ErrorCode.DEADLINE: 504,
    ErrorCode.OVERLOADED: 503,
    ErrorCode.CIRCUIT_OPEN: 503,
    ErrorCode.SPAWN_FAILED: 502,
    ErrorCode.CLI_NOT_FOUND: 502,
    ErrorCode.AUTH_MISSING: 502,
    ErrorCode.FORMAT_MISMATCH: 502,
    ErrorCode.VENDOR_CUT: 502,
    ErrorCode.EMPTY_ANSWER: 502,
    ErrorCode.CONTEXT_TOO_LONG: 400,
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.INCAPABLE: 400,
    ErrorCode.MODEL_NOT_FOUND: 404,
    ErrorCode.UNKNOWN: 500,
}
SPECIAL = {
    ErrorCode.CONTEXT_TOO_LONG: "context_length_exceeded",
    ErrorCode.MODEL_NOT_FOUND: "model_not_found",
    ErrorCode.INCAPABLE: "unsupported_parameter",
    ErrorCode.AUTH_MISSING: "provider_auth_missing",
}


def refused(failed: Failed) -> Refused:
    """What a client is told when the only hop fails like this."""
    hop = Hop("claude", "sonnet")
    walk = Walk(Chain("c", (hop,)), streaming=False, now=0)
    walk.next(0)
    walk.pass_on(failed, 0)
    return walk.verdict(WALL)


def test_K1_every_failure_has_a_status() -> None:
    assert set(STATUSES) == set(ErrorCode) == set(RULES)


@pytest.mark.parametrize("trouble", list(ErrorCode))
def test_K1_each_failure_has_its_status_and_says_what_happened(trouble: ErrorCode) -> None:
    end = refused(Failed(trouble, "in the vendor's words"))
    assert end.status == STATUSES[trouble]
    error = json.loads(openai_chat.refused_body(end))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].startswith(f"{trouble}: in the vendor's words")
    if trouble in SPECIAL:
        assert error["code"] == SPECIAL[trouble]
    if end.status >= 500:
        assert end.advice and end.advice in error["message"]


@pytest.mark.parametrize("trouble", list(ErrorCode))
def test_K1_the_time_to_wait_is_told_where_waiting_helps(trouble: ErrorCode) -> None:
    end = refused(Failed(trouble, "no", resets_at=WALL + 120.2))
    if trouble is ErrorCode.CONCURRENCY_LIMIT:
        assert end.retry_after is not None and end.retry_after < 10
    elif end.status in (429, 503):
        assert end.retry_after == 121
    else:
        assert end.retry_after is None


@pytest.mark.parametrize(("status", "told"), [(500, 502), (599, 502), (418, 500), (None, 500)])
def test_K1_an_unknown_failure_goes_by_the_vendors_status(status: int | None, told: int) -> None:
    assert refused(Failed(ErrorCode.UNKNOWN, "odd", status=status)).status == told
