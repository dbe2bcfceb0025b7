"""Cuts an answer at a stop string, even one split between pieces.

No CLI supports stop strings. Text that may be the start of one is held back until that is decided.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopCutter:
    """Streaming matcher. After `hit` the answer is over; it excludes the stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.hit = False

    def feed(self, piece: str) -> str:
        """Take the next piece; returns the text that can be sent now."""
        if not self._stops:
            return piece
        if self.hit:
            return ""
        text = self._held + piece
        # The one that ends first wins, so that the result does not depend on the piece boundaries.
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.hit, self._held = True, ""
            return text[: min(found)[1]]
        keep = self._could_begin(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """The held text, at the end of the answer."""
        held, self._held = self._held, ""
        return held

    def _could_begin(self, text: str) -> int:
        """Length of the longest suffix of `text` that is a prefix of a stop string."""
        longest = max(map(len, self._stops)) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0
