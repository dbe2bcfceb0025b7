"""Parse the reset time of a limit from text.

Vendors write it in every form: a duration, a time of day, a date with or without a year, in their
time zone, the user's or none. Results are clamped to plausible times: one just past means now, and
none is further away than the longest window of any vendor.
"""

from __future__ import annotations

import contextlib
import re
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

LONGEST_S = 31 * 86400.0
"""Seconds. Plans have windows of five hours and a week, extra credits of a month."""

JUST_PAST = timedelta(hours=1)
"""A time of day this recently past is not tomorrow's: clocks differ, and the notice may have been
written earlier.
"""

LOOKED_AT = 4000
"""Characters of a text that are searched: a notice is short, and searching a line of many MB would
block the event loop for seconds.
"""

_DAY = timedelta(days=1)


def reset_time(text: str, now: datetime) -> float | None:
    """The reset time in `text` in epoch seconds, or None; clamped to `now` and `now` + LONGEST_S.
    `now` is an aware local time, whose zone is used for times without one.
    """
    text = text[:LOOKED_AT]
    try:
        at = _epoch(text) or _iso(text, now) or _span(text, now) or _clock(text, now)
    except (ValueError, LookupError, OSError, OverflowError):
        return None  # no such date, or no such time zone
    start = now.timestamp()
    return None if at is None else min(max(at, start), start + LONGEST_S)


# --- numbers -------------------------------------------------------------------------------------

_EPOCH = re.compile(r"(?:\||\bresets?_?at\W{1,4})(\d{10})\b(?!\.?\d{2,})", re.IGNORECASE)


def _epoch(text: str) -> float | None:
    found = _EPOCH.search(text)
    return float(found[1]) if found else None


_BEGINS = re.compile(
    r"\b(?:in|(?:try|retry|again|wait|resets?|available|back)(?:[ _-]+(?:again|after|in|for|least"
    r"|at|seconds))*)(?:\s+(?:about|approximately|around|another))?[\s:=\"']+",
    re.IGNORECASE,
)
_UNITS = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_PART = re.compile(
    r"(?P<many>\d{1,9}(?:\.\d{1,9})?|an?\b)\s*(?P<unit>milliseconds?|ms|seconds?|secs?|s|minutes?"
    r"|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)(?![a-z])[\s,]*(?:and\s+)?",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\b(?:retry[ _-]after|resets?_in|reset_after)(?:[ _-]seconds)?\W{1,4}"
    r"(\d{1,9}(?:\.\d{1,9})?)\b",
    re.IGNORECASE,
)


def _span(text: str, now: datetime) -> float | None:
    for begins in _BEGINS.finditer(text):
        seconds, at = 0.0, begins.end()
        while part := _PART.match(text, at):
            many = 1.0 if part["many"].lower().startswith("a") else float(part["many"])
            unit = part["unit"].lower()
            seconds += many * _UNITS["ms" if unit.startswith(("ms", "mil")) else unit[0]]
            at = part.end()
        if at > begins.end():
            return now.timestamp() + seconds
    bare = _AFTER.search(text)
    return now.timestamp() + float(bare[1]) if bare else None


# --- dates and clocks ----------------------------------------------------------------------------

_WHEN = (
    r"\b(?:resets?|again|until|available|back|renews?)(?:_?at|_on)?\W{0,3}\s*"
    r"(?:(?:at|on|by|after)\s+)?"
)
_ZONE = (
    r"(?:\s*\((?P<zone>[A-Z][A-Z0-9_/+:-]*)\)"
    r"|\s*(?P<bare>(?:UTC|GMT)?[+-]\d{1,2}(?::?\d\d)?|[A-Z]+(?:/[A-Z0-9_+-]+)+|[A-Z]{1,5})(?!\w))?"
)
_ISO = re.compile(
    _WHEN + r"[\"']?(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::\d\d(?:\.\d+)?)?)?" + _ZONE,
    re.IGNORECASE,
)
_MONTH = r"(?P<{0}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_CLOCK = re.compile(
    _WHEN + r"(?P<early>tomorrow,?\s+(?:at\s+)?)?"
    r"(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:s|rs|[a-z]{0,6}day)?\b,?\s*)?"
    r"(?:(?:" + _MONTH.format("month") + r"\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
    r"|(?P<day_first>\d{1,2})(?:st|nd|rd|th)?\s+" + _MONTH.format("month_second") + r")"
    r"(?:,?\s+(?P<year>\d{4})\b(?!:))?,?\s*)?(?:at\s+)?"
    r"(?:(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s*(?P<half>[ap]\.?m\b\.?)"
    r"|(?P<hour_24>\d{1,2}):(?P<minute_24>\d\d)(?::\d\d)?|(?P<word>noon|midnight))?"
    r"(?P<late>\s+tomorrow)?" + _ZONE,
    re.IGNORECASE,
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def _iso(text: str, now: datetime) -> float | None:
    found = _ISO.search(text)
    if found is None:
        return None
    zone = _now_in_zone(found, now).tzinfo
    year, month, day = (int(found[part]) for part in ("year", "month", "day"))
    hour, minute = (int(found[part] or 0) for part in ("hour", "minute"))
    return datetime(year, month, day, hour, minute, tzinfo=zone).timestamp()


def _clock(text: str, now: datetime) -> float | None:
    found: re.Match[str] | None = None
    # The keyword before a time may be followed by another one: `available again at …`.
    while found := _CLOCK.search(text, found.start() + 1 if found else 0):
        hour, minute = _time_of(found)
        day, month = found["day"] or found["day_first"], found["month"] or found["month_second"]
        if not (day or found["weekday"] or hour is not None):
            continue
        here = _now_in_zone(found, now)
        at = here.replace(hour=hour or 0, minute=minute, second=0, microsecond=0)
        if day:
            return _dated(at, int(day), _MONTHS.index(month[:3].lower()) + 1, found["year"])
        if found["early"] or found["late"]:
            return (at + _DAY).timestamp()
        return _next_occurrence(at, here, (found["weekday"] or "").lower())
    return None


def _time_of(found: re.Match[str]) -> tuple[int | None, int]:
    """Hour and minute of the day. The hour is None if there is none, and invalid if it is not on a
    clock.
    """
    if found["half"]:
        hour, afternoon = int(found["hour"]), found["half"].lower().startswith("p")
        return (hour % 12 + 12 * afternoon if hour <= 12 else 99), int(found["minute"] or 0)
    if found["hour_24"]:
        return int(found["hour_24"]), int(found["minute_24"])
    return {"noon": 12, "midnight": 0}.get((found["word"] or "").lower()), 0


def _dated(at: datetime, day: int, month: int, year: str | None) -> float:
    """The date; without a year, the nearest one, past or future."""
    if year:
        return at.replace(year=int(year), month=month, day=day).timestamp()
    days = []
    for near in (at.year - 1, at.year, at.year + 1):
        with contextlib.suppress(ValueError):  # the 29th of February
            days.append(at.replace(year=near, month=month, day=day).timestamp())
    return min(days, key=lambda one: abs(one - at.timestamp()))


def _next_occurrence(at: datetime, here: datetime, weekday: str) -> float:
    """The next time `at` on the given weekday, if any. Days are counted on the calendar, since not
    every day has 24 hours.
    """
    earliest = here.timestamp() - JUST_PAST.total_seconds()
    at -= _DAY
    while at.timestamp() <= earliest or (weekday and _WEEKDAYS[at.weekday()] != weekday):
        at += _DAY
    return at.timestamp()


# --- zones ---------------------------------------------------------------------------------------

_ABBREVIATIONS = {
    **{"UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "CET": 1, "WEST": 1, "CEST": 2, "EET": 2, "EEST": 3},
    **{"MSK": 3, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13},
    **{"EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"AKST": -9, "AKDT": -8, "HST": -10},
}
"""Hours east of Greenwich. CST, IST and BST are left out: each names several zones."""

_REGIONS = {"PT": "America/Los_Angeles", "ET": "America/New_York", "CT": "America/Chicago"}
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)


def _now_in_zone(found: re.Match[str], now: datetime) -> datetime:
    """`now` in the zone that the match names, else unchanged. Raises LookupError or ValueError for
    an unknown or ambiguous zone.
    """
    if found["zone"]:
        return now.astimezone(_zone(found["zone"]))
    bare = found["bare"]
    if not bare:
        return now
    try:
        return now.astimezone(_zone(bare))
    except (LookupError, ValueError):
        if re.fullmatch(r"[A-Z]{2,4}T|.*/.*|.*\d", bare):
            raise
        return now  # a word of the sentence, not a zone


def _zone(name: str) -> tzinfo:
    known = name.upper()
    if offset := _OFFSET.fullmatch(name):
        away = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-away if offset[1] == "-" else away)
    if known in _ABBREVIATIONS:
        return timezone(timedelta(hours=_ABBREVIATIONS[known]))
    return ZoneInfo(_REGIONS.get(known, name))
