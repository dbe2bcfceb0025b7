"""Pool of warm CLI processes, started ahead of requests.

Starting a CLI takes 0.1 to 6 s, and asking a started one takes hundredths of a second. So a
configured number is kept ready per provider, and replaced when leased. A process keeps its
conversation for a while after the answer: the next message of it goes there, alone.

The pool is an optimisation only. It never makes a request wait: if it has no process, the request
starts its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from olp.config import ProviderConfig, WorkersConfig
from olp.core.answer.conversation import ConversationKey
from olp.core.routing.capabilities import only_by_session
from olp.core.scrub import scrub
from olp.events import ErrorCode, Event, Failed, Quota, Usage
from olp.model import Hop, Request
from olp.runtime.log import Log
from olp.runtime.pool.eviction import too_large, too_many
from olp.runtime.pool.lease import Lease
from olp.runtime.pool.warm_process import ProviderPool, WarmProcess
from olp.runtime.process.attempt import Attempt
from olp.runtime.process.fleet import Fleet
from olp.runtime.process.memory import resident_mb
from olp.runtime.tasks import Tasks

BOOT_LIMIT_S = 30.0
"""Seconds that a CLI may take to become ready."""

FIRST_BACKOFF_S, LAST_BACKOFF_S = 5.0, 300.0
"""Backoff in seconds after a failed start: the first, doubled each time up to the last."""

PREPARE_AFTER_S = 0.5
"""Seconds from an answer to preparing the process for another conversation."""

MAINTAIN_EVERY_S = 10.0
"""Seconds between maintenance runs."""

REPLACE_AFTER_S = 0.3
"""Seconds from a lease to the start of the replacement."""


class Pool:
    """The warm processes of one server. `clock` is monotonic."""

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

    def attempt(self, hop: Hop, conversation: ConversationKey) -> Attempt | Failed:
        """One attempt at `hop`: a lease on a warm process, or else a process started for it.
        INCAPABLE if the request needs a session and the CLI has none."""
        if lease := self._lease(hop, conversation):
            return lease
        if only_by_session(conversation.request):
            return Failed(ErrorCode.INCAPABLE, f"{hop.provider} has no session for this request")
        return self._fleet.worker(hop, conversation.request)

    def _lease(self, hop: Hop, conversation: ConversationKey) -> Lease | None:
        """Lease a process that can answer now; None if there is none."""
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
            # Delayed: starting another CLI now would compete with this one for the CPU.
            pool.refill_due = True
            asyncio.get_running_loop().call_later(REPLACE_AFTER_S, self._refill, hop.provider)
        warm.caller = conversation.caller
        return Lease(self, warm, hop, conversation, now=self._fleet.now(), goes_on=live is not None)

    def waits_at(self, hops: Sequence[Hop], conversation: ConversationKey) -> int:
        """The index of the hop with a process that waits for the request's tool results, else
        0."""
        latest = conversation.request.latest
        for index, hop in enumerate(hops if latest and latest[-1].answers else ()):
            pool = self._pools[hop.provider]
            if pool.remembers and pool.going_on(conversation.before(hop), conversation.request):
                return index
        return 0

    def _forget(self, pool: ProviderPool, known: str | None) -> None:
        """End parked processes whose conversation continues elsewhere."""
        for warm in list(pool.processes):
            if known is not None and warm.parked and warm.conversation == known and not warm.busy:
                self._end(warm)

    def _cold(
        self, pool: ProviderPool, hop: Hop, request: Request, *, must: bool
    ) -> WarmProcess | None:
        """Start a session process for this request. If it `must` be a session, it is started even
        if the pool is full or in backoff, and is not reused."""
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
        """A lease ended cleanly; `known` is the conversation key after the answer."""
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
        """Whether no later request could use it, by the configuration."""
        if warm.session.parked:
            return self._config.parked == 0
        return self._config.conversations == 0 and not warm.session.reusable

    def _outdated(self, warm: WarmProcess) -> bool:
        """Whether it was started before the latest survey files were kept."""
        return not warm.session.parked and warm.kept != self._fleet.kept(warm.provider)

    async def _get_ready(self, warm: WarmProcess) -> None:
        """Prepare it after a delay, in which the conversation may continue."""
        await asyncio.sleep(PREPARE_AFTER_S)
        warm.prepare()
        await self._watch(warm, self._clock() + BOOT_LIMIT_S)

    async def _watch(self, warm: WarmProcess, limit: float) -> None:
        """Read its output while it is being prepared or is parked; end it on unexpected output or
        at `limit`."""
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
        """A lease did not end cleanly: end its process."""
        processes = self._pools[warm.provider].processes
        if warm in processes:
            processes.remove(warm)
        await warm.worker.close()
        self._refill(warm.provider)

    # --- starting ------------------------------------------------------------------------------

    def open(self) -> None:
        """Start maintenance. The CLIs are started once they are surveyed."""
        self._closed = False
        if self._pools:
            self._spawn(self._maintain(), "care of the pool")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Spawn a task that `retire` cancels, so that a server stop does not wait for it."""
        task = self._tasks.spawn(work, name)
        self._own.add(task)
        task.add_done_callback(self._own.discard)
        return task

    def retire(self) -> None:
        """Start no more processes."""
        self._closed = True
        for task in self._own:
            task.cancel()

    def surveyed(self, provider: str) -> None:
        """The CLI was surveyed: replace outdated processes, and start the missing ones."""
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
        """Start the missing processes, within `max_processes`."""
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
            warm = WarmProcess(provider, *made, kept, born_at=self._clock())
            await self._boot_one(pool, warm)
        finally:
            pool.booting -= 1
        if warm in pool.processes:
            await self._measure([warm])

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
            return
        await worker.close()
        if not (self._closed or outdated):
            self._failed(warm.provider, pool, events)

    def _failed(self, provider: str, pool: ProviderPool, events: Iterable[Any]) -> None:
        failures = (scrub(event.detail) for event in events if isinstance(event, Failed))
        said = next(failures, "it was not ready in time")
        wait = min(FIRST_BACKOFF_S * 2**pool.failures, LAST_BACKOFF_S)
        pool.failures += 1
        pool.not_before, pool.problem = self._clock() + wait, said
        self._log.warn("warm_start_failed", provider=provider, next_try_s=wait)

    # --- keeping within bounds -----------------------------------------------------------------

    def _count(self) -> int:
        return sum(len(pool.processes) + pool.booting for pool in self._pools.values())

    def _trim(self) -> None:
        """End processes that are dead, too old or surplus."""
        for warm in too_many(self._pools.values(), self._config, self._clock()):
            self._end(warm)

    async def _measure(self, processes: Sequence[WarmProcess]) -> None:
        """Measure in a thread, since some systems need a subprocess for it."""
        for warm in processes:
            warm.memory_mb = await asyncio.to_thread(resident_mb, warm.worker.pid)

    def _fit_memory(self) -> None:
        for warm in too_large(self._pools.values(), self._config):
            # A replacement would be as large and be ended again.
            self._pools[warm.provider].not_before = self._clock() + LAST_BACKOFF_S
            self._end(warm)

    def _end(self, warm: WarmProcess) -> None:
        processes = self._pools[warm.provider].processes
        if warm in processes:
            processes.remove(warm)
            self._tasks.spawn(warm.worker.close(), "end of a waiting CLI", vital=True)

    async def close(self) -> None:
        """End all idle processes."""
        self.retire()
        idle = [warm for pool in self._pools.values() for warm in pool.processes if not warm.busy]
        for warm in idle:
            self._pools[warm.provider].processes.remove(warm)
        await asyncio.gather(*(warm.worker.close() for warm in idle))

    def report(self, provider: str) -> dict[str, Any]:
        """Counts of one provider; memory in MB."""
        return self._pools[provider].report()
