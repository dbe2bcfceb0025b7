"""Daily usage per key, and the check of its limits.

Check and count are one synchronous step, so concurrent requests cannot all take the last free slot.
A request counts from its admission, whatever its outcome. Tokens are counted at the end of an
answer; until then an estimate is reserved, so that concurrent requests cannot all start on the last
tokens. An answer that exceeds its estimate is still sent whole; the next request is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from types import TracebackType

from olp.core.keys.key import Key, hours
from olp.errors import RequestError

BUSY_RETRY_S = 2
"""Retry-After seconds while the key's own requests in flight are the limit."""

KEPT_DAYS = 4
"""Days kept in memory; more than one, since the clock may be set back over midnight."""


@dataclass(slots=True)
class DayUsage:
    """Usage of a key on a day. `background`: how many of `requests` were background jobs."""

    requests: int = 0
    tokens: int = 0
    background: int = 0


class KeyUsage:
    """Usage by day (local date as YYYY-MM-DD) and key id."""

    def __init__(self) -> None:
        self._days: dict[str, dict[str, DayUsage]] = {}
        self._in_flight: dict[str, int] = {}
        self._reserved: dict[str, int] = {}

    def knows(self, day: str) -> bool:
        """Whether `day` is loaded."""
        return day in self._days

    def begin(self, day: str, counts: Mapping[str, DayUsage]) -> None:
        """Load the counts of `day`."""
        self._days[day] = dict(counts)
        while len(self._days) > KEPT_DAYS:
            del self._days[next(iter(self._days))]

    def count(self, day: str, person: str) -> DayUsage:
        """What `person` has used on `day`."""
        return self._days.get(day, {}).get(person) or DayUsage()

    def in_air(self, person: str) -> int:
        """How many requests of `person` are in flight."""
        return self._in_flight.get(person, 0)

    def aside(self, person: str) -> int:
        """How many tokens are reserved for answers of `person` in flight."""
        return self._reserved.get(person, 0)

    def enter(
        self, person: str, key: Key | None, local: datetime, *, background: bool, tokens: int = 0
    ) -> Reservation:
        """Admit a request with an estimated cost in tokens. Raises RequestError 429 or 403 over a
        limit of `key`."""
        day = local.date().isoformat()
        today = self._days.setdefault(day, {}).setdefault(person, DayUsage())
        if key is not None:
            _check(key, today, self.in_air(person), self.aside(person), local)
        today.requests += 1
        today.background += background
        self._in_flight[person] = self.in_air(person) + 1
        self._reserved[person] = self.aside(person) + tokens
        return Reservation(self, person, tokens)

    def spend(self, day: str, person: str, tokens: int) -> None:
        """Add the tokens of an answer."""
        self._days.setdefault(day, {}).setdefault(person, DayUsage()).tokens += tokens

    def leave(self, person: str) -> None:
        """A request has ended."""
        left = self._in_flight.pop(person) - 1
        if left:
            self._in_flight[person] = left

    def settle(self, person: str, tokens: int) -> None:
        """Release reserved tokens."""
        left = self._reserved.pop(person) - tokens
        if left:
            self._reserved[person] = left


class Reservation:
    """An admitted request, ended by leaving the `with` block. That also releases its reserved
    tokens, unless they were handed over to an answer, which releases them at its end."""

    def __init__(self, usage: KeyUsage, person: str, tokens: int) -> None:
        self._usage = usage
        self._person = person
        self._tokens = tokens
        self._handed_over = False

    def __enter__(self) -> Reservation:
        return self

    def hand_over(self) -> None:
        """Hand the reservation over to an answer, which may outlive the request."""
        self._handed_over = True

    def settle(self) -> None:
        """Release the reserved tokens. Idempotent."""
        tokens, self._tokens = self._tokens, 0
        if tokens:
            self._usage.settle(self._person, tokens)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._usage.leave(self._person)
        if not self._handed_over:
            self.settle()


def _check(key: Key, today: DayUsage, in_flight: int, reserved: int, local: datetime) -> None:
    if key.hours is not None and not (span := hours(key.hours)).open_at(local):
        opens = span.opens_next(local)
        raise RequestError(
            f"This key may be used from {key.hours.replace('-', ' to ')} (the server's local "
            f"time); it is {local:%H:%M} now. It opens again in {_span(opens, local)}.",
            status=403,
            code="outside_hours",
            headers=_final(_seconds(opens, local)),
        )
    midnight = datetime.combine(local.date() + timedelta(days=1), time())
    for used, limit, what in (
        (today.requests, key.daily_requests, "requests"),
        (today.tokens, key.daily_tokens, "tokens"),
    ):
        if limit is not None and used >= limit:
            raise _over(
                f"This key's {limit:,} {what} of today are used up ({used:,} used). They reset "
                f"at midnight (the server's local time), in {_span(midnight, local)}.",
                _seconds(midnight, local),
            )
    if key.daily_tokens is not None and today.tokens + reserved >= key.daily_tokens:
        raise _over(
            f"What is left of this key's {key.daily_tokens:,} tokens of today ({today.tokens:,} "
            "used) is set aside for its requests in the air. Ask again when one has ended.",
            BUSY_RETRY_S,
        )
    if key.concurrent is not None and in_flight >= key.concurrent:
        many = "one request" if key.concurrent == 1 else f"{key.concurrent} requests"
        raise _over(
            f"This key may have {many} in flight at one time. Ask again when one has ended.",
            BUSY_RETRY_S,
        )


def _over(message: str, retry_after: int) -> RequestError:
    return RequestError(message, status=429, code="insufficient_quota", headers=_final(retry_after))


def _final(retry_after: int) -> tuple[tuple[str, str], ...]:
    """Headers that stop automatic retries by SDKs: the limit was set by the owner."""
    return (("Retry-After", str(retry_after)), ("x-should-retry", "false"))


def _seconds(then: datetime, local: datetime) -> int:
    """Seconds from `local` to `then` (both naive local times), DST changes included."""
    return max(1, math.ceil(then.timestamp() - local.timestamp()))


def _span(then: datetime, local: datetime) -> str:
    minutes = max(1, math.ceil(_seconds(then, local) / 60))
    hours_, rest = divmod(minutes, 60)
    return f"{hours_} h {rest:02} min" if hours_ else f"{rest} min"
