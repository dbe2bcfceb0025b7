"""Kept answers: off by default, since "regenerate" must regenerate.

Only a complete answer is kept, for the caller that asked, under a key made of everything that
shapes it. The least recently used go first when there are too many or they are too large.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from olp.config import CacheConfig
from olp.events import Done, Event, Failed, Finish, Reasoning, Text

EVENT_BYTES = 64
"""Bytes that an event is reckoned at beside its text."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One answer: the model that gave it, and its events up to the Done."""

    model: str
    events: tuple[Event, ...]
    size: int
    until: float


class Cache:
    """`now` is in seconds of one steady clock."""

    def __init__(self, config: CacheConfig) -> None:
        self._config = config
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def on(self) -> bool:
        """Whether anything is kept at all."""
        return self._config.ttl_s > 0

    def find(self, key: str, now: float) -> Kept | None:
        """The answer kept under `key`, if it is not too old."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now >= kept.until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept

    def keep(self, key: str, model: str, events: Sequence[Event], now: float) -> bool:
        """Keep an answer if it is complete; whether it was kept."""
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
        """Go by other bounds from now on. What is kept stays for no longer than it was to."""
        self._config = config
        if not self.on:
            self.clear()
        self._fit()

    def clear(self) -> None:
        """Keep nothing of what there is."""
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
