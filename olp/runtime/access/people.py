"""Authentication, limits and usage of the users.

Until the first key is created, every client is the owner; then every request needs a key.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from olp.core.answer.tokens import likely
from olp.core.keys.key import Key, check_standing, digest_of, find
from olp.core.keys.key_usage import DayUsage, KeyUsage, Reservation
from olp.errors import RequestError
from olp.model import Request
from olp.runtime.access.caller import LOCAL, OWNER, Caller
from olp.runtime.access.keyring import Keyring, Ring
from olp.runtime.log import Log
from olp.runtime.usage.store import UsageStore

RECORD_WAIT_S = 1.0
"""Seconds that a request with a daily limit waits for its count to be on disk. On a slow or full
disk the count may be lost in a crash, but the answer is not."""

HOW = "Send one as `Authorization: Bearer olp_…` or as `x-api-key: olp_…`."


class People:
    """The keys and their usage. `wall` is in epoch seconds."""

    def __init__(
        self,
        keyring: Keyring,
        store: UsageStore,
        log: Log,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._keyring = keyring
        self._store = store
        self._log = log
        self._wall = wall
        self._usage = KeyUsage()
        self._local: str | None = None
        self._ring = keyring.look()

    def accept_local(self, token: str | None) -> None:
        """Set the token of the local `olp` commands, which authenticates as owner."""
        self._local = digest_of(token) if token is not None else None

    @property
    def ring(self) -> Ring:
        """The keys as they are now."""
        ring = self._keyring.look()
        if ring != self._ring:
            self._note(ring)
            self._ring = ring
        return ring

    def _note(self, ring: Ring) -> None:
        if ring.problem is not None:
            self._log.error("keys_unusable", reason=ring.problem)
        elif ring.on and not self._ring.on:
            self._log.warn("keys_on", keys=len(ring.keys))
        else:
            self._log.info("keys_changed", keys=len(ring.keys))

    # --- authentication ------------------------------------------------------------------------

    def caller(self, tokens: Sequence[str], ring: Ring) -> Caller:
        """The caller with `tokens`, by the keys of `ring`. Raises RequestError."""
        if not ring.on:
            return OWNER
        if len(tokens) > 1:
            raise RequestError(
                f"Several different keys were sent. {HOW}", status=400, code="several_keys"
            )
        if not tokens:
            raise _no_key()
        if self._local is not None and hmac.compare_digest(self._local, digest_of(tokens[0])):
            return LOCAL
        if ring.problem is not None:
            raise RequestError(
                "The server cannot read its keys, and so refuses every request. The owner can see "
                "why with `olp keys list`.",
                status=503,
                code="keys_unusable",
            )
        key = find(ring.keys, tokens[0])
        if key is None:
            raise RequestError(
                f"This key is not known here. {HOW} The owner makes one with `olp keys add NAME`.",
                status=401,
                code="invalid_api_key",
                headers=(("WWW-Authenticate", "Bearer"),),
            )
        check_standing(key, self._wall())
        return Caller(key.id, key.name, key.owner, key)

    # --- usage ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def admitted(
        self, caller: Caller, background: str | None, request: Request
    ) -> AsyncIterator[Reservation]:
        """Admit one request while the block runs. Raises RequestError over a limit."""
        now, key = self._now(), caller.key
        job = background is not None
        tokens = likely(request) if key is not None and key.daily_tokens is not None else 0
        with self._usage.enter(caller.id, key, now, background=job, tokens=tokens) as entry:
            self._store.count_person(_day(now), caller.id, DayUsage(1, 0, int(job)))
            if key is not None and key.daily_requests is not None:
                await self._counted()
            yield entry

    async def spend(self, person: str, tokens: int) -> None:
        """Charge `person` (key id). With a daily token limit, it is on disk on return, before the
        answer's final output is sent."""
        self.note_spent(person, tokens)
        keys = (key for key in self._ring.keys if key.id == person)
        if any(key.daily_tokens is not None for key in keys):
            await self._counted()

    def note_spent(self, person: str, tokens: int) -> None:
        """Charge without waiting for the disk."""
        day = _day(self._now())
        self._usage.spend(day, person, tokens)
        self._store.count_person(day, person, DayUsage(0, tokens, 0))

    async def _counted(self) -> None:
        """Wait until the counts are on disk."""
        await asyncio.wait({asyncio.wrap_future(self._store.written())}, timeout=RECORD_WAIT_S)

    def _now(self) -> datetime:
        """The local time; loads the usage of a new day."""
        now = datetime.fromtimestamp(self._wall())
        if not self._usage.knows(_day(now)):
            self._usage.begin(_day(now), self._store.people(_day(now)))
        return now

    # --- reports -------------------------------------------------------------------------------

    def used(self, caller: Caller) -> dict[str, Any]:
        """Today's usage of one person, and their limits."""
        count = self._usage.count(_day(self._now()), caller.id)
        key = caller.key
        return {
            "name": caller.name,
            "owner": caller.owner,
            "today": dataclasses.asdict(count),
            "in_flight": self._usage.in_air(caller.id),
            "limits": limits_of(key) if key is not None else {},
        }

    def report(self) -> Mapping[str, Any]:
        """Usage of all persons, for the owner."""
        ring = self.ring
        active = [key for key in ring.keys if key.state(self._wall()) == "active"]
        everybody = [Caller(key.id, key.name, key.owner, key) for key in active]
        return {
            "keys": "unusable" if ring.problem else "on" if ring.on else "off",
            "problem": ring.problem,
            "people": [self.used(caller) for caller in everybody or ([] if ring.on else [OWNER])],
        }


def limits_of(key: Key) -> dict[str, Any]:
    """The limits that are set."""
    limits = {
        "chains": list(key.chains) or None,
        "daily_requests": key.daily_requests,
        "daily_tokens": key.daily_tokens,
        "concurrent": key.concurrent,
        "hours": key.hours,
        "expires_at": key.expires_at,
    }
    return {name: value for name, value in limits.items() if value is not None}


def _no_key() -> RequestError:
    return RequestError(
        f"A key is needed here. {HOW} The owner makes one with `olp keys add NAME`.",
        status=401,
        code="missing_api_key",
        headers=(("WWW-Authenticate", "Bearer"),),
    )


def _day(now: datetime) -> str:
    return now.date().isoformat()
