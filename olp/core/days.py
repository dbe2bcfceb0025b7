"""Local dates, and durations as text."""

from __future__ import annotations

import math
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache


class _Local(tzinfo):
    """The system's time zone, with its DST changes."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return "local"

    def fromutc(self, dt: datetime) -> datetime:
        return dt.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


LOCAL = _Local()
"""For date arithmetic: `datetime.astimezone()` has a fixed offset, and so its results are an hour
off across a DST change."""


def day_of(at: float) -> str:
    """The local date of `at` (epoch seconds) as YYYY-MM-DD."""
    return _day_of(int(at))


@lru_cache(maxsize=8)
def _day_of(second: int) -> str:
    return datetime.fromtimestamp(second).date().isoformat()


def midnight_after(at: float) -> float:
    """The end of the local day of `at`; both in epoch seconds."""
    day = datetime.fromtimestamp(at).date() + timedelta(days=1)
    return datetime.combine(day, time()).timestamp()


def lasting(seconds: float) -> str:
    """A duration, rounded up, for users: `45 s`, `26 min`, `3 h 05 min`."""
    whole = math.ceil(seconds)
    if whole <= 90:
        return f"{max(whole, 1)} s"
    minutes = math.ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    hours = math.ceil(seconds / 3600)
    return f"{hours // 24} days {hours % 24} h"
