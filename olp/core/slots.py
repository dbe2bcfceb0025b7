"""How many processes each provider may run at one time.

Taking a slot is one synchronous step, so nothing can come between the check and the taking. There
is no queue: a full provider is a reason to ask the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

from olp.events import Failed, Trouble


class Slot:
    """One taken slot; leaving its `with` block gives it back, once."""

    def __init__(self, slots: Slots, provider: str) -> None:
        self._slots: Slots | None = slots
        self._provider = provider

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Free the slot. A second call does nothing."""
        if self._slots is not None:
            slots, self._slots = self._slots, None
            slots.active[self._provider] -= 1
            slots.on_free(self._provider)


class Slots:
    """The counters. `active` is the number of slots taken now, by provider; `on_free` is called
    with the provider of each slot that was given back."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = dict(limits)
        self.active = dict.fromkeys(limits, 0)
        self.on_free: Callable[[str], None] = lambda provider: None

    def __repr__(self) -> str:
        taken = ", ".join(f"{name} {n}/{self.limits[name]}" for name, n in self.active.items())
        return f"Slots({taken})"

    def adopt(self, limits: Mapping[str, int]) -> None:
        """Go by other limits from now on. What is taken stays taken, and a provider that is gone
        keeps its limit for the answers that still use it."""
        self.limits |= limits
        self.active = dict.fromkeys(self.limits, 0) | self.active

    def take(self, provider: str) -> Slot | Failed:
        """A slot of `provider`, or the CONCURRENCY_LIMIT failure that says how full it is."""
        if self.active[provider] >= self.limits[provider]:
            return Failed(
                Trouble.CONCURRENCY_LIMIT,
                f"no free slot: providerName={provider} maxConcurrent={self.limits[provider]} "
                f"activeSpawns={self.active[provider]}",
            )
        self.active[provider] += 1
        return Slot(self, provider)
