"""What a client is told when no hop could answer.

All hops failed: the first hop's error, for that is the provider the request was meant for. A stop
in mid-chain: the error that stopped it. Either way with the time after which asking again makes
sense, so that nobody has to guess it by asking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from olp.core.chains import Chain
from olp.core.scrub import scrub
from olp.core.triggers import RULES, status_of
from olp.events import Failed, HopRecord, Refused, Trouble
from olp.model import Hop

SATURATED_RETRY_S = 2
"""Retry-After when every slot of the chain is taken: an answer usually ends within seconds."""

UNKNOWN_RESET_RETRY_S = 60
"""Retry-After for a limit whose reset no vendor told, against retry storms."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One hop that did not answer, and why."""

    hop: Hop
    index: int
    failed: Failed


def verdict(
    chain: Chain,
    failures: Sequence[Failure],
    records: Sequence[HopRecord],
    *,
    stopped: Failure | None,
    wall: float,
) -> Refused:
    """The refusal of a walk that ended without an answer, or that was `stopped` by a failure that
    is no trigger. `wall` is in epoch seconds."""
    told = stopped or _first(failures)
    origin = stopped or failures[0]
    failed = scrubbed(told.failed)
    if told is not origin:
        # The headers name the first hop, which could not have answered this request at all.
        failed = replace(failed, detail=f"{told.hop.provider}: {failed.detail}")
    providers = tuple(hop.provider for hop in chain.hops)
    status = status_of(told.failed)
    saturated = {f.failed.trouble for f in failures} == {Trouble.CONCURRENCY_LIMIT}
    return Refused(
        origin.hop.provider,
        origin.hop.model,
        told.index if stopped else len(chain.hops),
        failed,
        status,
        RULES[told.failed.trouble].advice,
        tuple(records),
        providers if not stopped and len(providers) > 1 else (),
        _retry_after(failures, status, saturated, wall),
        retry=saturated,
    )


def _first(failures: Sequence[Failure]) -> Failure:
    """The first hop's, unless it could never have answered this request and another one could."""
    able = (f for f in failures if f.failed.trouble is not Trouble.INCAPABLE)
    return next(able, failures[0])


def _retry_after(
    failures: Sequence[Failure], status: int, saturated: bool, wall: float
) -> int | None:
    if saturated:
        return SATURATED_RETRY_S
    if status not in (429, 503):
        return None
    waits = [f.failed.resets_at - wall for f in failures if f.failed.resets_at is not None]
    if any(
        f.failed.trouble is Trouble.RATE_LIMITED and f.failed.resets_at is None for f in failures
    ):
        waits.append(UNKNOWN_RESET_RETRY_S)  # a throttle is over soon, whatever other plans say
    return max(1, math.ceil(min(waits))) if waits else UNKNOWN_RESET_RETRY_S


def scrubbed(failed: Failed) -> Failed:
    """`failed` with a detail that may leave this machine."""
    return replace(failed, detail=scrub(failed.detail))
