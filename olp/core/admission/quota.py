"""Quota readings of each plan, and the thresholds at which a plan is skipped.

Readings cost nothing: notices that the CLIs print with their answers, their usage queries, and
OLP's own daily count. A reading has a source and an age and expires when its window resets: a
missing or stale value never fires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from olp.config import Thresholds
from olp.core.days import midnight_after
from olp.core.words import counted
from olp.events import ErrorCode, Failed, Window

UNTOLD_RESET_S = 3600.0
"""Seconds after which a reading without a reset time is stale."""

FIVE_HOURS = "five_hour"
CREDITS = "credits"


@dataclass(frozen=True, slots=True)
class Reading:
    """One value. `used` is a percentage, `at` and `resets_at` are epoch seconds."""

    window: Window
    at: float
    source: str

    def fresh(self, wall: float) -> bool:
        """Whether it is still valid at `wall` (epoch seconds)."""
        if self.window.resets_at is not None:
            return wall < self.window.resets_at
        return wall - self.at < UNTOLD_RESET_S


@dataclass(slots=True)
class _Day:
    day: str = ""
    requests: int = 0


class QuotaBook:
    """Quota by provider. `wall` is in epoch seconds, `day` the local date as YYYY-MM-DD."""

    def __init__(self) -> None:
        self._readings: dict[str, dict[tuple[str, str | None], Reading]] = {}
        self._days: dict[str, _Day] = {}

    def note(self, provider: str, windows: Iterable[Window], wall: float, source: str) -> None:
        """Store new readings; other windows keep theirs."""
        known = self._readings.setdefault(provider, {})
        for window in windows:
            known[window.name, window.model] = Reading(window, wall, source)

    def forget(self, provider: str) -> None:
        """Drop the readings; the daily count stays, since it is OLP's own."""
        self._readings.pop(provider, None)

    def count(self, provider: str, day: str, requests: int = 1) -> None:
        """Add `requests` to the count of `day`; a new day starts at 0."""
        today = self._days.setdefault(provider, _Day())
        if today.day != day:
            today.day, today.requests = day, 0
        today.requests += requests

    def requests(self, provider: str, day: str) -> int:
        """How many were made on `day`."""
        today = self._days.get(provider)
        return today.requests if today and today.day == day else 0

    def readings(self, provider: str) -> Iterable[Reading]:
        """All readings, stale ones included."""
        return tuple(self._readings.get(provider, {}).values())

    def fired(self, provider: str, limits: Thresholds, wall: float, day: str) -> Failed | None:
        """SOFT_TRIGGER for the first threshold that is reached, or None."""
        for name, threshold in (
            (FIVE_HOURS, limits.five_hour_window_percent_threshold),
            (CREDITS, limits.credit_pool_percent_threshold),
        ):
            reading = self._readings.get(provider, {}).get((name, None))
            if threshold is None or reading is None or not reading.fresh(wall):
                continue
            if reading.window.used >= threshold:
                said = f"{name} window at {reading.window.used:.0f} %, threshold {threshold:g} %"
                return Failed(ErrorCode.SOFT_TRIGGER, said, resets_at=reading.window.resets_at)
        limit = limits.daily_request_count_threshold
        made = self.requests(provider, day)
        if limit is not None and made >= limit:
            said = f"{counted(made, 'request')} today, threshold {limit}"
            return Failed(ErrorCode.SOFT_TRIGGER, said, resets_at=midnight_after(wall))
        return None


SOURCES: Mapping[str, str] = {
    "five_hour_window_percent_threshold": FIVE_HOURS,
    "credit_pool_percent_threshold": CREDITS,
}
"""The window of each threshold; the daily count needs none."""


def without_source(limits: Thresholds, windows: Iterable[str]) -> tuple[str, ...]:
    """The thresholds that are set but can never fire: the provider reports no such window."""
    known = set(windows)
    return tuple(
        name
        for name, window in SOURCES.items()
        if getattr(limits, name) is not None and window not in known
    )


def watches_windows(limits: Thresholds) -> bool:
    """Whether any threshold depends on a window of the plan."""
    return any(getattr(limits, name) is not None for name in SOURCES)
