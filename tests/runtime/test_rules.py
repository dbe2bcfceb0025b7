"""K1: one status for each failure, and an error body that says what to do."""

from __future__ import annotations

import json

import pytest

from olp.core.chains import Chain
from olp.core.triggers import RULES
from olp.core.walk import Walk
from olp.dialects import openai_chat
from olp.events import Failed, Refused, Trouble
from olp.model import Hop

WALL = 1_800_000_000.0
STATUSES = {
    Trouble.QUOTA_EXHAUSTED: 429,
    Trouble.RATE_LIMITED: 429,
    Trouble.CONCURRENCY_LIMIT: 429,
    Trouble.SOFT_TRIGGER: 429,
    Trouble.QUOTA_HOLD: 429,
    Trouble.SPAWN_TIMEOUT: 504,
    Trouble.DEADLINE: 504,
    Trouble.OVERLOADED: 503,
    Trouble.CIRCUIT_OPEN: 503,
    Trouble.SPAWN_FAILED: 502,
    Trouble.CLI_NOT_FOUND: 502,
    Trouble.AUTH_MISSING: 502,
    Trouble.FORMAT_MISMATCH: 502,
    Trouble.VENDOR_CUT: 502,
    Trouble.EMPTY_ANSWER: 502,
    Trouble.CONTEXT_TOO_LONG: 400,
    Trouble.BAD_REQUEST: 400,
    Trouble.INCAPABLE: 400,
    Trouble.MODEL_NOT_FOUND: 404,
    Trouble.UNKNOWN: 500,
}
SPECIAL = {
    Trouble.CONTEXT_TOO_LONG: "context_length_exceeded",
    Trouble.MODEL_NOT_FOUND: "model_not_found",
    Trouble.INCAPABLE: "unsupported_parameter",
    Trouble.AUTH_MISSING: "provider_auth_missing",
}


def refused(failed: Failed) -> Refused:
    """What a client is told when the only hop fails like this."""
    hop = Hop("claude", "sonnet")
    walk = Walk(Chain("c", (hop,)), streaming=False, now=0)
    walk.next(0)
    walk.pass_on(failed, 0)
    return walk.verdict(WALL)


def test_K1_every_failure_has_a_status() -> None:
    assert set(STATUSES) == set(Trouble) == set(RULES)


@pytest.mark.parametrize("trouble", list(Trouble))
def test_K1_each_failure_has_its_status_and_says_what_happened(trouble: Trouble) -> None:
    end = refused(Failed(trouble, "in the vendor's words"))
    assert end.status == STATUSES[trouble]
    error = json.loads(openai_chat.refused_body(end))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].startswith(f"{trouble}: in the vendor's words")
    if trouble in SPECIAL:
        assert error["code"] == SPECIAL[trouble]
    if end.status >= 500:
        assert end.advice and end.advice in error["message"]


@pytest.mark.parametrize("trouble", list(Trouble))
def test_K1_the_time_to_wait_is_told_where_waiting_helps(trouble: Trouble) -> None:
    end = refused(Failed(trouble, "no", resets_at=WALL + 120.2))
    if trouble is Trouble.CONCURRENCY_LIMIT:
        assert end.retry_after is not None and end.retry_after < 10
    elif end.status in (429, 503):
        assert end.retry_after == 121
    else:
        assert end.retry_after is None


@pytest.mark.parametrize(("status", "told"), [(500, 502), (599, 502), (418, 500), (None, 500)])
def test_K1_an_unknown_failure_goes_by_the_vendors_status(status: int | None, told: int) -> None:
    assert refused(Failed(Trouble.UNKNOWN, "odd", status=status)).status == told
