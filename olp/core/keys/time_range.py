"""Parses time ranges: `7d`, `today`, `2026-11-01`, `2026-11-01T18:00`, `12h`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

_AGO = re.compile(r"(\d{1,5})\s*([mhdw])")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `since` (inclusive) to `until` (exclusive), local time; None is unbounded."""

    since: datetime | None = None
    until: datetime | None = None


def time_range(since: str | None, until: str | None, now: datetime) -> TimeRange:
    """Parse a time range in whole days: `7d` is today and the six days before, and a date as
    `until` is inclusive. Raises ValueError."""
    begin = _sane(since, _moment(since, now)) if since else None
    end = _sane(until, _moment(until, now)) if until else None
    found = TimeRange(
        begin[0] if begin else None,
        None if end is None else end[0] + _DAY if end[1] else end[0],
    )
    if found.since and found.until and found.since >= found.until:
        raise ValueError(f"{since!r} is not before {until!r}")
    return found


def _sane(text: str, found: tuple[datetime, bool] | None) -> tuple[datetime, bool] | None:
    """Return `found`. Raises ValueError unless the year is in 1971-2999."""
    if found is not None and not 1970 < found[0].year < 3000:
        raise ValueError(f"{text!r} is no time that a request was made at")
    return found


def _moment(text: str, now: datetime) -> tuple[datetime, bool] | None:
    """Parse a time, and whether it means a whole day; None for `all`."""
    text = text.strip().lower()
    midnight = datetime.combine(now.date(), datetime.min.time())
    if text == "all":
        return None
    if text in ("today", "yesterday"):
        return midnight - _DAY * (text == "yesterday"), True
    try:
        if ago := _AGO.fullmatch(text):
            return _ago(int(ago[1]), ago[2], now, midnight)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.combine(date.fromisoformat(text), datetime.min.time()), True
        found = datetime.fromisoformat(text)
        return found.astimezone().replace(tzinfo=None) if found.tzinfo else found, False
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no time; write 7d, 12h, today, 2026-11-01 or 2026-11-01T18:00"
        ) from None


def _ago(count: int, unit: str, now: datetime, midnight: datetime) -> tuple[datetime, bool]:
    if unit in "mh":
        return now - timedelta(minutes=count * (60 if unit == "h" else 1)), False
    days = count * (7 if unit == "w" else 1)
    return midnight - timedelta(days=max(days - 1, 0)), True
