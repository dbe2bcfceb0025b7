"""Everything that is remembered between requests and decides whether a hop may be asked now.

`enter` is one synchronous step that looks at the holds, the thresholds, the breaker and the slots,
in this order, and takes what the attempt needs. It gives a `Pass` to be left by the block that
entered, or the failure that keeps the hop from being asked. Nothing can come between the looking
and the taking, and whatever way the block is left, what was taken is given back once.
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
    """One moment: steady seconds, epoch seconds, and the local date as YYYY-MM-DD."""

    steady: float
    wall: float
    day: str


class Admission:
    """The books of one server. `limits` are each provider's own thresholds; `contexts` are the
    tokens that a model can read, where its CLI has told."""

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
        """Go by another configuration from now on. What is known is kept, since a provider is as
        well or ill as it was; a provider that is gone is kept for the answers that still use it."""
        self.slots.adopt(slots)
        self.breaker.adopt(breaker)
        self.health.adopt(slots)
        self._limits = {**self._limits, **limits}

    def forget(self, provider: str) -> None:
        """It is another account or program by now, and starts with a clean sheet."""
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
        """What an attempt at `hop` needs, or why it cannot be made. `forced` passes an open
        circuit: the request has nowhere else to go. A slot that others wait for is only for whoever
        is `in_turn`."""
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
        """A skip says what really went wrong the last time, so that nobody has to look for it. A
        hold says so itself, and what is long ago has nothing to do with it."""
        last, at = self._last_error.get(hop, (None, 0.0))
        if last is None or skipped.code is ErrorCode.QUOTA_HOLD or now.steady - at > STALE_S:
            return skipped
        return replace(
            skipped, detail=f"{skipped.detail}; its last error: {last.code}: {last.detail}"
        )

    def state(self, provider: str, now: float, wall: float) -> str:
        """How it is: `used_up`, or what its last requests say (see `Vitals.state`)."""
        used_up = self.holds.used_up(provider, now, wall)
        return "used_up" if used_up else self.health.state(provider, now)

    def note(self, hop: Hop, end: Done | Failed, now: Now) -> str | None:
        """How an attempt at `hop` ended; `opened` or `closed` if that changes its circuit."""
        self.health.note(hop.provider, end, now.steady)
        self.holds.note(hop, end, now.steady, now.wall)
        if isinstance(end, Done):
            self._last_error.pop(hop, None)
        elif _real_error(end):
            self._last_error[hop] = end, now.steady
        return self.breaker.note(hop, end, now.steady)


class Permit:
    """The right to make one attempt at `hop`. Leaving its block gives back what it holds."""

    def __init__(self, hop: Hop, slot: Slot, probes: tuple[Probe, ...]) -> None:
        self.hop = hop
        self._slot = slot
        self._probes = probes

    def __enter__(self) -> Permit:
        return self

    def answered(self) -> None:
        """The answer is complete: its slot is free before its last word goes out, so that whoever
        waited for that word finds it free. The process may still be on its way out."""
        self._slot.answered()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._slot.give_back()
        # An end that says something was noted before, and has opened or shut these doors already.
        for probe in self._probes:
            probe.leave()


def _real_error(end: Failed) -> bool:
    """Whether it came from an attempt, and was not the client's doing."""
    if end.code is ErrorCode.CONCURRENCY_LIMIT:
        return False
    return trigger_of(end) in (TriggerType.HARD, TriggerType.AUTH_MISSING)


def _effective(chain: Thresholds | None, provider: Thresholds | None) -> Thresholds:
    """The chain's own thresholds, and where it has none the provider's."""
    values = {}
    for name in Thresholds.__struct_fields__:
        own = getattr(chain, name) if chain is not None else None
        values[name] = own if own is not None else getattr(provider, name, None)
    return Thresholds(**values)
