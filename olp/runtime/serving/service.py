"""The runtime's front door: what a server may ask of it, whatever public API the server speaks."""

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
from olp.runtime.serving.request_plan import Plan, Planner
from olp.runtime.serving.shared_answer import Reader, SharedAnswer
from olp.runtime.serving.survey import Surveyed, survey_all
from olp.runtime.tasks import Tasks
from olp.runtime.usage.charger import UsageCharger
from olp.runtime.usage.report import usage_for
from olp.runtime.usage.request_log import RequestEntry
from olp.runtime.usage.trace import RequestTrace

SURVEY_AFTER_S = 0.5
"""Seconds after the start at which the CLIs are asked about themselves for the first time."""

SURVEY_EVERY_S = 300.0
"""Seconds between two surveys of a plan that a threshold watches."""


class Service:
    """Answers requests and tells about itself. `watched` are the providers whose plan a threshold
    looks at.

    A change of the configuration makes a new one, which goes on with what is `lasting`. The old one
    is then handed over."""

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
        """The hops that may answer; RequestError 404 for a model that nobody serves."""
        chain = self.catalogue.resolve(request.model)
        return chain.without_substitution() if request.forbid_substitution else chain

    def plan(self, request: Request, caller: Caller) -> Plan:
        """How `request` is served for `caller`; RequestError 403 or 404 if it cannot be."""
        return self._planner.plan(request, caller, self.chain)

    def join(
        self,
        request: Request,
        chain: Chain,
        caller: str,
        log: Log,
        entry: RequestEntry | None = None,
        reservation: Reservation | None = None,
    ) -> Reader:
        """A reader of the answer: of an identical request of the same caller in flight,
        or of one that starts now. `entry` is given the trace that it is part of, and what is set
        aside with `reservation` goes over to an answer that starts."""
        key = _identity(request, chain, caller)
        shared = self._shared.get(key)
        if shared is None or not shared.joinable:
            chain_log = log.bind(chain=chain.name, chain_id=_new_id(), request_hash=key[:12])
            job = self._job(request, chain, caller, chain_log)
            self._traces[key] = job.trace
            settle = reservation.settle if reservation is not None else _nothing
            if reservation is not None:
                reservation.hand_over()
            shared = SharedAnswer(partial(self._serve, job, settle), self.tasks)
            shared.on_over(partial(self._ended, key, shared, settle))
            self._shared[key] = shared
        if entry is not None:
            entry.joined(request, log.fields.get("background"), self._traces[key])
        return shared.join()

    def _job(self, request: Request, chain: Chain, caller: str, log: Log) -> Job:
        trace = RequestTrace(
            str(log.fields.get("request_id", "")),
            caller=str(log.fields.get("caller", caller)),
            model=request.model,
            chain=chain.hops,
            began=self._clock(),
            at=self._wall(),
            background=log.fields.get("background"),
            on_hop=self.request_log.counters.hop,
        )
        return Job(request, chain, caller, log, trace)

    async def _serve(self, job: Job, settle: Callable[[], None], send: Send) -> None:
        charger = UsageCharger(job.request, job.caller, self.people, send, settle)
        try:
            await self._engine.serve(job, charger.send)
        finally:
            charger.close()
            self._store.keep(job.trace.as_dict(self._clock()))

    def _ended(self, key: str, shared: SharedAnswer, settle: Callable[[], None]) -> None:
        settle()  # also where it was called off before it began
        if self._shared.get(key) is shared:
            del self._shared[key], self._traces[key]

    def models(self, caller: Caller) -> Sequence[ModelEntry]:
        """Every name that `caller` may ask for, chains first."""
        names = caller.key.chains if caller.key and caller.key.chains else self.catalogue.names()
        return [self._entry(name) for name in names if self.catalogue.knows(name)]

    def _knows(self, hop: Hop) -> bool:
        """Whether `hop` is of a chain, or of a model that was configured or told of."""
        chains = self.catalogue.chains.values()
        told = self.catalogue.models.get(hop.provider, ())
        return hop.model in told or any(hop in chain.hops for chain in chains)

    def _entry(self, name: str) -> ModelEntry:
        hops = self.catalogue.resolve(name).hops
        owner = "olp" if name in self.catalogue.chains else hops[0].provider
        return ModelEntry(
            name,
            owner,
            tuple(str(hop) for hop in hops),
            # Of a model the day is not known. That of the server's start stays the same for all.
            self.lasting.started_at,
            min(self._engine.contexts(hops).values(), default=None),
            frozenset(ability for hop in hops for ability in self._fleet.can(hop)),
        )

    def model(self, name: str) -> ModelEntry:
        """One name; RequestError 404 if it does not exist."""
        self.catalogue.resolve(name)
        return self._entry(name)

    @property
    def in_flight(self) -> int:
        """How many answers are being made."""
        return len(self._shared)

    def open(self) -> None:
        """Begin: the record is written, and the CLIs are asked about themselves in a moment."""
        self._store.open()
        self._pool.open()
        self._surveys = self.tasks.spawn(self._survey(), "survey")

    async def close(self) -> None:
        """End everything that runs."""
        await self._end()

    def close_record(self) -> None:
        """Write what is waiting to be written; nothing happens any more."""
        self._store.close()

    async def _end(self) -> None:
        self._pool.retire()
        await self.tasks.cancel_all()
        await self._pool.close()

    async def hand_over(self) -> None:
        """Another service goes on: end what waits, let the answers under way end by their own
        clocks, and leave open what the other one has taken over."""
        if self._surveys is not None:
            self._surveys.cancel()
        try:
            await self._pool.close()
            while len(self.tasks):
                await self.tasks.drain(None)
        finally:
            await self._end()

    def context(self, provider: str) -> ProviderContext | None:
        """Where one provider runs, if it is in use."""
        member = self._fleet.members.get(provider)
        return member.context if member else None

    async def drain(self, seconds: float) -> bool:
        """Let the answers under way end, at most so long; whether all did."""
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
        """Ask the CLIs for their models and plans; what each told. Costs no quota."""
        names = list(self._fleet.members) if providers is None else list(providers)
        told = await survey_all(self._fleet, names, self._clock, self._pool.surveyed)
        for name, one in told.items():
            self._admission.quota.note(name, one.windows, self._wall(), "survey")
            self._admission.contexts |= {Hop(name, model): reads for model, reads in one.contexts}
            if one.problem:
                self.log.warn("survey_failed", provider=name)
        self.lasting.models.update({n: one.models for n, one in told.items() if one.models})
        self.catalogue = self.catalogue.with_models(self.lasting.models)
        return told

    def clear_holds(self, provider: str | None) -> int:
        """Lift the quota holds of one provider or of all; how many there were."""
        return self._admission.holds.clear(provider)

    def health(self) -> Mapping[str, Any]:
        """How the providers really are, by what their last requests did."""
        report = self._health.report(self.catalogue, self.in_flight)
        return {**report, "live": self.request_log.live(), **self.people.report()}

    async def usage(self, caller: Caller, query: Mapping[str, str]) -> Mapping[str, Any]:
        """What the book says for `caller`; RequestError 400 if `query` cannot be understood."""
        names = {key.id: key.name for key in self.people.ring.keys}
        return await asyncio.to_thread(usage_for, caller, query, self._store, names)

    def health_for(self, caller: Caller) -> Mapping[str, Any]:
        """What a member may know of it, and what they have used."""
        mine = {entry.id: entry.hops for entry in self.models(caller)}
        chains = {name: mine[name] for name in self.catalogue.chains if name in mine}
        return {**self._health.summary(chains), "you": self.people.used(caller)}


def _nothing() -> None:
    """Nothing was set aside."""


def _new_id() -> str:
    return f"{random.getrandbits(48):012x}"


def _identity(request: Request, chain: Chain, caller: str) -> str:
    """What makes two requests the same: everything that shapes the answer, and who asks."""
    media = any(not isinstance(message.content, str) for message in request.messages)
    return hashlib.sha256(stamp(caller, chain, request, media=media)).hexdigest()
