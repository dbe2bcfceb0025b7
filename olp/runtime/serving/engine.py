"""The way of one request along its chain.

`serve` is the whole of it, and reads from top to bottom: the walk says which hop is next, the
books say whether it may be asked, an attempt asks it, and what that brings goes through the shaper
and the walk to the reader. Where all is full, the request waits in line for the first slot that is
free. Everything that is decided is decided in `olp.core`; here it is waited for.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from olp.core.admission.admission import Admission, Now, Permit
from olp.core.answer.cache import Cache, Kept
from olp.core.answer.conversation import ConversationKey
from olp.core.answer.forced_call import as_format
from olp.core.answer.shaper import Shaper
from olp.core.days import day_of
from olp.core.routing.chains import Chain
from olp.core.routing.walk import Walk
from olp.events import Answering, ErrorCode, Event, Failed, Output, Quota, Reads, Refused
from olp.model import Hop, Request
from olp.runtime.log import Log
from olp.runtime.pool.pool import Pool
from olp.runtime.process.fleet import Fleet
from olp.runtime.serving.queueing import in_turn
from olp.runtime.usage.store import UsageStore
from olp.runtime.usage.trace import RequestTrace

Send = Callable[[Sequence[Output]], Awaitable[None]]
"""Takes the outputs of a request in order: an Answering and its events, or one Refused."""


@dataclass(frozen=True)
class Job:
    """One request to be served: what is asked, along which chain, and for whom."""

    request: Request
    chain: Chain
    caller: str
    log: Log
    trace: RequestTrace

    @cached_property
    def conversation(self) -> ConversationKey:
        """The request as the CLIs get it."""
        return ConversationKey(self.caller, as_format(self.request))

    def shaper(self, *, enforce_tokens: bool) -> Shaper:
        """What makes the answer of an attempt what the client asked for."""
        live = self.request.stream and self.chain.policy.json == "stream"
        id = f"call_{self.trace.request_id}"
        return Shaper(self.request, enforce_tokens=enforce_tokens, live=live, id=id)

    def cache_key(self, hop: Hop) -> str:
        """Everything that shapes the answer of `hop`, and who asks."""
        shape = repr((self.caller, hop, self.request)).encode("utf-8", "replace")
        return hashlib.sha256(shape).hexdigest()


class Engine:
    """Serves jobs. `clock` is steady, `wall` is the time in epoch seconds, `queue_s` is how long a
    request may wait for a slot, in all."""

    def __init__(
        self,
        fleet: Fleet,
        pool: Pool,
        admission: Admission,
        cache: Cache,
        store: UsageStore,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        *,
        queue_s: float = 0.0,
    ) -> None:
        self.admission = admission
        self._fleet = fleet
        self._pool = pool
        self._cache = cache
        self._store = store
        self._clock = clock
        self._wall = wall
        self._queue_s = queue_s

    async def serve(self, job: Job, send: Send) -> None:
        """Answer `job` from the first hop of its chain that can, and tell `send`."""
        walk = Walk(
            job.chain,
            streaming=job.request.stream,
            now=self._clock(),
            timeouts=self._fleet.timeouts,
            cache="miss" if self._uses_cache(job) else "bypass",
            first=self._pool.waits_at(job.chain.hops, job.conversation),
            patience=self._queue_s,
            contexts=self.contexts(job.chain.hops),
        )
        while (hop := walk.next(self._clock())) is not None or walk.full:
            if hop is None:
                right = await self._in_turn(walk, job)
            elif kept := self._kept(job, hop):
                await self._tell(job, send, walk.answer_kept(kept.model, kept.events))
                break
            else:
                right = self._enter(walk, hop, job)
            if right is not None:
                with right:
                    await self._attempt(walk, right, job, send)
                    self._keep_books(walk, job)
        if not walk.answered:
            await self._tell(job, send, [walk.verdict(self._wall())])
        self._keep_books(walk, job)

    def _enter(self, walk: Walk, hop: Hop, job: Job) -> Permit | None:
        """The right to ask `hop`, which the walk has come to; None if it cannot be asked, which the
        walk is told."""
        right = self._fleet.lacking(hop, job.request) or self._right(walk, hop, job)
        return self._or_told(right, walk, job)

    async def _in_turn(self, walk: Walk, job: Job) -> Permit | None:
        """All that is left is full: the right to ask the first of these hops that has a slot; None
        if there was none in time, which the walk is told."""

        def enter(hop: Hop) -> Permit | None:
            right = self._right(walk, hop, job, in_turn=True)
            if isinstance(right, Failed) and right.code is ErrorCode.CONCURRENCY_LIMIT:
                return None
            walk.again(hop, self._clock())
            return self._or_told(right, walk, job)

        began = self._clock()
        seconds = walk.patience(began)
        right = await in_turn(self.admission.queue, job.caller, lambda: walk.full, enter, seconds)
        spent = self._clock() - began
        walk.waited(spent, in_vain=right is None)
        provider = right.hop.provider if right else None
        job.log.info("waited_for_slot", provider=provider, ms=round(spent * 1000))
        return right

    def _right(self, walk: Walk, hop: Hop, job: Job, *, in_turn: bool = False) -> Permit | Failed:
        limits, now = job.chain.limits, self._now()
        return self.admission.enter(hop, limits, now, forced=walk.forced, in_turn=in_turn)

    def _or_told(self, right: Permit | Failed, walk: Walk, job: Job) -> Permit | None:
        if isinstance(right, Permit):
            return right
        walk.pass_on(right, self._clock())
        self._keep_books(walk, job)
        return None

    async def _attempt(self, walk: Walk, right: Permit, job: Job, send: Send) -> None:
        """One hop, once. When this returns, its process is gone."""
        hop, passed = right.hop, list[Output]()
        self._store.count(self._now().day, hop.provider)
        waiting = self._pool.take(hop, job.conversation)
        async with waiting or self._fleet.worker(hop, job.conversation.request) as worker:
            shaper = job.shaper(enforce_tokens=not worker.keeps_max_tokens)
            walk.conversation = worker.conversation
            walk.hurry(worker.opening_s)
            job.trace.asked(hop, worker.report)
            while walk.trying:
                events = await worker.events(until=walk.wake_at)
                out = self._pass_on(walk, shaper, hop, events)
                if self._uses_cache(job):
                    passed += out
                if out and not walk.trying:
                    self._keep_answer(job, hop, passed)
                    self._keep_books(walk, job)
                    right.answered()  # before whoever reads the last word asks again
                if out:
                    await self._tell(job, send, out)

    async def _tell(self, job: Job, send: Send, outputs: Sequence[Output]) -> None:
        job.trace.told(outputs, self._clock())
        await send(outputs)

    def _pass_on(
        self, walk: Walk, shaper: Shaper, hop: Hop, events: Sequence[Event]
    ) -> list[Output]:
        now = self._clock()
        for event in events:
            match event:
                case Quota(windows):
                    self.admission.quota.note(hop.provider, windows, self._wall(), "answer")
                case Reads(tokens):
                    self.admission.contexts[hop] = tokens
        shaped = [made for event in events for made in shaper.feed(event)]
        out = list(walk.pass_on_together(shaped, now))
        if walk.trying:
            out += walk.expire(now)
        return out

    def contexts(self, hops: Sequence[Hop]) -> Mapping[Hop, int]:
        """The tokens that these can read: as the owner says, else as the CLI has told."""
        known = {hop: self._fleet.context(hop) or self.admission.contexts.get(hop) for hop in hops}
        return {hop: tokens for hop, tokens in known.items() if tokens}

    def _keep_books(self, walk: Walk, job: Job) -> None:
        """Write down what the walk has to tell: to the log, the admission and the trace."""
        for note in walk.notes:
            job.log.write(note.level, note.event, **note.fields)
            job.trace.note(note)
        for hop, end in walk.ends:
            if changed := self.admission.note(hop, end, self._now()):
                job.log.warn(f"breaker_{changed}", provider=hop.provider, model=hop.model)
        walk.notes.clear()
        walk.ends.clear()

    def _kept(self, job: Job, hop: Hop) -> Kept | None:
        """The answer that `hop` gave to the same request, if it is kept."""
        if not self._uses_cache(job):
            return None
        return self._cache.find(job.cache_key(hop), self._clock())

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
