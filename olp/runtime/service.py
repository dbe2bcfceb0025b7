"""The runtime's front door: what a server may ask of it, whatever public API the server speaks."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from olp.core.chains import Catalogue, Chain
from olp.core.vitals import Vitals
from olp.model import Request
from olp.runtime.engine import Engine
from olp.runtime.fleet import Fleet
from olp.runtime.flight import Flight, Reader
from olp.runtime.log import Log
from olp.runtime.tasks import Tasks


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One name that a client may ask for, and the hops behind it."""

    id: str
    owned_by: str
    hops: tuple[str, ...]


class Service:
    """Answers requests and tells about itself."""

    def __init__(
        self,
        catalogue: Catalogue,
        fleet: Fleet,
        engine: Engine,
        vitals: Vitals,
        tasks: Tasks,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.catalogue = catalogue
        self.log = log
        self.tasks = tasks
        self._fleet = fleet
        self._engine = engine
        self._vitals = vitals
        self._clock = clock
        self._started = clock()
        self._flights: dict[str, Flight] = {}

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
            run = partial(self._engine.serve, request, chain, log=chain_log)
            flight = Flight(run, self.tasks)
            flight.on_over(partial(self._landed, key, flight))
            self._flights[key] = flight
        return flight.join()

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

    def health(self) -> Mapping[str, Any]:
        """How the providers really are, by what their last requests did."""
        now = self._clock()
        slots = self._engine.slots
        providers = {
            name: self._vitals.report(name, now)
            | {"slots": {"active": slots.active[name], "max": slots.limits[name]}}
            for name in self._fleet.members
        }
        states = {report["state"] for report in providers.values()}
        usable = not providers or states - {"failing"}
        return {
            "status": "ok" if usable and providers else "failing",
            "uptime_s": round(now - self._started),
            "in_flight": self.in_flight,
            "providers": providers,
            "chains": {
                name: [str(hop) for hop in chain.hops]
                for name, chain in self.catalogue.chains.items()
            },
        }


def _identity(request: Request, chain: Chain, caller: str) -> str:
    """What makes two requests the same: everything that shapes the answer, and who asks."""
    return hashlib.sha256(repr((caller, chain, request)).encode("utf-8", "replace")).hexdigest()
