"""Counters since the start, for /metrics.

Plain numbers, so that metrics cost next to nothing unless they are scraped. Label cardinality is
bounded: configured providers, known models (else `other`), OLP's error codes, and persons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from olp.model import Hop
from olp.runtime.usage.entries import RequestRow

FIRST_S = (0.25, 0.5, 1, 2, 3, 5, 8, 13, 20, 30, 60, 120, 240)
"""Bucket bounds in seconds, from an immediate answer of a warm process to long reasoning."""

TOTAL_S = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 240, 480, 600)

KINDS = ("input", "output", "cached", "cache_written", "reasoning")

Knows = Callable[[Hop], bool]


@dataclass(slots=True)
class Histogram:
    """A histogram; the last bucket is +Inf."""

    bounds: Sequence[float]
    counts: list[int] = field(init=False)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def note(self, value: float) -> None:
        """Record one value."""
        index = next((i for i, b in enumerate(self.bounds) if value <= b), len(self.bounds))
        self.counts[index] += 1
        self.sum += value


class Counters:
    """The counters. `knows` returns whether a hop's model is known, and so may be a label."""

    def __init__(self) -> None:
        self.knows: Knows = lambda hop: False
        self.requests: Counter[tuple[str, str, str, str, str]] = Counter()
        """By provider, model, outcome, code and person."""
        self.hops: Counter[tuple[str, str, str, str]] = Counter()
        """By provider, model, code and trigger type; `OK` for a hop that answered."""
        self.tokens: Counter[tuple[str, str, str, str]] = Counter()
        """By provider, model, kind and person."""
        self.cost: dict[tuple[str, str, str], float] = {}
        """US dollars as the CLIs state them, by provider, model and person."""
        self.first: dict[str, Histogram] = {}
        self.total: dict[str, Histogram] = {}

    def hop(self, hop: Hop, code: str, trigger: str) -> None:
        """Count the end of one hop of a request, skipped hops included."""
        self.hops[hop.provider, self._model(hop), code, trigger] += 1

    def request(self, row: RequestRow, hop: Hop | None, person: str) -> None:
        """Count a finished request; `hop` is the one that answered, or the last one tried."""
        provider = hop.provider if hop else "none"
        model = self._model(hop) if hop else "none"
        self.requests[provider, model, row.outcome, row.code or "OK", person] += 1
        for kind in KINDS:
            if tokens := getattr(row, kind):
                self.tokens[provider, model, kind, person] += tokens
        if row.cost is not None:
            by = (provider, model, person)
            self.cost[by] = self.cost.get(by, 0.0) + row.cost
        if row.first_ms is not None:
            self.first.setdefault(provider, Histogram(FIRST_S)).note(row.first_ms / 1000)
        if hop is not None:
            self.total.setdefault(provider, Histogram(TOTAL_S)).note(row.total_ms / 1000)

    def _model(self, hop: Hop) -> str:
        return hop.model if self.knows(hop) else "other"
