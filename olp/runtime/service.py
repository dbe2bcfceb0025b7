"""The runtime's front door: what a server may ask of it, whatever public API the server speaks."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from olp.core.chains import Catalogue, Chain
from olp.core.quota import Reading
from olp.events import Trouble
from olp.model import Request
from olp.runtime.engine import Engine, Job, Send
from olp.runtime.fleet import Fleet
from olp.runtime.flight import Flight, Reader
from olp.runtime.log import Log
from olp.runtime.pool import Pool
from olp.runtime.record import Record
from olp.runtime.story import Story
from olp.runtime.survey import Surveyed, survey_all
from olp.runtime.tasks import Tasks


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One name that a client may ask for, and the hops behind it."""

    id: str
    owned_by: str
    hops: tuple[str, ...]


SURVEY_AFTER_S = 0.5
"""Seconds after the start at which the CLIs are asked about themselves for the first time."""

SURVEY_EVERY_S = 300.0
"""Seconds between two surveys of a plan that a threshold watches."""


class Service:
    """Answers requests and tells about itself. `watched` are the providers whose plan a threshold
    looks at."""

    def __init__(
        self,
        catalogue: Catalogue,
        fleet: Fleet,
        pool: Pool,
        engine: Engine,
        record: Record,
        tasks: Tasks,
        log: Log,
        watched: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.catalogue = catalogue
        self.log = log
        self.tasks = tasks
        self._fleet = fleet
        self._pool = pool
        self._engine = engine
        self._books = engine.books
        self._record = record
        self._wall = wall
        self._clock = clock
        self._started = clock()
        self._flights: dict[str, Flight] = {}
        self._watched = tuple(watched)
        self._surveys: asyncio.Task[None] | None = None

    def chain(self, request: Request) -> Chain:
        """The hops that may answer; RequestError 404 for a model that nobody serves."""
        chain = self.catalogue.resolve(request.model)
        return chain.without_substitution() if request.forbid_substitution else chain

    def board(self, request: Request, chain: Chain, caller: str, log: Log) -> Reader:
        """A reader of the answer: of an identical request of the same caller that is in the air,
        or of one that starts now."""
        key = _identity(request, chain, caller)
        flight = self._flights.get(key)
        if flight is None or not flight.joinable:
            chain_log = log.bind(
                chain=chain.name, chain_id=secrets.token_hex(6), request_hash=key[:12]
            )
            job = self._job(request, chain, caller, chain_log)
            flight = Flight(partial(self._serve, job), self.tasks)
            flight.on_over(partial(self._landed, key, flight))
            self._flights[key] = flight
        return flight.join()

    def _job(self, request: Request, chain: Chain, caller: str, log: Log) -> Job:
        story = Story(
            str(log.fields.get("request_id", "")),
            caller=caller,
            model=request.model,
            chain=chain.hops,
            began=self._clock(),
            at=self._wall(),
        )
        return Job(request, chain, caller, log, story)

    async def _serve(self, job: Job, send: Send) -> None:
        try:
            await self._engine.serve(job, send)
        finally:
            self._record.keep(job.story.as_dict(self._clock()))

    def _landed(self, key: str, flight: Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    def models(self) -> Sequence[ModelEntry]:
        """Every name, chains first."""
        return [self._entry(name) for name in self.catalogue.names()]

    def _entry(self, name: str) -> ModelEntry:
        hops = self.catalogue.resolve(name).hops
        owner = "olp" if name in self.catalogue.chains else hops[0].provider
        return ModelEntry(name, owner, tuple(str(hop) for hop in hops))

    def model(self, name: str) -> ModelEntry:
        """One name; RequestError 404 if it does not exist."""
        self.catalogue.resolve(name)
        return self._entry(name)

    @property
    def in_flight(self) -> int:
        """How many answers are being made."""
        return len(self._flights)

    def open(self) -> None:
        """Begin: the record is written, and the CLIs are asked about themselves in a moment."""
        self._record.open()
        self._pool.open()
        self._surveys = self.tasks.spawn(self._survey(), "survey")

    async def close(self) -> None:
        """End everything that runs, and write what is waiting to be written."""
        self._pool.retire()
        await self.tasks.cancel_all()
        await self._pool.close()
        self._record.close()

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
        told = await survey_all(self._fleet, names, self._clock)
        for name, one in told.items():
            self._books.quota.note(name, one.windows, self._wall(), "survey")
            if one.trouble:
                self.log.warn("survey_failed", provider=name)
        self.catalogue = self.catalogue.with_models({n: one.models for n, one in told.items()})
        return told

    def clear_holds(self, provider: str | None) -> int:
        """Lift the quota holds of one provider or of all; how many there were."""
        return self._books.holds.clear(provider)

    def health(self) -> Mapping[str, Any]:
        """How the providers really are, by what their last requests did."""
        now, wall = self._clock(), self._wall()
        providers = {name: self._provider(name, now, wall) for name in self._fleet.members}
        usable = any(report["state"] != "failing" for report in providers.values())
        return {
            "status": "ok" if usable else "failing",
            "uptime_s": round(now - self._started),
            "in_flight": self.in_flight,
            "record": self._record.trouble or "ok",
            "providers": providers,
            "chains": {
                name: [str(hop) for hop in chain.hops]
                for name, chain in self.catalogue.chains.items()
            },
        }

    def _provider(self, name: str, now: float, wall: float) -> dict[str, Any]:
        books = self._books
        day = datetime.fromtimestamp(wall).strftime("%Y-%m-%d")
        member = self._fleet.members[name]
        report = books.vitals.report(name, now)
        failure = report["last_failure"]
        if failure and failure["code"] == Trouble.AUTH_MISSING:
            report["fix"] = member.provider.facts.login
        return {
            **report,
            "waiting": self._pool.report(name),
            "slots": {"active": books.slots.active[name], "max": books.slots.limits[name]},
            "quota": {
                "requests_today": books.quota.requests(name, day),
                "windows": [_window(r, wall) for r in books.quota.readings(name)],
                "holds": [
                    {
                        "model": scope[1],
                        "next_probe_s": round(left),
                        "resets_at": resets_at,
                        "reason": reason,
                    }
                    for scope, left, resets_at, reason in books.holds.report(now)
                    if scope[0] == name
                ],
            },
            "open_circuits": [
                {"model": hop.model, "next_try_s": round(left)}
                for hop, left in books.breaker.open_circuits(now)
                if hop.provider == name
            ],
        }


def _window(reading: Reading, wall: float) -> dict[str, Any]:
    window = reading.window
    return {
        "name": window.name,
        "model": window.model,
        "used_percent": round(window.used, 1),
        "resets_at": window.resets_at,
        "age_s": round(wall - reading.at),
        "source": reading.source,
        "fresh": reading.fresh(wall),
    }


def _identity(request: Request, chain: Chain, caller: str) -> str:
    """What makes two requests the same: everything that shapes the answer, and who asks."""
    return hashlib.sha256(repr((caller, chain, request)).encode("utf-8", "replace")).hexdigest()
