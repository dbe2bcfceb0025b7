"""A user's API key: format, validity and permissions.

Only the SHA-256 of a token is stored. A slow, salted hash is not needed, since a token is 32 random
bytes. Every request is compared with all hashes in constant time, against timing attacks.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from olp.core.days import day_of
from olp.errors import OLPError, RequestError

PREFIX = "olp_"
TOKEN = re.compile(r"olp_[A-Za-z0-9_-]{43}")
"""A token: a prefix for secret scanners, and 32 bytes in base64url."""

NAME = re.compile(r"\w[\w .@+-]{0,62}[\w.@+-]|\w")
MAX_PROMPT = 100_000
"""Maximum characters of a key's system prompt, which is sent with each of its requests."""

Limit = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class Hours:
    """Daily hours, in minutes from midnight (local time); they may span midnight."""

    start: int
    end: int

    def open_at(self, local: datetime) -> bool:
        """Whether `local` is within the hours; the end is exclusive."""
        now = local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    def opens_next(self, local: datetime) -> datetime:
        """The next start after `local`."""
        begin = datetime.combine(local.date(), time(self.start // 60 % 24, self.start % 60))
        return begin if begin > local else begin + timedelta(days=1)


_HOURS = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")


def hours(text: str) -> Hours:
    """Parse `07:00-21:00` or, over midnight, `22:00-06:00`. Raises ValueError."""
    found = _HOURS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not of the form 07:00-21:00")
    first, last = ((int(found[n]), int(found[n + 1])) for n in (1, 3))
    for hour, minute in (first, last):
        if minute > 59 or hour > 24 or (hour == 24 and minute):
            raise ValueError(f"there is no {hour:02}:{minute:02} on a clock")
    start, end = (hour * 60 + minute for hour, minute in (first, last))
    if start % 1440 == end % 1440:
        raise ValueError(f"{text!r} begins when it ends; leave it out for the whole day")
    return Hours(start % 1440, end)


# An unknown field may be a restriction written by a later version, so a file with one is refused.
class Key(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user's key."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    """Stays the same if the name or token changes; usage and shared answers are scoped by it."""

    name: str
    """Unique among keys that are not revoked, case-insensitively."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of the token, hex."""

    created_at: float
    """Epoch seconds."""

    owner: bool = False
    """Whether the user is an owner."""

    chains: tuple[str, ...] = ()
    """The permitted chains and models; all if empty."""

    daily_requests: Limit | None = None
    """Maximum requests per local day."""

    daily_tokens: Limit | None = None
    """Maximum tokens per local day."""

    concurrent: Limit | None = None
    """Maximum requests in flight."""

    system_prompt: Annotated[str, Meta(max_length=MAX_PROMPT)] = ""
    """Prepended to each request."""

    hours: str | None = None
    """Permitted hours of the day as `07:00-21:00`."""

    expires_at: float | None = None
    """Epoch seconds."""

    revoked_at: float | None = None
    """Epoch seconds."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.hours is not None:
            hours(self.hours)

    @property
    def revoked(self) -> bool:
        """Whether it is revoked, at any time: the clock may have been set back."""
        return self.revoked_at is not None

    def may_ask(self, model: str) -> bool:
        """Whether the key permits `model` (a chain or a model)."""
        return not self.chains or model in self.chains

    def state(self, wall: float) -> str:
        """`revoked`, `expired` or `active`."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires_at is not None and wall >= self.expires_at else "active"


def check_name(name: str) -> None:
    """Raises ValueError if `name` is not a valid key name."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a name: letters, digits, spaces and . @ + - _, at most 64, "
            "and a letter or digit first"
        )


def digest_of(token: str) -> str:
    """The stored hash of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def find(keys: Iterable[Key], token: str) -> Key | None:
    """The key of `token`, revoked or not. Always compares all keys, for constant time."""
    presented = digest_of(token)
    found = None
    for key in keys:
        if hmac.compare_digest(key.digest, presented):
            found = key
    return found


def check_standing(key: Key, wall: float) -> None:
    """Raises RequestError 401 if `key` is revoked or expired."""
    if key.revoked_at is not None:
        raise RequestError(
            f"This key was revoked on {day_of(key.revoked_at)}. Ask the owner for a new one.",
            status=401,
            code="key_revoked",
        )
    if key.expires_at is not None and wall >= key.expires_at:
        raise RequestError(
            f"This key expired on {_minute(key.expires_at)}; by the server's clock it is "
            f"{_minute(wall)}. Ask the owner for a new one.",
            status=401,
            code="key_expired",
        )


def _minute(epoch: float) -> str:
    return datetime.fromtimestamp(epoch).strftime("%Y-%m-%d %H:%M")


_SPAN = re.compile(r"(\d{1,5})\s*([hdw])")
_SPANS = {"h": 3600, "d": 86_400, "w": 604_800}


def expiry(text: str, wall: float) -> float:
    """Parse `30d`, `12h`, `2w`, `2027-01-31` (the end of that day, local time) or
    `2027-01-31T18:00` to epoch seconds. Raises ValueError if invalid or in the past."""
    if span := _SPAN.fullmatch(text.strip()):
        at = wall + int(span[1]) * _SPANS[span[2]]
    else:
        try:
            moment = datetime.fromisoformat(text.strip())
            whole_day = len(text.strip()) == len("2027-01-31")
            at = (moment + timedelta(days=1) if whole_day else moment).timestamp()
        except (ValueError, OverflowError, OSError):
            raise ValueError(
                f"{text!r} is no time; write 30d, 12h, 2w, 2027-01-31 or 2027-01-31T18:00"
            ) from None
    if at <= wall:
        raise ValueError(f"{text!r} is over already, so the key would never work")
    return at


def named(keys: Sequence[Key], name: str) -> Key:
    """The key named `name` that is not revoked. Raises OLPError if there is none."""
    same = [key for key in keys if key.name.casefold() == name.casefold()]
    for key in same:
        if not key.revoked:
            return key
    if same:
        raise OLPError(f"the key of {name!r} is revoked; `olp keys add` makes a new one")
    known = ", ".join(key.name for key in keys if not key.revoked)
    raise OLPError(f"there is no key of {name!r}" + (f"; there are: {known}" if known else ""))
