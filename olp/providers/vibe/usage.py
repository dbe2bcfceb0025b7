"""The usage of a Vibe conversation, computed as differences of the session's counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olp.events import Usage
from olp.providers.shared.wire import count, number


@dataclass(frozen=True, slots=True)
class Spent:
    """The session's counters so far, and those of its last request to the vendor."""

    requests: int = 0

    input: int = 0
    """Tokens, cached ones included."""

    output: int = 0
    """Tokens."""

    cached: int = 0
    """Tokens."""

    last_input: int = 0
    """Tokens of the last request."""

    last_cached: int = 0
    """Tokens of the last request."""

    prices: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Dollars per million tokens of input, output and cached input."""

    @classmethod
    def from_stats(cls, stats: Mapping[str, Any]) -> Spent:
        """Parse the CLI's `stats` object."""
        input_price = number(stats.get("inputPricePerMillion")) or 0.0
        cached = number(stats.get("cachedInputPricePerMillion"))
        return cls(
            count(stats.get("modelCalls")),
            count(stats.get("sessionPromptTokens")),
            count(stats.get("sessionCompletionTokens")),
            count(stats.get("sessionCachedTokens")),
            count(stats.get("lastTurnPromptTokens")),
            count(stats.get("lastTurnCachedTokens")),
            (
                input_price,
                number(stats.get("outputPricePerMillion")) or 0.0,
                input_price if cached is None else cached,
            ),
        )

    def since(self, before: Spent) -> Usage:
        """The difference as the usage of one answer. `input` is that of the last request, which is
        the length of the conversation; the rest is `beyond`.
        """
        read = max(0, self.input - before.input)
        written = max(0, self.output - before.output)
        cached = min(read, max(0, self.cached - before.cached))
        shown = min(read, self.last_input)
        input_price, output, cached_price = self.prices
        cost = (
            input_price * (read - cached) + cached_price * cached + output * written
        ) / 1_000_000
        return Usage(
            input=shown,
            output=written,
            cached=min(shown, self.last_cached),
            cost=cost if any(self.prices) else None,
            beyond=read - shown,
        )
