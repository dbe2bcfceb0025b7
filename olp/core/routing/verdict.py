"""Builds the refusal for the client when no hop answered.

If all hops failed, it is the first hop's error, since the request was meant for that provider, with
one sentence on each hop. If a failure stopped the chain, it is that error. Both carry a Retry-After
where waiting can help.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from olp.core.days import lasting
from olp.core.routing.chains import Chain
from olp.core.routing.triggers import MINUTE_S, RULES, status_of
from olp.events import ErrorCode, Failed, HopRecord, Refused
from olp.model import Hop


@dataclass(frozen=True, slots=True)
class Failure:
    """A hop that did not answer, its index in the chain, and the failure."""

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
    """The refusal of a walk that was exhausted, or `stopped` by a failure that is no trigger.
    `wall` is in epoch seconds."""
    shown = stopped or _first(failures)
    origin = stopped or failures[0]
    failed = shown.failed  # scrubbed by the walk
    if shown is not origin:
        # The headers name the first hop, which was not capable of this request.
        failed = replace(failed, detail=f"{shown.hop.provider}: {failed.detail}")
    if len(failures) > 1 and not stopped:
        failed = replace(failed, detail=f"{failed.detail.rstrip('.')}. {_per_hop(failures, wall)}")
    providers = tuple(hop.provider for hop in chain.hops)
    status = status_of(shown.failed)
    wait = _wait(failures, wall) if status in (429, 503) else None
    return Refused(
        origin.hop.provider,
        origin.hop.model,
        shown.index if stopped else len(chain.hops),
        failed,
        status,
        _advice(shown.failed.code, len(chain.hops), None if stopped else wait),
        tuple(records),
        providers if not stopped and len(providers) > 1 else (),
        None if wait is None else max(1, math.ceil(wait)),
        retry={f.failed.code for f in failures} == {ErrorCode.CONCURRENCY_LIMIT},
    )


def _first(failures: Sequence[Failure]) -> Failure:
    """The first failure of a capable hop, else the first failure."""
    able = (f for f in failures if f.failed.code is not ErrorCode.INCAPABLE)
    return next(able, failures[0])


def _wait(failures: Sequence[Failure], wall: float) -> float:
    """Seconds until any of the hops may have recovered."""
    waits = [wait for f in failures if (wait := _recovers_in(f.failed, wall)) is not None]
    return min(waits, default=MINUTE_S)


def _recovers_in(failed: Failed, wall: float) -> float | None:
    """Seconds until the hop may have recovered: by the vendor's reset time, else the rule's
    default; None if waiting does not help."""
    if failed.resets_at is not None and failed.code is not ErrorCode.CONCURRENCY_LIMIT:
        return max(0.0, failed.resets_at - wall)
    return RULES[failed.code].again_s


# --- text ----------------------------------------------------------------------------------------


def _per_hop(failures: Sequence[Failure], wall: float) -> str:
    """One sentence per hop, in OLP's own wording: vendor messages are for the owner, in the detail
    header and the log."""
    return " ".join(
        f"{f.hop}: {RULES[f.failed.code].meaning}{_back(f.failed, wall)}." for f in failures
    )


def _back(failed: Failed, wall: float) -> str:
    if failed.resets_at is None or failed.resets_at <= wall:
        return ""
    return f"; available again in {lasting(failed.resets_at - wall)}"


def _advice(error_code: ErrorCode, hops: int, wait: float | None) -> str:
    """The advice for the client, depending on the chain."""
    if hops > 1 and wait is not None:
        return f"try again in {lasting(wait)}"
    used_up = error_code in (
        ErrorCode.QUOTA_EXHAUSTED,
        ErrorCode.QUOTA_HOLD,
        ErrorCode.SOFT_TRIGGER,
    )
    other = ", or use a chain with a fallback to another provider" if used_up and hops == 1 else ""
    return RULES[error_code].advice + other
