"""What a client is told when no hop could answer.

All hops failed: the first hop's error, for that is the provider the request was meant for, and a
sentence on what happened to each. A stop in mid-chain: the error that stopped it. Either way with
the time after which asking again makes sense, so that nobody has to guess it by asking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from olp.core.days import lasting
from olp.core.routing.chains import Chain
from olp.core.routing.triggers import MINUTE_S, RULES, status_of
from olp.core.scrub import scrub
from olp.events import ErrorCode, Failed, HopRecord, Refused
from olp.model import Hop


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
    if len(failures) > 1 and not stopped:
        failed = replace(failed, detail=f"{failed.detail.rstrip('.')}. {_tale(failures, wall)}")
    providers = tuple(hop.provider for hop in chain.hops)
    status = status_of(told.failed)
    wait = _wait(failures, wall) if status in (429, 503) else None
    return Refused(
        origin.hop.provider,
        origin.hop.model,
        told.index if stopped else len(chain.hops),
        failed,
        status,
        _advice(told.failed.code, len(chain.hops), None if stopped else wait),
        tuple(records),
        providers if not stopped and len(providers) > 1 else (),
        None if wait is None else max(1, math.ceil(wait)),
        retry={f.failed.code for f in failures} == {ErrorCode.CONCURRENCY_LIMIT},
    )


def _first(failures: Sequence[Failure]) -> Failure:
    """The first hop's, unless it could never have answered this request and another one could."""
    able = (f for f in failures if f.failed.code is not ErrorCode.INCAPABLE)
    return next(able, failures[0])


def _wait(failures: Sequence[Failure], wall: float) -> float:
    """Seconds until any of the hops may be well again."""
    waits = [wait for f in failures if (wait := _well_in(f.failed, wall)) is not None]
    return min(waits, default=MINUTE_S)


def _well_in(failed: Failed, wall: float) -> float | None:
    """Seconds until the hop that failed like this may be well again, as far as time is what it
    needs: as its vendor told, or as it usually takes."""
    if failed.resets_at is not None and failed.code is not ErrorCode.CONCURRENCY_LIMIT:
        return max(0.0, failed.resets_at - wall)
    return RULES[failed.code].again_s


# --- words ---------------------------------------------------------------------------------------


def _tale(failures: Sequence[Failure], wall: float) -> str:
    """What happened to each hop, a sentence each. In OLP's words: a vendor's are for the owner, who
    finds them in the detail header and the log."""
    return " ".join(
        f"{f.hop}: {RULES[f.failed.code].meaning}{_back(f.failed, wall)}." for f in failures
    )


def _back(failed: Failed, wall: float) -> str:
    if failed.resets_at is None or failed.resets_at <= wall:
        return ""
    return f"; available again in {lasting(failed.resets_at - wall)}"


def _advice(error_code: ErrorCode, hops: int, wait: float | None) -> str:
    """What to do, so that it fits the chain."""
    if hops > 1 and wait is not None:
        return f"try again in {lasting(wait)}"
    used_up = error_code in (
        ErrorCode.QUOTA_EXHAUSTED,
        ErrorCode.QUOTA_HOLD,
        ErrorCode.SOFT_TRIGGER,
    )
    other = ", or use a chain with a fallback to another provider" if used_up and hops == 1 else ""
    return RULES[error_code].advice + other


def scrubbed(failed: Failed) -> Failed:
    """`failed` with a detail that may leave this machine."""
    return replace(failed, detail=scrub(failed.detail))
