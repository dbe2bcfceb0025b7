"""The trigger table: the effect of each error code on the chain, and its HTTP status and texts.

The single source for these: the walk reads it, and docs/fallback.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from olp.events import ErrorCode, Failed, TriggerType

CLIENT_ERROR_STATUSES = frozenset({400, 401, 403, 404, 422})
"""Upstream statuses that are the client's fault, so another provider would fail too."""

HARD_STATUSES = frozenset({402, 408, 409, 425, 429})
"""Upstream statuses below 500 after which another provider may succeed."""

SATURATED_S = 2.0
"""Default seconds until a slot is free: an answer usually takes seconds."""

MINUTE_S = 60.0
"""Default seconds for a rate limit, an overload or a crash: most are over by then."""

UNTOLD_HOLD_S = 5 * 60.0
"""Default seconds for an exhausted plan without a reset time from the vendor."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `status` is the HTTP status for the client, `meaning` a clause on what happened,
    `advice` what the user can do. `again_s` is the default number of seconds until the hop may have
    recovered; None if waiting does not help."""

    trigger: TriggerType
    status: int
    meaning: str
    advice: str
    counted_by_breaker: bool = False
    again_s: float | None = None


_HARD = TriggerType.HARD
_SOFT = TriggerType.SOFT

RULES: Mapping[ErrorCode, Rule] = MappingProxyType(
    {
        ErrorCode.SPAWN_FAILED: Rule(
            _HARD,
            502,
            "the CLI ended without a complete answer",
            "try again; if it persists, run `olp doctor` on the server",
            counted_by_breaker=True,
            again_s=MINUTE_S,
        ),
        ErrorCode.VENDOR_CUT: Rule(
            _HARD,
            502,
            "the CLI reports that the vendor's answer was interrupted",
            "try again; if it persists, the vendor has an outage",
            counted_by_breaker=True,
            again_s=MINUTE_S,
        ),
        ErrorCode.EMPTY_ANSWER: Rule(
            _HARD,
            502,
            "the answer has no text, no call and no refusal",
            "try again, or rephrase the request",
            counted_by_breaker=True,
            again_s=MINUTE_S,
        ),
        ErrorCode.CLI_NOT_FOUND: Rule(
            _HARD,
            502,
            "the CLI was not found on the server's PATH or at its configured `command`",
            "run `olp doctor` on the server: it prints the install command",
        ),
        ErrorCode.SPAWN_TIMEOUT: Rule(
            _HARD,
            504,
            "the vendor did not answer before the timeout",
            "try again, or send a shorter request",
            counted_by_breaker=True,
            again_s=MINUTE_S,
        ),
        ErrorCode.CONCURRENCY_LIMIT: Rule(
            _HARD,
            429,
            "all of the provider's slots are in use",
            "try again in a few seconds",
            again_s=SATURATED_S,
        ),
        ErrorCode.QUOTA_EXHAUSTED: Rule(
            _HARD,
            429,
            "the subscription's quota is exhausted",
            "wait for the reset",
            again_s=UNTOLD_HOLD_S,
        ),
        ErrorCode.RATE_LIMITED: Rule(
            _HARD,
            429,
            "the vendor's rate limit was reached",
            "try again in a minute",
            again_s=MINUTE_S,
        ),
        ErrorCode.OVERLOADED: Rule(
            _HARD,
            503,
            "the vendor is overloaded or returned a server error",
            "try again in a minute",
            counted_by_breaker=True,
            again_s=MINUTE_S,
        ),
        ErrorCode.AUTH_MISSING: Rule(
            TriggerType.AUTH_MISSING,
            502,
            "the CLI is not logged in, or its login is no longer valid",
            "log in on the server; `olp doctor` prints the command. Your OLP key is valid",
        ),
        ErrorCode.BAD_REQUEST: Rule(
            TriggerType.CLIENT_ERROR,
            400,
            "the vendor rejected the request",
            "change the request",
        ),
        ErrorCode.CONTEXT_TOO_LONG: Rule(
            TriggerType.CLIENT_ERROR,
            400,
            "the conversation exceeds the model's context window",
            "shorten the conversation, or use a model with a larger context window",
        ),
        ErrorCode.MODEL_NOT_FOUND: Rule(
            TriggerType.CLIENT_ERROR,
            404,
            "the model is not available to this account",
            "pick another model from /v1/models",
        ),
        ErrorCode.FORMAT_MISMATCH: Rule(
            _HARD,
            502,
            "the answer is not the requested JSON",
            "try again, or relax the schema",
        ),
        ErrorCode.INCAPABLE: Rule(
            _SOFT,
            400,
            "the request needs something that this hop does not support (tools, images, files)",
            "remove the parameter, or use a model that supports it; see `olp chain show`",
        ),
        ErrorCode.SOFT_TRIGGER: Rule(
            _SOFT,
            429,
            "a threshold set for this provider is reached",
            "wait for the reset, or raise the threshold",
        ),
        ErrorCode.QUOTA_HOLD: Rule(
            _SOFT,
            429,
            "the provider reported an exhausted quota and is on hold",
            "wait for the reset; `olp quota clear` lifts the hold",
            again_s=UNTOLD_HOLD_S,
        ),
        ErrorCode.CIRCUIT_OPEN: Rule(
            _SOFT,
            503,
            "the provider failed repeatedly and is skipped for a minute",
            "try again in a minute",
            again_s=MINUTE_S,
        ),
        ErrorCode.DEADLINE: Rule(
            _SOFT,
            504,
            "the request's deadline is too close to start this hop",
            "try again, or send a shorter request",
        ),
        ErrorCode.UNKNOWN: Rule(
            TriggerType.NON_TRIGGER,
            500,
            "an unknown failure",
            "run `olp doctor` on the server; if it persists, report it",
        ),
    }
)


def trigger_of(failed: Failed) -> TriggerType:
    """The trigger type of `failed`: by its code, or by its status if the code is UNKNOWN."""
    if failed.code is not ErrorCode.UNKNOWN or failed.status is None:
        return RULES[failed.code].trigger
    if failed.status in CLIENT_ERROR_STATUSES:
        return TriggerType.CLIENT_ERROR
    if failed.status in HARD_STATUSES or failed.status >= 500:
        return TriggerType.HARD
    return TriggerType.NON_TRIGGER


def status_of(failed: Failed) -> int:
    """The HTTP status of `failed` for the client."""
    if failed.code is ErrorCode.UNKNOWN and failed.status is not None:
        return 502 if failed.status >= 500 else 500
    return RULES[failed.code].status


def counted(failed: Failed) -> bool:
    """Whether the circuit breaker counts it: a fault of the provider, not of the client."""
    if failed.by_model:
        return False
    if failed.code is ErrorCode.UNKNOWN:
        return failed.status is not None and failed.status >= 500
    return RULES[failed.code].counted_by_breaker
