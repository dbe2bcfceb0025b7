"""What each person has used today, and whether one more request is within their limits.

Looking and counting are one synchronous step, so a hundred requests at one time cannot all see the
last one that is free. A request counts from the moment it is let in, whatever becomes of it. Tokens
are counted when an answer ends; until then what it is likely to cost is set aside, so that a
hundred at one time do not all begin on the last ten tokens. What is set aside is a guess: the
answers that cross the limit are still given whole, and the next one is not.
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
"""Retry-After when a person's own running requests are the limit: one usually ends in seconds."""

KEPT_DAYS = 4
"""Days that are kept in memory: more than one, for a clock that is set back over midnight."""


@dataclass(slots=True)
class DayUsage:
    """One person's usage of a day. `background`: how many of `requests` were background jobs."""

    requests: int = 0
    tokens: int = 0
    background: int = 0


class KeyUsage:
    """By day (local date as YYYY-MM-DD) and by the id of a person's key."""

    def __init__(self) -> None:
        self._days: dict[str, dict[str, DayUsage]] = {}
        self._in_air: dict[str, int] = {}
        self._aside: dict[str, int] = {}

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
        return self._in_air.get(person, 0)

    def aside(self, person: str) -> int:
        """How many tokens are reserved for answers of `person` in flight."""
        return self._aside.get(person, 0)

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
        self._in_air[person] = self.in_air(person) + 1
        self._aside[person] = self.aside(person) + tokens
        return Reservation(self, person, tokens)

    def spend(self, day: str, person: str, tokens: int) -> None:
        """Add the tokens of an answer."""
        self._days.setdefault(day, {}).setdefault(person, DayUsage()).tokens += tokens

    def leave(self, person: str) -> None:
        """A request has ended."""
        left = self._in_air.pop(person) - 1
        if left:
            self._in_air[person] = left

    def settle(self, person: str, tokens: int) -> None:
        """Release reserved tokens."""
        left = self._aside.pop(person) - tokens
        if left:
            self._aside[person] = left


class Reservation:
    """An admitted request; leaving its block ends it. Its reserved tokens are released then, or by
    the answer that it was handed over to, when that is charged or over."""

    def __init__(self, ledger: KeyUsage, person: str, tokens: int) -> None:
        self._usage = ledger
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


def _check(key: Key, today: DayUsage, in_air: int, aside: int, local: datetime) -> None:
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
    if key.daily_tokens is not None and today.tokens + aside >= key.daily_tokens:
        raise _over(
            f"What is left of this key's {key.daily_tokens:,} tokens of today ({today.tokens:,} "
            "used) is set aside for its requests in the air. Ask again when one has ended.",
            BUSY_RETRY_S,
        )
    if key.concurrent is not None and in_air >= key.concurrent:
        many = "one request" if key.concurrent == 1 else f"{key.concurrent} requests"
        raise _over(
            f"This key may have {many} in flight at one time. Ask again when one has ended.",
            BUSY_RETRY_S,
        )


def _over(message: str, retry_after: int) -> RequestError:
    return RequestError(message, status=429, code="insufficient_quota", headers=_final(retry_after))


def _final(retry_after: int) -> tuple[tuple[str, str], ...]:
    """The limit is the owner's: an SDK's own retries would only hammer at it."""
    return (("Retry-After", str(retry_after)), ("x-should-retry", "false"))


def _seconds(then: datetime, local: datetime) -> int:
    """From one local time to another by the clock on the wall's own seconds, so that the night in
    which it is changed is as long as it is."""
    return max(1, math.ceil(then.timestamp() - local.timestamp()))


def _span(then: datetime, local: datetime) -> str:
    minutes = max(1, math.ceil(_seconds(then, local) / 60))
    hours_, rest = divmod(minutes, 60)
    return f"{hours_} h {rest:02} min" if hours_ else f"{rest} min"
