"""Quota holds: a provider that reported an exhausted plan is skipped until the reset.

A hold lasts until the vendor's reset time, but at most MAX_HOLD_S: plans are topped up and limits
lifted, and a longer hold would need manual clearing. After that, one real request probes. A limit
of one model holds only that model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from olp.core.admission.half_open import HalfOpenGate, Probe
from olp.core.routing.triggers import UNTOLD_HOLD_S
from olp.events import Done, ErrorCode, Failed
from olp.model import Hop

MAX_HOLD_S = 15 * 60.0
"""Maximum seconds of a hold before one request probes again."""

Scope = tuple[str, str | None]
"""A provider, and the model whose limit it is, or None for the whole plan."""


@dataclass(slots=True)
class _Hold:
    reason: str
    resets_at: float | None
    gate: HalfOpenGate = field(default_factory=HalfOpenGate)


class Holds:
    """Holds by scope. `now` is monotonic; reset times are epoch seconds, like `wall`."""

    def __init__(self) -> None:
        self._holds: dict[Scope, _Hold] = {}

    def _scopes(self, hop: Hop) -> tuple[Scope, Scope]:
        return ((hop.provider, None), (hop.provider, hop.model))

    def blocking(self, hop: Hop, now: float) -> Failed | None:
        """QUOTA_HOLD if a hold blocks `hop` now."""
        for scope in self._scopes(hop):
            hold = self._holds.get(scope)
            if hold is not None and hold.gate.blocks(now):
                whose = "plan" if scope[1] is None else f"limit for {scope[1]}"
                return Failed(
                    ErrorCode.QUOTA_HOLD,
                    f"the {whose} of {scope[0]} is used up; it said: {hold.reason}",
                    resets_at=hold.resets_at,
                    model_limit=scope[1] is not None,
                )
        return None

    def enter(self, hop: Hop) -> tuple[Probe, ...]:
        """Start an attempt at `hop`; returns its probes of the plan's and the model's hold."""
        held = [self._holds[scope] for scope in self._scopes(hop) if scope in self._holds]
        return tuple(probe for hold in held if (probe := hold.gate.enter()) is not None)

    def note(self, hop: Hop, end: Done | Failed, now: float, wall: float) -> None:
        """Record the end of an attempt: an answer lifts holds, QUOTA_EXHAUSTED creates one."""
        if isinstance(end, Done):
            for scope in self._scopes(hop):
                self._holds.pop(scope, None)
        elif end.code is ErrorCode.QUOTA_EXHAUSTED and not end.request_limit:
            scope = (hop.provider, hop.model if end.model_limit else None)
            told = UNTOLD_HOLD_S if end.resets_at is None else end.resets_at - wall
            hold = self._holds.setdefault(scope, _Hold(end.detail, end.resets_at))
            hold.reason, hold.resets_at = end.detail, end.resets_at
            hold.gate.shut(now + min(max(told, 0.0), MAX_HOLD_S))

    def clear(self, provider: str | None = None) -> int:
        """Lift the holds of one provider, or all; returns how many there were."""
        gone = [scope for scope in self._holds if provider in (None, scope[0])]
        for scope in gone:
            del self._holds[scope]
        return len(gone)

    def used_up(self, provider: str, now: float, wall: float) -> bool:
        """Whether the vendor reported the whole plan as exhausted: until the reset time, or while
        the hold is shut if there is none."""
        hold = self._holds.get((provider, None))
        if hold is None:
            return False
        return hold.gate.shut_at(now) if hold.resets_at is None else wall < hold.resets_at

    def report(self, now: float) -> Iterable[tuple[Scope, float, float | None, str]]:
        """Each hold: scope, seconds until the next probe, reset in epoch seconds, reason."""
        for scope, hold in self._holds.items():
            until = hold.gate.until or now
            yield scope, max(0.0, until - now), hold.resets_at, hold.reason
