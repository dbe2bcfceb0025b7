"""The runtime's public interface, independent of the API that the server speaks."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from olp.core.answer.fingerprint import stamp
from olp.core.keys.key_usage import Reservation
from olp.core.routing.chains import Catalogue, Chain
from olp.model import Hop, ModelEntry, Request
from olp.providers.base import ProviderContext
from olp.runtime.access.caller import Caller
from olp.runtime.log import Log
from olp.runtime.pool.pool import Pool
from olp.runtime.process.fleet import Fleet
from olp.runtime.serving.engine import Engine, Job, Send
from olp.runtime.serving.health import Health
from olp.runtime.serving.lasting import Lasting
from olp.runtime.serving.request_plan import Plan, Planner, RequestContext
from olp.runtime.serving.shared_answer import Reader, SharedAnswer
from olp.runtime.serving.survey import Surveyed, survey_all
from olp.runtime.tasks import Tasks
from olp.runtime.usage.charger import UsageCharger
from olp.runtime.usage.report import usage_for
from olp.runtime.usage.request_log import RequestEntry
from olp.runtime.usage.trace import RequestTrace

SURVEY_AFTER_S = 0.5
"""Seconds from the start to the first survey of the CLIs."""

SURVEY_EVERY_S = 300.0
"""Seconds between surveys of providers whose plan has a threshold."""


class Service:
    """Answers requests and reports its state. `watched` are the providers whose plan windows have a
    threshold.

    A configuration reload builds a new service with the same `lasting` state, then calls
    `hand_over` on the old one."""

    def __init__(
        self,
        catalogue: Catalogue,
        fleet: Fleet,
        pool: Pool,
        engine: Engine,
        lasting: Lasting,
        planner: Planner,
        tasks: Tasks,
        log: Log,
        watched: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.lasting = lasting
        self.catalogue = catalogue.with_models(lasting.models)
        self.log = log
        self.tasks = tasks
        self._fleet = fleet
        self._pool = pool
        self._engine = engine
        self._admission = lasting.admission
        self._store = lasting.store
        self._planner = planner
        self.people = lasting.people
        self._wall = wall
        self._clock = clock
        self._shared = lasting.answers
        self._traces = lasting.traces
        self.request_log = lasting.request_log
        self.request_log.counters.knows = self._knows
        self._health = Health(fleet, pool, lasting, clock, wall)
        self._watched = tuple(watched)
        self._surveys: asyncio.Task[None] | None = None

    def chain(self, request: Request) -> Chain:
        """The chain that may answer. Raises RequestError 404 for an unknown model."""
        chain = self.catalogue.resolve(request.model)
        return chain.without_substitution() if request.forbid_substitution else chain

    def plan(self, request: Request, caller: Caller) -> Plan:
        """How `request` is served for `caller`. Raises RequestError 403 or 404."""
        return self._planner.plan(request, caller, self.chain)

    def join(
        self,
        request: Request,
        chain: Chain,
        context: RequestContext,
        entry: RequestEntry | None = None,
        reservation: Reservation | None = None,
    ) -> Reader:
        """A reader of the answer to an identical request of the same caller in flight, else of a
        new one. `entry` gets the trace of that answer; `reservation` is handed over to a new answer
        and settled when it ends."""
        key = _identity(request, chain, context.caller.id)
        shared = self._shared.get(key)
        if shared is None or not shared.joinable:
            log = context.log.bind(chain=chain.name, chain_id=_new_id(), request_hash=key[:12])
            job = self._job(request, chain, context, log)
            self._traces[key] = job.trace
            settle = reservation.settle if reservation is not None else _nothing
            if reservation is not None:
                reservation.hand_over()
            shared = SharedAnswer(partial(self._serve, job, settle), self.tasks)
            shared.on_over(partial(self._ended, key, shared, settle))
            self._shared[key] = shared
        if entry is not None:
            entry.joined(request, context.background, self._traces[key])
        return shared.join()

    def _job(self, request: Request, chain: Chain, context: RequestContext, log: Log) -> Job:
        trace = RequestTrace(
            context.id,
            caller=context.caller.name,
            model=request.model,
            chain=chain.hops,
            began=self._clock(),
            at=self._wall(),
            background=context.background,
            on_hop=self.request_log.counters.hop,
        )
        return Job(request, chain, context.caller.id, log, trace)

    async def _serve(self, job: Job, settle: Callable[[], None], send: Send) -> None:
        charger = UsageCharger(job.request, job.caller, self.people, send, settle)
        try:
            await self._engine.serve(job, charger.send)
        finally:
            charger.close()
            self._store.keep(job.trace.as_dict(self._clock()))

    def _ended(self, key: str, shared: SharedAnswer, settle: Callable[[], None]) -> None:
        settle()  # also if the task was cancelled before it started
        if self._shared.get(key) is shared:
            del self._shared[key], self._traces[key]

    def models(self, caller: Caller) -> Sequence[ModelEntry]:
        """Every name that `caller` may use, chains first."""
        names = caller.key.chains if caller.key and caller.key.chains else self.catalogue.names()
        return [self._entry(name) for name in names if self.catalogue.knows(name)]

    def _knows(self, hop: Hop) -> bool:
        """Whether `hop` is in a chain, or its model was configured or reported by its CLI."""
        chains = self.catalogue.chains.values()
        known = self.catalogue.models.get(hop.provider, ())
        return hop.model in known or any(hop in chain.hops for chain in chains)

    def _entry(self, name: str) -> ModelEntry:
        hops = self.catalogue.resolve(name).hops
        owner = "olp" if name in self.catalogue.chains else hops[0].provider
        return ModelEntry(
            name,
            owner,
            tuple(str(hop) for hop in hops),
            # The model's own date is unknown; the server's start is at least constant.
            self.lasting.started_at,
            min(self._engine.contexts(hops).values(), default=None),
            frozenset(ability for hop in hops for ability in self._fleet.can(hop)),
        )

    def model(self, name: str) -> ModelEntry:
        """One entry. Raises RequestError 404 for an unknown name."""
        self.catalogue.resolve(name)
        return self._entry(name)

    @property
    def in_flight(self) -> int:
        """How many answers are in flight."""
        return len(self._shared)

    def open(self) -> None:
        """Start: open the usage store and the pool, and schedule the first survey."""
        self._store.open()
        self._pool.open()
        self._surveys = self.tasks.spawn(self._survey(), "survey")

    async def close(self) -> None:
        """Cancel all tasks and end all processes."""
        await self._end()

    def close_record(self) -> None:
        """Flush and close the usage store; call it last."""
        self._store.close()

    async def _end(self) -> None:
        self._pool.retire()
        await self.tasks.cancel_all()
        await self._pool.close()

    async def hand_over(self) -> None:
        """Retire in favour of a new service: end the warm processes, let the answers in flight
        finish within their own timeouts, and leave the shared state open."""
        if self._surveys is not None:
            self._surveys.cancel()
        try:
            await self._pool.close()
            while len(self.tasks):
                await self.tasks.drain(None)
        finally:
            await self._end()

    def context(self, provider: str) -> ProviderContext | None:
        """The context that one provider runs in, if it is in use."""
        member = self._fleet.members.get(provider)
        return member.context if member else None

    async def drain(self, seconds: float) -> bool:
        """Wait up to `seconds` for the answers in flight; True if all ended."""
        if self._surveys is not None:
            self._surveys.cancel()
        self._pool.retire()
        return await self.tasks.drain(seconds)

    async def _survey(self) -> None:
        await asyncio.sleep(SURVEY_AFTER_S)
        await self.refresh()
        while self._watched:
            await asyncio.sleep(SURVEY_EVERY_S)
            await self.refresh(self._watched)

    async def refresh(self, providers: Sequence[str] | None = None) -> Mapping[str, Surveyed]:
        """Survey the CLIs for their models and plans; results by provider. Costs no quota."""
        names = list(self._fleet.members) if providers is None else list(providers)
        surveyed = await survey_all(self._fleet, names, self._clock, self._pool.surveyed)
        for name, one in surveyed.items():
            self._admission.quota.note(name, one.windows, self._wall(), "survey")
            self._admission.contexts |= {Hop(name, model): reads for model, reads in one.contexts}
            if one.problem:
                self.log.warn("survey_failed", provider=name)
        self.lasting.models.update({n: one.models for n, one in surveyed.items() if one.models})
        self.catalogue = self.catalogue.with_models(self.lasting.models)
        return surveyed

    def clear_holds(self, provider: str | None) -> int:
        """Lift the quota holds of one provider, or all; returns how many there were."""
        return self._admission.holds.clear(provider)

    def health(self) -> Mapping[str, Any]:
        """State of the providers by the results of their last requests, for the owner."""
        report = self._health.report(self.catalogue, self.in_flight)
        return {**report, "live": self.request_log.live(), **self.people.report()}

    async def usage(self, caller: Caller, query: Mapping[str, str]) -> Mapping[str, Any]:
        """The usage report for `caller`. Raises RequestError 400 for an invalid `query`."""
        names = {key.id: key.name for key in self.people.ring.keys}
        return await asyncio.to_thread(usage_for, caller, query, self._store, names)

    def health_for(self, caller: Caller) -> Mapping[str, Any]:
        """The health summary of the caller's chains, and the caller's own usage."""
        mine = {entry.id: entry.hops for entry in self.models(caller)}
        chains = {name: mine[name] for name in self.catalogue.chains if name in mine}
        return {**self._health.summary(chains), "you": self.people.used(caller)}


def _nothing() -> None:
    """Settles nothing: there is no reservation."""


def _new_id() -> str:
    return f"{random.getrandbits(48):012x}"


def _identity(request: Request, chain: Chain, caller: str) -> str:
    """SHA-256 of the caller, the chain and every part of the request that affects the answer."""
    media = any(not isinstance(message.content, str) for message in request.messages)
    return hashlib.sha256(stamp(caller, chain, request, media=media)).hexdigest()
