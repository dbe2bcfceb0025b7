"""What a conversation with Vibe costs: its own counts, of which one answer is a difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olp.events import Usage
from olp.providers.shared.wire import count, number


@dataclass(frozen=True, slots=True)
class Spent:
    """What a session has cost so far, and its last request to the vendor in it."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    last_input: int = 0
    last_cached: int = 0
    prices: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @classmethod
    def told(cls, stats: Mapping[str, Any]) -> Spent:
        """As the CLI tells it: dollars for a million tokens of input, output and cached input."""
        dear = number(stats.get("inputPricePerMillion")) or 0.0
        cached = number(stats.get("cachedInputPricePerMillion"))
        return cls(
            count(stats.get("modelCalls")),
            count(stats.get("sessionPromptTokens")),
            count(stats.get("sessionCompletionTokens")),
            count(stats.get("sessionCachedTokens")),
            count(stats.get("lastTurnPromptTokens")),
            count(stats.get("lastTurnCachedTokens")),
            (
                dear,
                number(stats.get("outputPricePerMillion")) or 0.0,
                dear if cached is None else cached,
            ),
        )

    def since(self, before: Spent) -> Usage:
        """The difference. What the client is told of is the last request, which is as long as the
        conversation is."""
        read = max(0, self.input - before.input)
        written = max(0, self.output - before.output)
        cached = min(read, max(0, self.cached - before.cached))
        shown = min(read, self.last_input)
        dear, output, cheap = self.prices
        cost = (dear * (read - cached) + cheap * cached + output * written) / 1_000_000
        return Usage(
            input=shown,
            output=written,
            cached=min(shown, self.last_cached),
            cost=cost if any(self.prices) else None,
            beyond=read - shown,
        )
