"""Concurrency limit: how many processes each provider may run at once.

Taking a slot is one synchronous step, so there is no race between check and acquire. A full
provider makes the walk try the next one.

A process may need seconds to exit after its answer. The slot is therefore freed as soon as the
answer is complete, and exiting processes are counted separately. At most max(slots, FEWEST_EXITS)
may be exiting; beyond that the slot stays taken until the process has exited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

from olp.events import ErrorCode, Failed

FEWEST_EXITS = 4
"""Exiting processes allowed however few slots there are: on a busy machine an exit takes longer
than the next answer."""


class Slot:
    """One taken slot; leaving its `with` block releases it, once."""

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
        """The answer is complete: free the slot while the process exits, within the limit."""
        slots, name = self._slots, self._provider
        if slots is None or self._leaving or slots.leaving[name] >= slots.exits(name):
            return
        self._leaving = True
        slots.leaving[name] += 1
        slots.free(name)

    def give_back(self) -> None:
        """The process has exited, if there was one. Idempotent."""
        slots, self._slots = self._slots, None
        if slots is None:
            return
        if self._leaving:
            slots.leaving[self._provider] -= 1
        else:
            slots.free(self._provider)


class Slots:
    """The counters by provider. `active` is the number of slots taken, `leaving` that of exiting
    processes whose slot is free; `on_free` is called with the provider of each freed slot."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = dict(limits)
        self.active = dict.fromkeys(limits, 0)
        self.leaving = dict.fromkeys(limits, 0)
        self.on_free: Callable[[str], None] = lambda provider: None

    def __repr__(self) -> str:
        taken = ", ".join(f"{name} {n}/{self.limits[name]}" for name, n in self.active.items())
        return f"Slots({taken})"

    def adopt(self, limits: Mapping[str, int]) -> None:
        """Switch to other limits. Taken slots stay taken, and removed providers keep their limit
        for the answers in flight."""
        self.limits |= limits
        self.active = dict.fromkeys(self.limits, 0) | self.active
        self.leaving = dict.fromkeys(self.limits, 0) | self.leaving
        for provider in limits:
            self.on_free(provider)  # there may be more of them now

    def take(self, provider: str) -> Slot | Failed:
        """A slot of `provider`, or CONCURRENCY_LIMIT."""
        if self.active[provider] >= self.limits[provider]:
            return self.full(provider)
        self.active[provider] += 1
        return Slot(self, provider)

    def exits(self, provider: str) -> int:
        """How many processes may be exiting."""
        return max(self.limits[provider], FEWEST_EXITS)

    def full(self, provider: str) -> Failed:
        """The CONCURRENCY_LIMIT failure of `provider`."""
        return Failed(
            ErrorCode.CONCURRENCY_LIMIT,
            f"no free slot: providerName={provider} maxConcurrent={self.limits[provider]} "
            f"activeSpawns={self.active[provider]}",
        )

    def free(self, provider: str) -> None:
        """Release one slot."""
        self.active[provider] -= 1
        self.on_free(provider)
