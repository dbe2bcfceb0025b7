"""LRU cache of answers: off by default, since "regenerate" must regenerate.

Only complete answers are cached, per caller, keyed by every part of the request that affects the
answer. Bounded by count and size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from olp.config import CacheConfig
from olp.events import Done, Event, Failed, Finish, Reasoning, Text

EVENT_BYTES = 64
"""Estimated bytes of an event, without its text."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A cached answer: its model, its events up to the Done, its size in bytes, and its expiry in
    monotonic seconds."""

    model: str
    events: tuple[Event, ...]
    size: int
    until: float


class Cache:
    """The cache. `now` is in monotonic seconds."""

    def __init__(self, config: CacheConfig) -> None:
        self._config = config
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def on(self) -> bool:
        """Whether caching is enabled."""
        return self._config.ttl_s > 0

    def find(self, key: str, now: float) -> Kept | None:
        """The answer cached under `key`, unless expired."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now >= kept.until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept

    def keep(self, key: str, model: str, events: Sequence[Event], now: float) -> bool:
        """Cache an answer if it is complete; True if it was cached."""
        if not self.on or not _complete(events):
            return False
        size = sum(_size(event) for event in events)
        if size > self._config.max_bytes:
            return False
        self._drop(key)
        self._kept[key] = Kept(model, tuple(events), size, now + self._config.ttl_s)
        self.size += size
        self._fit()
        return True

    def adopt(self, config: CacheConfig) -> None:
        """Switch to another configuration. Cached answers keep at most their old expiry."""
        self._config = config
        if not self.on:
            self.clear()
        self._fit()

    def clear(self) -> None:
        """Drop all answers."""
        self._kept.clear()
        self.size = 0

    def _fit(self) -> None:
        while len(self._kept) > self._config.max_entries or self.size > self._config.max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.size -= kept.size


def _complete(events: Sequence[Event]) -> bool:
    end = events[-1] if events else None
    if not isinstance(end, Done) or end.truncated or end.empty or end.finish is not Finish.STOP:
        return False
    return not any(isinstance(event, Failed) for event in events)


def _size(event: Event) -> int:
    text = event.text if isinstance(event, Text | Reasoning) else ""
    return EVENT_BYTES + len(text.encode("utf-8", "replace"))
