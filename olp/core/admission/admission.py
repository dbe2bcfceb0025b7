"""Admission control: decides whether a hop may be asked now.

`enter` checks the holds, the thresholds, the breaker and the slots, in this order, and acquires
what the attempt needs, in one synchronous step, so that there is no race between check and acquire.
It returns a `Permit`, a context manager that releases everything once on exit, or the failure for
which the hop is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType

from olp.config import BreakerConfig, Thresholds
from olp.core.admission.breaker import Breaker
from olp.core.admission.half_open import Probe
from olp.core.admission.holds import Holds
from olp.core.admission.provider_health import STALE_S, ProviderHealth
from olp.core.admission.queue import Queue
from olp.core.admission.quota import QuotaBook
from olp.core.admission.slots import Slot, Slots
from olp.core.routing.triggers import trigger_of
from olp.events import Done, ErrorCode, Failed, TriggerType
from olp.model import Hop


@dataclass(frozen=True, slots=True)
class Now:
    """One moment: monotonic seconds, epoch seconds, and the local date as YYYY-MM-DD."""

    steady: float
    wall: float
    day: str


class Admission:
    """Admission state of one server. `limits` are the thresholds by provider; `contexts` are the
    context windows in tokens that the CLIs reported."""

    def __init__(
        self, slots: Slots, breaker: BreakerConfig, limits: Mapping[str, Thresholds]
    ) -> None:
        self.slots = slots
        self.queue = Queue()
        slots.on_free = self.queue.freed
        self.breaker = Breaker(breaker)
        self.holds = Holds()
        self.quota = QuotaBook()
        self.health = ProviderHealth(slots.limits)
        self.contexts: dict[Hop, int] = {}
        self._limits = limits
        self._last_error: dict[Hop, tuple[Failed, float]] = {}

    def adopt(
        self, slots: Mapping[str, int], breaker: BreakerConfig, limits: Mapping[str, Thresholds]
    ) -> None:
        """Switch to another configuration. The state is kept; so are removed providers, for the
        answers in flight."""
        self.slots.adopt(slots)
        self.breaker.adopt(breaker)
        self.health.adopt(slots)
        self._limits = {**self._limits, **limits}

    def forget(self, provider: str) -> None:
        """Reset the state of a provider whose account or program has changed."""
        self.holds.clear(provider)
        self.breaker.forget(provider)
        self.quota.forget(provider)
        self.health.forget(provider)
        self.contexts = {h: n for h, n in self.contexts.items() if h.provider != provider}
        self._last_error = {h: e for h, e in self._last_error.items() if h.provider != provider}

    def enter(
        self,
        hop: Hop,
        chain_limits: Thresholds | None,
        now: Now,
        *,
        forced: bool = False,
        in_turn: bool = False,
    ) -> Permit | Failed:
        """A permit for one attempt at `hop`, or why it is refused. `forced` ignores an open
        circuit: there is no other hop. If others queue for a slot, only a request that is `in_turn`
        may take it."""
        unwanted = self._unwanted(hop, chain_limits, now, forced=forced)
        if unwanted is not None:
            return self._with_last_error(hop, unwanted, now)
        if not in_turn and self.queue.first(hop.provider):
            return self.slots.full(hop.provider)
        slot = self.slots.take(hop.provider)
        if isinstance(slot, Failed):
            return slot
        self.quota.count(hop.provider, now.day)
        probe = self.breaker.enter(hop)
        return Permit(hop, slot, (*self.holds.enter(hop), *([probe] if probe else [])))

    def _unwanted(
        self, hop: Hop, chain_limits: Thresholds | None, now: Now, *, forced: bool
    ) -> Failed | None:
        if held := self.holds.blocking(hop, now.steady):
            return held
        limits = _effective(chain_limits, self._limits.get(hop.provider))
        if fired := self.quota.fired(hop.provider, limits, now.wall, now.day):
            return fired
        if forced or not self.breaker.blocks(hop, now.steady):
            return None
        left = self.breaker.opens_again(hop, now.steady) - now.steady
        return Failed(
            ErrorCode.CIRCUIT_OPEN,
            f"left alone for {left:.0f} s more after several failures",
            resets_at=now.wall + left,
        )

    def _with_last_error(self, hop: Hop, skipped: Failed, now: Now) -> Failed:
        """Append the hop's last real error to the reason for skipping it; not to a hold, which
        states its own, and not an error older than STALE_S."""
        last, at = self._last_error.get(hop, (None, 0.0))
        if last is None or skipped.code is ErrorCode.QUOTA_HOLD or now.steady - at > STALE_S:
            return skipped
        return replace(
            skipped, detail=f"{skipped.detail}; its last error: {last.code}: {last.detail}"
        )

    def state(self, provider: str, now: float, wall: float) -> str:
        """`used_up`, else the state by its last requests (see `ProviderHealth.state`)."""
        used_up = self.holds.used_up(provider, now, wall)
        return "used_up" if used_up else self.health.state(provider, now)

    def note(self, hop: Hop, end: Done | Failed, now: Now) -> str | None:
        """Record the end of an attempt; returns `opened` or `closed` if its circuit changed."""
        self.health.note(hop.provider, end, now.steady)
        self.holds.note(hop, end, now.steady, now.wall)
        if isinstance(end, Done):
            self._last_error.pop(hop, None)
        elif _real_error(end):
            self._last_error[hop] = end, now.steady
        return self.breaker.note(hop, end, now.steady)


class Permit:
    """Permission for one attempt at `hop`. Leaving its `with` block releases slot and probes."""

    def __init__(self, hop: Hop, slot: Slot, probes: tuple[Probe, ...]) -> None:
        self.hop = hop
        self._slot = slot
        self._probes = probes

    def __enter__(self) -> Permit:
        return self

    def answered(self) -> None:
        """Free the slot before the final event is sent, so that a client that asks again at once
        finds it free. The process may still be exiting."""
        self._slot.answered()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._slot.give_back()
        # A conclusive end was noted before this, and has opened or shut these gates already.
        for probe in self._probes:
            probe.leave()


def _real_error(end: Failed) -> bool:
    """Whether it is a failure of an actual attempt, not caused by the client."""
    if end.code is ErrorCode.CONCURRENCY_LIMIT:
        return False
    return trigger_of(end) in (TriggerType.HARD, TriggerType.AUTH_MISSING)


def _effective(chain: Thresholds | None, provider: Thresholds | None) -> Thresholds:
    """The chain's thresholds, with the provider's as defaults."""
    values = {}
    for name in Thresholds.__struct_fields__:
        own = getattr(chain, name) if chain is not None else None
        values[name] = own if own is not None else getattr(provider, name, None)
    return Thresholds(**values)
