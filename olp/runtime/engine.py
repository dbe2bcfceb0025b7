"""The way of one request along its chain.

`serve` is the whole of it, and reads from top to bottom: the walk says which hop is next, the
books say whether it may be asked, an attempt asks it, and what that brings goes through the shaper
and the walk to the reader. Everything that is decided is decided in `olp.core`; here it is waited
for.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from olp.core.books import Books, Now, Pass
from olp.core.cache import Cache
from olp.core.chains import Chain
from olp.core.conversation import Talk
from olp.core.days import day_of
from olp.core.required import as_format
from olp.core.shape import Shaper
from olp.core.walk import Walk
from olp.events import Answering, Event, Failed, Output, Quota, Refused
from olp.model import Hop, Request
from olp.runtime.fleet import Fleet
from olp.runtime.log import Log
from olp.runtime.pool import Pool
from olp.runtime.record import Record
from olp.runtime.story import Story
from olp.runtime.waiting import in_turn

Send = Callable[[Sequence[Output]], Awaitable[None]]
"""Takes the outputs of a request in order: an Answering and its events, or one Refused."""


@dataclass(frozen=True)
class Job:
    """One request to be served: what is asked, along which chain, and for whom."""

    request: Request
    chain: Chain
    caller: str
    log: Log
    story: Story

    @cached_property
    def talk(self) -> Talk:
        """The request as the CLIs get it."""
        return Talk(self.caller, as_format(self.request))

    def cache_key(self, hop: Hop) -> str:
        """Everything that shapes the answer of `hop`, and who asks."""
        shape = repr((self.caller, hop, self.request)).encode("utf-8", "replace")
        return hashlib.sha256(shape).hexdigest()


class Engine:
    """Serves jobs. `clock` is steady, `wall` is the time in epoch seconds, `queue_s` is how long a
    request may wait for a slot of each hop."""

    def __init__(
        self,
        fleet: Fleet,
        pool: Pool,
        books: Books,
        cache: Cache,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        *,
        queue_s: float = 0.0,
    ) -> None:
        self.books = books
        self._fleet = fleet
        self._pool = pool
        self._cache = cache
        self._record = record
        self._clock = clock
        self._wall = wall
        self._queue_s = queue_s

    async def serve(self, job: Job, send: Send) -> None:
        """Answer `job` from the first hop of its chain that can, and tell `send`."""
        walk = Walk(
            job.chain,
            streaming=job.request.stream,
            now=self._clock(),
            clocks=self._fleet.clocks,
            cache="miss" if self._uses_cache(job) else "bypass",
            first=self._pool.waits_at(job.chain.hops, job.talk),
        )
        while (hop := walk.next(self._clock())) is not None:
            if self._uses_cache(job) and (
                kept := self._cache.find(job.cache_key(hop), self._clock())
            ):
                await self._tell(job, send, walk.answer_kept(kept.model, kept.events))
                break
            right = await self._enter(walk, hop, job)
            if isinstance(right, Failed):
                walk.pass_on(right, self._clock())
                self._keep_books(walk, job)
                continue
            with right:
                await self._attempt(walk, hop, job, send)
                self._keep_books(walk, job)
        if not walk.answered:
            await self._tell(job, send, [walk.verdict(self._wall())])
        self._keep_books(walk, job)

    async def _enter(self, walk: Walk, hop: Hop, job: Job) -> Pass | Failed:
        """What an attempt at `hop` needs, or why it cannot be made. Where the owner lets requests
        wait for a slot, this one may."""
        if lacking := self._fleet.lacking(hop, job.request):
            return lacking

        def enter() -> Pass | Failed:
            return self.books.enter(hop, job.chain.limits, self._now(), forced=walk.forced)

        if self._queue_s == 0:
            return enter()
        began = self._clock()
        right = await in_turn(self.books.queue, hop.provider, job.caller, enter, self._queue_s)
        if waited := round((self._clock() - began) * 1000):
            walk.begin_late(self._clock())
            job.log.info("waited_for_slot", provider=hop.provider, ms=waited)
        return right

    async def _attempt(self, walk: Walk, hop: Hop, job: Job, send: Send) -> None:
        """One hop, once. When this returns, its process is gone."""
        passed: list[Output] = []
        self._record.count(self._now().day, hop.provider)
        waiting = self._pool.take(hop, job.talk)
        async with waiting or self._fleet.worker(hop, job.talk.request) as worker:
            shaper = Shaper(job.request, enforce_tokens=not worker.keeps_max_tokens)
            walk.conversation = worker.conversation
            job.story.asked(hop, worker.report)
            while walk.trying:
                events = await worker.events(until=walk.wake_at)
                out = self._pass_on(walk, shaper, hop, events)
                if self._uses_cache(job):
                    passed += out
                    if not walk.trying:
                        self._keep_answer(job, hop, passed)
                if out:
                    await self._tell(job, send, out)

    async def _tell(self, job: Job, send: Send, outputs: Sequence[Output]) -> None:
        job.story.told(outputs, self._clock())
        await send(outputs)

    def _pass_on(
        self, walk: Walk, shaper: Shaper, hop: Hop, events: Sequence[Event]
    ) -> list[Output]:
        now = self._clock()
        out: list[Output] = []
        for event in events:
            if isinstance(event, Quota):
                self.books.quota.note(hop.provider, event.windows, self._wall(), "answer")
            for shaped in shaper.feed(event):
                out += walk.pass_on(shaped, now)
        if walk.trying:
            out += walk.expire(now)
        return out

    def _keep_books(self, walk: Walk, job: Job) -> None:
        """Write down what the walk has to tell: to the log, the books and the story."""
        for note in walk.notes:
            job.log.write(note.level, note.event, **note.fields)
            job.story.note(note)
        for hop, end in walk.ends:
            if changed := self.books.note(hop, end, self._now()):
                job.log.warn(f"breaker_{changed}", provider=hop.provider, model=hop.model)
        walk.notes.clear()
        walk.ends.clear()

    def _keep_answer(self, job: Job, hop: Hop, passed: Sequence[Output]) -> None:
        if not passed or not isinstance(passed[0], Answering):
            return
        events = [o for o in passed if not isinstance(o, Answering | Refused)]
        self._cache.keep(job.cache_key(hop), passed[0].model, events, self._clock())

    def _uses_cache(self, job: Job) -> bool:
        return self._cache.on and not job.request.no_cache

    def _now(self) -> Now:
        wall = self._wall()
        return Now(self._clock(), wall, day_of(wall))
