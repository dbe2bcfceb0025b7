"""CLIs that wait for a request, so that an answer does not wait for a CLI.

Starting a CLI takes from a tenth of a second to six, and answering through one that is started
takes hundredths. So one of each kind is started ahead, and when it is taken another is. A process
that has answered keeps its conversation for a while: the next message of it goes there, and only
that message is sent.

The pool is only speed. It never makes a request wait: what it cannot give at once, a process of its
own does as if there were no pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from olp.config import ProviderConfig, WorkersConfig
from olp.core.answer.conversation import ConversationKey
from olp.core.routing.capabilities import only_by_session
from olp.events import Event, Failed, Quota, Usage
from olp.model import Hop, Request
from olp.runtime.log import Log
from olp.runtime.pool.eviction import too_large, too_many
from olp.runtime.pool.lease import Lease
from olp.runtime.pool.warm_process import ProviderPool, WarmProcess
from olp.runtime.serving.fleet import Fleet
from olp.runtime.tasks import Tasks

BOOT_LIMIT_S = 30.0
"""Seconds that a CLI may take to say that it is ready."""

FIRST_BACKOFF_S, LAST_BACKOFF_S = 5.0, 300.0
"""Seconds until another is started when one could not; doubled each time, up to the last."""

PREPARE_AFTER_S = 0.5
"""Seconds after an answer at which a process gets ready for another conversation."""

CARE_EVERY_S = 10.0
"""Seconds between two looks at what waits."""

REPLACE_AFTER_S = 0.3
"""Seconds after one was taken at which its replacement is started."""


class Pool:
    """The waiting CLIs of one server. `clock` is steady."""

    def __init__(
        self,
        fleet: Fleet,
        options: Mapping[str, ProviderConfig],
        config: WorkersConfig,
        tasks: Tasks,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self._fleet = fleet
        self._config = config
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._own: set[asyncio.Task[None]] = set()
        self._closed = True
        on = config.max_processes > 0
        self._kinds = {
            name: ProviderPool(own.warm if on and own.transport == "auto" else 0)
            for name, own in options.items()
        }

    # --- taking and giving back ----------------------------------------------------------------

    def take(self, hop: Hop, talk: ConversationKey) -> Lease | None:
        """A turn on a process that can answer now; None if there is none."""
        request = talk.request
        kind = self._kinds[hop.provider]
        must = only_by_session(request)
        if not must and (self._closed or not kind.proven):
            return None
        known = talk.before(hop) if kind.remembers else None
        live = kind.going_on(known, request)
        if live is None:
            self._forget(kind, known)
        seat = (
            live
            or kind.free(hop.model, request)
            or kind.soon_free(hop.model, request)
            or self._cold(kind, hop, request, must=must)
        )
        if seat is None:
            return None
        seat.busy, seat.conversation, seat.parked = True, None, False
        if not kind.tended:
            kind.tended = True  # later: another CLI's start would take the processor from this one
            asyncio.get_running_loop().call_later(REPLACE_AFTER_S, self._tend, hop.provider)
        seat.caller = talk.caller
        return Lease(self, seat, hop, talk, now=self._fleet.now(), goes_on=live is not None)

    def waits_at(self, hops: Sequence[Hop], talk: ConversationKey) -> int:
        """The index of the hop whose process waits for what the request brings; 0 if none does."""
        latest = talk.request.latest
        for index, hop in enumerate(hops if latest and latest[-1].answers else ()):
            kind = self._kinds[hop.provider]
            if kind.remembers and kind.going_on(talk.before(hop), talk.request):
                return index
        return 0

    def _forget(self, kind: ProviderPool, known: str | None) -> None:
        """End what waits for results that will not come: its conversation goes on elsewhere."""
        for seat in list(kind.seats):
            if known is not None and seat.parked and seat.conversation == known and not seat.busy:
                self._end(seat)

    def _cold(
        self, kind: ProviderPool, hop: Hop, request: Request, *, must: bool
    ) -> WarmProcess | None:
        """A process started for this very request, as a session: with true turns, and text as it
        comes. One that `must` be such is started whatever else there is, and not kept then."""
        full = self._count() >= self._config.max_processes or self._clock() < kind.not_before
        if full and not must:
            return None
        own = (request, hop.model) if must else (None, "")
        made = self._fleet.waiting(hop.provider, *own)
        if made is None or not made[1].takes(request, hop.model):
            return None
        kept = self._fleet.kept(hop.provider)
        seat = WarmProcess(hop.provider, *made, kept, born_at=self._clock())
        kind.seats.append(seat)
        return seat

    def gave_back(self, seat: WarmProcess, known: str) -> None:
        """A turn ended cleanly; `known` is its conversation as it now stands."""
        seat.busy, seat.used_at, seat.conversation = False, self._clock(), known
        kind = self._kinds[seat.provider]
        kind.failures, kind.trouble = 0, None
        if self._closed or self._useless(seat) or self._outdated(seat):
            self._end(seat)
            return
        if seat.session.parked:
            seat.parked, limit = True, self._clock() + self._config.parked_s
            seat.watch = self._spawn(self._watch(seat, limit), "a call that is open")
        elif not seat.worker.ready:
            seat.watch = self._spawn(self._get_ready(seat), "a CLI that gets ready again")
        if not seat.can_begin or self._count() > self._config.max_processes:
            self._trim()

    def _useless(self, seat: WarmProcess) -> bool:
        """Whether nothing could go on with what it has."""
        if seat.session.parked:
            return self._config.parked == 0
        return self._config.conversations == 0 and not seat.session.reusable

    def _outdated(self, seat: WarmProcess) -> bool:
        """Whether it was started without what the CLI has told of itself since."""
        return not seat.session.parked and seat.kept != self._fleet.kept(seat.provider)

    async def _get_ready(self, seat: WarmProcess) -> None:
        """Not at once: it would be busy for the next message of the conversation."""
        await asyncio.sleep(PREPARE_AFTER_S)
        seat.prepare()
        await self._watch(seat, self._clock() + BOOT_LIMIT_S)

    async def _watch(self, seat: WarmProcess, limit: float) -> None:
        """Read what it says while it prepares for another conversation, or waits for results."""
        was_ready, events = seat.worker.ready, list[Event]()
        while not events and self._clock() < limit and seat.worker.ready == was_ready:
            told = await seat.worker.events(limit)
            events = [event for event in told if not isinstance(event, Quota | Usage)]
        if seat.busy:
            return
        seat.watch = None
        if events or seat.worker.ready == was_ready:
            self._end(seat)

    async def gave_up(self, seat: WarmProcess) -> None:
        """A turn did not end cleanly; its process is not used again."""
        seats = self._kinds[seat.provider].seats
        if seat in seats:
            seats.remove(seat)
        await seat.worker.close()
        self._tend(seat.provider)

    # --- starting ------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin: each CLI is started as soon as it was asked about itself."""
        self._closed = False
        if self._kinds:
            self._spawn(self._care(), "care of the pool")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task of the pool's own, which no stop of the server has to wait for."""
        task = self._tasks.spawn(work, name)
        self._own.add(task)
        task.add_done_callback(self._own.discard)
        return task

    def retire(self) -> None:
        """Start nothing more."""
        self._closed = True
        for task in self._own:
            task.cancel()

    def surveyed(self, provider: str) -> None:
        """The CLI was asked about itself, and may be started to wait with what it told."""
        kind = self._kinds[provider]
        for seat in [s for s in kind.seats if s.idle and self._outdated(s)]:
            self._end(seat)
        if not kind.surveyed:
            kind.surveyed = True
            self._tend(provider)

    async def _care(self) -> None:
        while not self._closed:
            await asyncio.sleep(CARE_EVERY_S)
            for provider in self._kinds:
                self._tend(provider)
            self._trim()
            self._fit_memory()

    def _tend(self, provider: str) -> None:
        """Start as many as are missing."""
        kind = self._kinds[provider]
        kind.tended = False
        room = self._config.max_processes - self._count()
        if self._closed or not kind.surveyed or self._clock() < kind.not_before:
            return
        for _ in range(min(kind.missing, room)):
            kind.booting += 1
            self._spawn(self._boot(provider, kind), f"start of a waiting {provider}")

    async def _boot(self, provider: str, kind: ProviderPool) -> None:
        made = self._fleet.waiting(provider)
        try:
            if made is None:
                kind.warm = 0
                return
            kept = self._fleet.kept(provider)
            await self._boot_one(kind, WarmProcess(provider, *made, kept, born_at=self._clock()))
        finally:
            kind.booting -= 1

    async def _boot_one(self, kind: ProviderPool, seat: WarmProcess) -> None:
        worker = seat.worker
        try:
            await worker.open()
            events = await worker.events(self._clock() + BOOT_LIMIT_S)
        except BaseException:
            await worker.close()
            raise
        outdated = self._outdated(seat)
        if worker.ready and not events and not (self._closed or outdated):
            kind.proven, kind.failures, kind.trouble = True, 0, None
            kind.seats.append(seat)
            return
        await worker.close()
        if not (self._closed or outdated):
            self._failed(seat.provider, kind, events)

    def _failed(self, provider: str, kind: ProviderPool, events: Iterable[Any]) -> None:
        said = next((e.detail for e in events if isinstance(e, Failed)), "it was not ready in time")
        wait = min(FIRST_BACKOFF_S * 2**kind.failures, LAST_BACKOFF_S)
        kind.failures += 1
        kind.not_before, kind.trouble = self._clock() + wait, said
        self._log.warn("warm_start_failed", provider=provider, next_try_s=wait)

    # --- keeping within bounds -----------------------------------------------------------------

    def _count(self) -> int:
        return sum(len(kind.seats) + kind.booting for kind in self._kinds.values())

    def _trim(self) -> None:
        """End what is dead, too old, or too much."""
        for seat in too_many(self._kinds.values(), self._config, self._clock()):
            self._end(seat)

    def _fit_memory(self) -> None:
        for seat in too_large(self._kinds.values(), self._config):
            # Another one would be as large, and would only be ended again.
            self._kinds[seat.provider].not_before = self._clock() + LAST_BACKOFF_S
            self._end(seat)

    def _end(self, seat: WarmProcess) -> None:
        seats = self._kinds[seat.provider].seats
        if seat in seats:
            seats.remove(seat)
            self._tasks.spawn(seat.worker.close(), "end of a waiting CLI", vital=True)

    async def close(self) -> None:
        """End everything that waits."""
        self.retire()
        idle = [seat for kind in self._kinds.values() for seat in kind.seats if not seat.busy]
        for seat in idle:
            self._kinds[seat.provider].seats.remove(seat)
        await asyncio.gather(*(seat.worker.close() for seat in idle))

    def report(self, provider: str) -> dict[str, Any]:
        """What waits of one provider; memory in MB."""
        return self._kinds[provider].report()
