"""Runs one request along its chain.

`Engine.serve` is the main loop: the walk picks the next hop, admission grants or refuses a permit,
an attempt runs the CLI, and its events go through the shaper and the walk to the reader. If every
hop is full, the request queues for the first free slot. All decisions are made in `olp.core`; this
module does the I/O.
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
    """One request to serve: the request, its chain and its caller."""

    request: Request
    chain: Chain
    caller: str
    log: Log
    trace: RequestTrace

    @cached_property
    def conversation(self) -> ConversationKey:
        """The conversation key, made of the request as the CLIs get it."""
        return ConversationKey(self.caller, as_format(self.request))

    def shaper(self, *, enforce_tokens: bool) -> Shaper:
        """A shaper for one attempt: turns the CLI's answer into the form the client asked for."""
        live = self.request.stream and self.chain.policy.json == "stream"
        id = f"call_{self.trace.request_id}"
        return Shaper(self.request, enforce_tokens=enforce_tokens, live=live, id=id)

    def cache_key(self, hop: Hop) -> str:
        """Hash of the caller, `hop` and every part of the request that affects the answer."""
        shape = repr((self.caller, hop, self.request)).encode("utf-8", "replace")
        return hashlib.sha256(shape).hexdigest()


class Engine:
    """Serves jobs. `clock` is monotonic, `wall` is in epoch seconds; `queue_s` is the total time in
    seconds that a request may queue for a slot."""

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
        """Answer `job` from the first hop of its chain that can; outputs go to `send`."""
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
                permit = await self._wait_for_slot(walk, job)
            elif kept := self._kept(job, hop):
                await self._send(job, send, walk.answer_kept(kept.model, kept.events))
                break
            else:
                permit = self._enter(walk, hop, job)
            if permit is not None:
                with permit:
                    await self._attempt(walk, permit, job, send)
                    self._drain_notes(walk, job)
        if not walk.answered:
            await self._send(job, send, [walk.verdict(self._wall())])
        self._drain_notes(walk, job)

    def _enter(self, walk: Walk, hop: Hop, job: Job) -> Permit | None:
        """A permit for the walk's current hop; None if refused, after reporting that to the
        walk."""
        permit = self._fleet.lacking(hop, job.request) or self._request_permit(walk, hop, job)
        return self._permit_or_fail(permit, walk, job)

    async def _wait_for_slot(self, walk: Walk, job: Job) -> Permit | None:
        """Queue for the first free slot of the walk's full hops; None on timeout, or if the hop is
        refused for another reason. Both are reported to the walk."""

        def enter(hop: Hop) -> Permit | None:
            permit = self._request_permit(walk, hop, job, in_turn=True)
            if isinstance(permit, Failed) and permit.code is ErrorCode.CONCURRENCY_LIMIT:
                return None
            walk.again(hop, self._clock())
            return self._permit_or_fail(permit, walk, job)

        began = self._clock()
        seconds = walk.patience(began)
        permit = await in_turn(self.admission.queue, job.caller, lambda: walk.full, enter, seconds)
        spent = self._clock() - began
        walk.waited(spent, in_vain=permit is None)
        provider = permit.hop.provider if permit else None
        job.log.info("waited_for_slot", provider=provider, ms=round(spent * 1000))
        return permit

    def _request_permit(
        self, walk: Walk, hop: Hop, job: Job, *, in_turn: bool = False
    ) -> Permit | Failed:
        limits, now = job.chain.limits, self._now()
        return self.admission.enter(hop, limits, now, forced=walk.forced, in_turn=in_turn)

    def _permit_or_fail(self, permit: Permit | Failed, walk: Walk, job: Job) -> Permit | None:
        if isinstance(permit, Permit):
            return permit
        walk.pass_on(permit, self._clock())
        self._drain_notes(walk, job)
        return None

    async def _attempt(self, walk: Walk, permit: Permit, job: Job, send: Send) -> None:
        """One attempt at one hop. Its process has ended, or is back in the pool, on return."""
        hop, passed = permit.hop, list[Output]()
        attempt = self._pool.attempt(hop, job.conversation)
        if isinstance(attempt, Failed):
            walk.pass_on(attempt, self._clock())
            return
        self._store.count(self._now().day, hop.provider)
        async with attempt:
            shaper = job.shaper(enforce_tokens=not attempt.keeps_max_tokens)
            walk.conversation = attempt.conversation
            walk.hurry(attempt.opening_s)
            job.trace.asked(hop, attempt.report)
            while walk.trying:
                events = await attempt.events(until=walk.wake_at)
                out = self._pass_on(walk, shaper, hop, events)
                if self._uses_cache(job):
                    passed += out
                if out and not walk.trying:
                    self._keep_answer(job, hop, passed)
                    self._drain_notes(walk, job)
                    permit.answered()  # before the last event: the client may ask again at once
                if out:
                    await self._send(job, send, out)

    async def _send(self, job: Job, send: Send, outputs: Sequence[Output]) -> None:
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
        """Context windows in tokens, where known: as configured, else as reported by the CLI."""
        known = {hop: self._fleet.context(hop) or self.admission.contexts.get(hop) for hop in hops}
        return {hop: tokens for hop, tokens in known.items() if tokens}

    def _drain_notes(self, walk: Walk, job: Job) -> None:
        """Drain the walk: its notes into the log, its attempts into the trace, its ends into
        admission."""
        for note in walk.notes:
            job.log.write(note.level, note.event, **note.fields)
        for attempt in walk.attempts:
            job.trace.ended(attempt)
        for hop, end in walk.ends:
            if changed := self.admission.note(hop, end, self._now()):
                job.log.warn(f"breaker_{changed}", provider=hop.provider, model=hop.model)
        walk.notes.clear()
        walk.attempts.clear()
        walk.ends.clear()

    def _kept(self, job: Job, hop: Hop) -> Kept | None:
        """The cached answer of `hop` to the same request, if any."""
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
