"""Tells an error text from an answer, and reads when a limit resets.

Structured signals come first; this is for what a CLI only says in words. Each provider brings its
own table of patterns, in the order in which they are tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from olp.events import Trouble

Patterns = Sequence[tuple[str, Trouble]]

LOOKED_AT = 4000
"""Characters of a text that are searched: a notice is short, and a line of many MB would hold up
everything else for seconds."""


def classify(text: str, patterns: Patterns) -> Trouble | None:
    """The first pattern's trouble that is found in `text`, whatever its case and quotes."""
    plain = (
        text[:LOOKED_AT]
        .replace("\u2019", "'")
        .replace("\u2219", "\u00b7")
        .replace("\u2022", "\u00b7")
    )
    for pattern, trouble in patterns:
        if re.search(pattern, plain, re.IGNORECASE):
            return trouble
    return None


_TRANSPORT = re.compile(
    r"\b(?:Read|Write|Connect|Close|Pool|Protocol|RemoteProtocol|LocalProtocol|Network|Transport"
    r"|Proxy|SSL|Connection|ConnectionReset|BrokenPipe|Timeout|OS)(?:Error|Timeout)\b"
    r"|server disconnected without sending a response|the read operation timed out"
    r"|without having called read\(\)|network error|peer closed connection"
    r"|incomplete (?:chunked )?read|connection (?:reset|refused|aborted|closed|attempts failed)"
    r"|socket hang up|fetch failed|name or service not known|temporary failure in name resolution"
    r"|nodename nor servname|no route to host|network is unreachable|timed out|handshake"
    r"|\[SSL|certificate verify failed|errno -?\d+|\bE(?:CONN[A-Z]+|PIPE|TIMEDOUT|NOTFOUND"
    r"|HOSTUNREACH|NETUNREACH|AI_AGAIN)\b|malformed json|json parse error|unexpected eof",
    re.IGNORECASE,
)

_BLOCKED = re.compile(
    r"<!doctype html|<html\b|<title>|just a moment\.\.\.|attention required|cf-ray|cloudflare"
    r"|unsupported[_ ]country|country,? region,? or territory"
    r"|not available in your (?:country|region)",
    re.IGNORECASE,
)


def is_transport_fault(text: str) -> bool:
    """Whether `text` is what an HTTP, TLS or socket library, or the system, raises when the vendor
    cannot be reached or its bytes cannot be read: the provider's fault (SPAWN_FAILED)."""
    return _TRANSPORT.search(text[:LOOKED_AT]) is not None


def is_blocked(text: str) -> bool:
    """Whether `text` is an HTML page of a proxy in front of the vendor, or a block by country or
    network. With a 403 that is a vendor that cannot be reached (SPAWN_FAILED), and no login."""
    return _BLOCKED.search(text[:LOOKED_AT]) is not None


def http_status(text: str) -> int | None:
    """The HTTP status that an error text names (`status 503`, `API Error: 529`), if any."""
    status = r"(?:status:?|API Error:|error code:?)\s*\(?([1-5]\d\d)\b"
    found = re.search(status, text[:LOOKED_AT], re.IGNORECASE)
    return int(found[1]) if found else None


def plain(text: str) -> str:
    """The sentence inside an error text that quotes the vendor's JSON body; else the text."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        body = json.loads(text[start:])
    except (ValueError, RecursionError):
        return text
    inner = body.get("error") if isinstance(body.get("error"), dict) else body
    said = inner.get("message") or inner.get("detail")
    return said if isinstance(said, str) and said else text


def by_status(status: int | None) -> Trouble | None:
    """What an upstream HTTP status means where nothing better is known."""
    match status:
        case 401 | 403:
            return Trouble.AUTH_MISSING
        case 402:
            return Trouble.QUOTA_EXHAUSTED
        case 404:
            return Trouble.MODEL_NOT_FOUND
        case 413:
            return Trouble.CONTEXT_TOO_LONG
        case 400 | 422:
            return Trouble.BAD_REQUEST
        case 429:
            return Trouble.RATE_LIMITED
        case int() if status >= 500:
            return Trouble.OVERLOADED
        case _:
            return None


_EPOCH = re.compile(r"\|(\d{10})\b")
_SPAN = re.compile(
    r"\bin (?:(\d{1,4}) days?)?[ ,]*(?:(\d{1,6}) hours?)?[ ,]*(?:(\d{1,8}) minutes?)?"
    r"[ ,]*(?:(\d{1,9}) seconds?)?"
)
_CLOCK = re.compile(
    r"(?:resets?|again|until)(?: at| on)?\s+"
    r"(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})"
    r"(?:st|nd|rd|th)?,?\s+(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>am|pm)"
    r"(?:\s*\((?P<zone>[A-Za-z_]+(?:/[A-Za-z_]+)*)\))?",
    re.IGNORECASE,
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def reset_time(text: str, now: datetime) -> float | None:
    """When a limit resets, in epoch seconds, as far as `text` says it. `now` is an aware local
    time: a time of day is the next one after it, in the zone named or else in the zone of `now`."""
    text = text[:LOOKED_AT]
    if epoch := _EPOCH.search(text):
        return float(epoch[1])
    for span in _SPAN.finditer(text):
        if any(span.groups()):
            days, hours, minutes, seconds = (int(part or 0) for part in span.groups())
            wait = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
            return (now + wait).timestamp()
    if clock := _CLOCK.search(text):
        return _clock_time(clock, now)
    return None


def _clock_time(clock: re.Match[str], now: datetime) -> float | None:
    try:
        here = now.astimezone(ZoneInfo(clock["zone"])) if clock["zone"] else now
        hour = int(clock["hour"]) % 12 + (12 if clock["half"].lower() == "pm" else 0)
        at = here.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
        if clock["month"]:
            month = _MONTHS.index(clock["month"].lower()) + 1
            at = at.replace(
                year=int(clock["year"] or here.year), month=month, day=int(clock["day"])
            )
            if at <= here and not clock["year"]:
                at = at.replace(year=at.year + 1)
            return at.timestamp()
    except (ValueError, KeyError, OSError):
        return None
    step = timedelta(days=1)
    while at <= here or (clock["weekday"] and _WEEKDAYS[at.weekday()] != clock["weekday"].lower()):
        at += step
    return at.timestamp()
