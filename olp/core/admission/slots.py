"""How many processes each provider may run at one time.

Taking a slot is one synchronous step, so nothing can come between the check and the taking. A full
provider is a reason to ask the next one.

A slot is for an answer, and a process may need seconds to end when its answer is there. So the slot
is free as soon as the answer is complete, and whoever waited for that answer finds it free; the
process on its way out is counted apart. There may be as many of these as there are slots, or a few
where there are few slots: where more would come together, the slot stays taken until the process is
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

from olp.events import ErrorCode, Failed

FEWEST_EXITS = 4
"""Processes on their way out that there may be, however few slots there are: on a busy machine an
end takes longer than the next answer."""


class Slot:
    """One taken slot; leaving its `with` block gives it back, once."""

    def __init__(self, slots: Slots, provider: str) -> None:
        self._slots: Slots | None = slots
        self._provider = provider
        self._leaving = False

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.give_back()

    def answered(self) -> None:
        """The answer is complete, and its process is on its way out."""
        slots, name = self._slots, self._provider
        if slots is None or self._leaving or slots.leaving[name] >= slots.exits(name):
            return
        self._leaving = True
        slots.leaving[name] += 1
        slots.free(name)

    def give_back(self) -> None:
        """The process is gone, if there was one. A second call does nothing."""
        slots, self._slots = self._slots, None
        if slots is None:
            return
        if self._leaving:
            slots.leaving[self._provider] -= 1
        else:
            slots.free(self._provider)


class Slots:
    """The counters. `active` is the number of slots taken now, by provider, and `leaving` that of
    processes whose answer is complete; `on_free` is called with the provider of each slot that
    became free."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = dict(limits)
        self.active = dict.fromkeys(limits, 0)
        self.leaving = dict.fromkeys(limits, 0)
        self.on_free: Callable[[str], None] = lambda provider: None

    def __repr__(self) -> str:
        taken = ", ".join(f"{name} {n}/{self.limits[name]}" for name, n in self.active.items())
        return f"Slots({taken})"

    def adopt(self, limits: Mapping[str, int]) -> None:
        """Go by other limits from now on. What is taken stays taken, and a provider that is gone
        keeps its limit for the answers that still use it."""
        self.limits |= limits
        self.active = dict.fromkeys(self.limits, 0) | self.active
        self.leaving = dict.fromkeys(self.limits, 0) | self.leaving
        for provider in limits:
            self.on_free(provider)  # there may be more of them now

    def take(self, provider: str) -> Slot | Failed:
        """A slot of `provider`, or the CONCURRENCY_LIMIT failure that says how full it is."""
        if self.active[provider] >= self.limits[provider]:
            return self.full(provider)
        self.active[provider] += 1
        return Slot(self, provider)

    def exits(self, provider: str) -> int:
        """How many processes may be on their way out."""
        return max(self.limits[provider], FEWEST_EXITS)

    def full(self, provider: str) -> Failed:
        """What it means for a request that no slot of `provider` is free for it."""
        return Failed(
            ErrorCode.CONCURRENCY_LIMIT,
            f"no free slot: providerName={provider} maxConcurrent={self.limits[provider]} "
            f"activeSpawns={self.active[provider]}",
        )

    def free(self, provider: str) -> None:
        """One that was taken is free."""
        self.active[provider] -= 1
        self.on_free(provider)
