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
from olp.runtime.process.fleet import Fleet
from olp.runtime.process.memory import resident_mb
from olp.runtime.tasks import Tasks

BOOT_LIMIT_S = 30.0
"""Seconds that a CLI may take to say that it is ready."""

FIRST_BACKOFF_S, LAST_BACKOFF_S = 5.0, 300.0
"""Seconds until another is started when one could not; doubled each time, up to the last."""

PREPARE_AFTER_S = 0.5
"""Seconds after an answer at which a process gets ready for another conversation."""

MAINTAIN_EVERY_S = 10.0
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
        self._pools = {
            name: ProviderPool(own.warm if on and own.transport == "auto" else 0)
            for name, own in options.items()
        }

    # --- taking and giving back ----------------------------------------------------------------

    def take(self, hop: Hop, conversation: ConversationKey) -> Lease | None:
        """A turn on a process that can answer now; None if there is none."""
        request = conversation.request
        pool = self._pools[hop.provider]
        must = only_by_session(request)
        if not must and (self._closed or not pool.proven):
            return None
        known = conversation.before(hop) if pool.remembers else None
        live = pool.going_on(known, request)
        if live is None:
            self._forget(pool, known)
        warm = (
            live
            or pool.free(hop.model, request)
            or pool.soon_free(hop.model, request)
            or self._cold(pool, hop, request, must=must)
        )
        if warm is None:
            return None
        warm.busy, warm.conversation, warm.parked = True, None, False
        if not pool.refill_due:
            # Later: another CLI's start would take the processor from this one.
            pool.refill_due = True
            asyncio.get_running_loop().call_later(REPLACE_AFTER_S, self._refill, hop.provider)
        warm.caller = conversation.caller
        return Lease(self, warm, hop, conversation, now=self._fleet.now(), goes_on=live is not None)

    def waits_at(self, hops: Sequence[Hop], conversation: ConversationKey) -> int:
        """The index of the hop whose process waits for what the request brings; 0 if none does."""
        latest = conversation.request.latest
        for index, hop in enumerate(hops if latest and latest[-1].answers else ()):
            pool = self._pools[hop.provider]
            if pool.remembers and pool.going_on(conversation.before(hop), conversation.request):
                return index
        return 0

    def _forget(self, pool: ProviderPool, known: str | None) -> None:
        """End what waits for results that will not come: its conversation goes on elsewhere."""
        for warm in list(pool.processes):
            if known is not None and warm.parked and warm.conversation == known and not warm.busy:
                self._end(warm)

    def _cold(
        self, pool: ProviderPool, hop: Hop, request: Request, *, must: bool
    ) -> WarmProcess | None:
        """A process started for this very request, as a session: with true turns, and text as it
        comes. One that `must` be such is started whatever else there is, and not kept then."""
        full = self._count() >= self._config.max_processes or self._clock() < pool.not_before
        if full and not must:
            return None
        own = (request, hop.model) if must else (None, "")
        made = self._fleet.waiting(hop.provider, *own)
        if made is None or not made[1].takes(request, hop.model):
            return None
        kept = self._fleet.kept(hop.provider)
        warm = WarmProcess(hop.provider, *made, kept, born_at=self._clock())
        pool.processes.append(warm)
        return warm

    def released(self, warm: WarmProcess, known: str) -> None:
        """A turn ended cleanly; `known` is its conversation as it now stands."""
        warm.busy, warm.used_at, warm.conversation = False, self._clock(), known
        pool = self._pools[warm.provider]
        pool.failures, pool.problem = 0, None
        if self._closed or self._useless(warm) or self._outdated(warm):
            self._end(warm)
            return
        if warm.session.parked:
            warm.parked, limit = True, self._clock() + self._config.parked_s
            warm.watch = self._spawn(self._watch(warm, limit), "a call that is open")
        elif not warm.worker.ready:
            warm.watch = self._spawn(self._get_ready(warm), "a CLI that gets ready again")
        if not warm.can_begin or self._count() > self._config.max_processes:
            self._trim()

    def _useless(self, warm: WarmProcess) -> bool:
        """Whether nothing could go on with what it has."""
        if warm.session.parked:
            return self._config.parked == 0
        return self._config.conversations == 0 and not warm.session.reusable

    def _outdated(self, warm: WarmProcess) -> bool:
        """Whether it was started without what the CLI has told of itself since."""
        return not warm.session.parked and warm.kept != self._fleet.kept(warm.provider)

    async def _get_ready(self, warm: WarmProcess) -> None:
        """Not at once: it would be busy for the next message of the conversation."""
        await asyncio.sleep(PREPARE_AFTER_S)
        warm.prepare()
        await self._watch(warm, self._clock() + BOOT_LIMIT_S)

    async def _watch(self, warm: WarmProcess, limit: float) -> None:
        """Read what it says while it prepares for another conversation, or waits for results."""
        was_ready, events = warm.worker.ready, list[Event]()
        while not events and self._clock() < limit and warm.worker.ready == was_ready:
            told = await warm.worker.events(limit)
            events = [event for event in told if not isinstance(event, Quota | Usage)]
        if warm.busy:
            return
        warm.watch = None
        if events or warm.worker.ready == was_ready:
            self._end(warm)

    async def discarded(self, warm: WarmProcess) -> None:
        """A turn did not end cleanly; its process is not used again."""
        processes = self._pools[warm.provider].processes
        if warm in processes:
            processes.remove(warm)
        await warm.worker.close()
        self._refill(warm.provider)

    # --- starting ------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin: each CLI is started as soon as it was asked about itself."""
        self._closed = False
        if self._pools:
            self._spawn(self._maintain(), "care of the pool")

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
        pool = self._pools[provider]
        for warm in [s for s in pool.processes if s.idle and self._outdated(s)]:
            self._end(warm)
        if not pool.surveyed:
            pool.surveyed = True
            self._refill(provider)

    async def _maintain(self) -> None:
        while not self._closed:
            await asyncio.sleep(MAINTAIN_EVERY_S)
            for provider in self._pools:
                self._refill(provider)
            self._trim()
            await self._measure([warm for pool in self._pools.values() for warm in pool.processes])
            self._fit_memory()

    def _refill(self, provider: str) -> None:
        """Start as many as are missing."""
        pool = self._pools[provider]
        pool.refill_due = False
        room = self._config.max_processes - self._count()
        if self._closed or not pool.surveyed or self._clock() < pool.not_before:
            return
        for _ in range(min(pool.missing, room)):
            pool.booting += 1
            self._spawn(self._boot(provider, pool), f"start of a waiting {provider}")

    async def _boot(self, provider: str, pool: ProviderPool) -> None:
        made = self._fleet.waiting(provider)
        try:
            if made is None:
                pool.warm = 0
                return
            kept = self._fleet.kept(provider)
            await self._boot_one(pool, WarmProcess(provider, *made, kept, born_at=self._clock()))
        finally:
            pool.booting -= 1

    async def _boot_one(self, pool: ProviderPool, warm: WarmProcess) -> None:
        worker = warm.worker
        try:
            await worker.open()
            events = await worker.events(self._clock() + BOOT_LIMIT_S)
        except BaseException:
            await worker.close()
            raise
        outdated = self._outdated(warm)
        if worker.ready and not events and not (self._closed or outdated):
            pool.proven, pool.failures, pool.problem = True, 0, None
            pool.processes.append(warm)
            await self._measure([warm])
            return
        await worker.close()
        if not (self._closed or outdated):
            self._failed(warm.provider, pool, events)

    def _failed(self, provider: str, pool: ProviderPool, events: Iterable[Any]) -> None:
        said = next((e.detail for e in events if isinstance(e, Failed)), "it was not ready in time")
        wait = min(FIRST_BACKOFF_S * 2**pool.failures, LAST_BACKOFF_S)
        pool.failures += 1
        pool.not_before, pool.problem = self._clock() + wait, said
        self._log.warn("warm_start_failed", provider=provider, next_try_s=wait)

    # --- keeping within bounds -----------------------------------------------------------------

    def _count(self) -> int:
        return sum(len(pool.processes) + pool.booting for pool in self._pools.values())

    def _trim(self) -> None:
        """End what is dead, too old, or too much."""
        for warm in too_many(self._pools.values(), self._config, self._clock()):
            self._end(warm)

    async def _measure(self, processes: Sequence[WarmProcess]) -> None:
        """In a thread, since some systems have to be asked by a program."""
        for warm in processes:
            warm.memory_mb = await asyncio.to_thread(resident_mb, warm.worker.pid)

    def _fit_memory(self) -> None:
        for warm in too_large(self._pools.values(), self._config):
            # Another one would be as large, and would only be ended again.
            self._pools[warm.provider].not_before = self._clock() + LAST_BACKOFF_S
            self._end(warm)

    def _end(self, warm: WarmProcess) -> None:
        processes = self._pools[warm.provider].processes
        if warm in processes:
            processes.remove(warm)
            self._tasks.spawn(warm.worker.close(), "end of a waiting CLI", vital=True)

    async def close(self) -> None:
        """End everything that waits."""
        self.retire()
        idle = [warm for pool in self._pools.values() for warm in pool.processes if not warm.busy]
        for warm in idle:
            self._pools[warm.provider].processes.remove(warm)
        await asyncio.gather(*(warm.worker.close() for warm in idle))

    def report(self, provider: str) -> dict[str, Any]:
        """What waits of one provider; memory in MB."""
        return self._pools[provider].report()
