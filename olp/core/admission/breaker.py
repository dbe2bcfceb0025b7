"""The circuit breaker: leaves a hop alone for a while that fails again and again.

A provider that is down costs every request the time of finding that out. After a few failures in a
short time its door is shut; after the cool-down one request tries it again. Only the provider's
own faults are counted; the trigger table says which those are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from olp.config import BreakerConfig
from olp.core.admission.half_open import HalfOpenGate, Probe
from olp.core.routing.triggers import counted
from olp.events import Done, Failed
from olp.model import Hop


@dataclass(slots=True)
class _Circuit:
    failures: deque[float] = field(default_factory=deque)
    gate: HalfOpenGate = field(default_factory=HalfOpenGate)


class Breaker:
    """One circuit for each hop target (provider and model). Lost with the process, on purpose: a
    restart is a person's way of saying that something was repaired."""

    def __init__(self, config: BreakerConfig) -> None:
        self._config = config
        self._circuits: dict[Hop, _Circuit] = {}

    def adopt(self, config: BreakerConfig) -> None:
        """Go by another configuration from the next failure on."""
        self._config = config

    def forget(self, provider: str) -> None:
        """Nothing is known of the provider's models any more."""
        self._circuits = {h: c for h, c in self._circuits.items() if h.provider != provider}

    def blocks(self, hop: Hop, now: float) -> bool:
        """Whether `hop` is to be left alone now."""
        circuit = self._circuits.get(hop)
        return circuit is not None and circuit.gate.blocks(now)

    def opens_again(self, hop: Hop, now: float) -> float:
        """When `hop` may be tried again; `now` if it may, or if only a probe is in the way."""
        circuit = self._circuits.get(hop)
        until = circuit.gate.until if circuit else None
        return now if until is None else max(now, until)

    def enter(self, hop: Hop) -> Probe | None:
        """An attempt at `hop` begins; the probe that it is, if it is one."""
        circuit = self._circuits.get(hop)
        return circuit.gate.enter() if circuit else None

    def note(self, hop: Hop, end: Done | Failed, now: float) -> str | None:
        """How an attempt ended; `opened` or `closed` if that changes the circuit."""
        if isinstance(end, Failed) and counted(end):
            return self._failed(self._circuits.setdefault(hop, _Circuit()), now)
        circuit = self._circuits.get(hop)
        if circuit is not None and isinstance(end, Done) and not end.truncated:
            was_open = circuit.gate.until is not None
            circuit.gate.open()
            del self._circuits[hop]
            return "closed" if was_open else None
        return None

    def _failed(self, circuit: _Circuit, now: float) -> str | None:
        circuit.failures.append(now)
        while circuit.failures and circuit.failures[0] <= now - self._config.window_s:
            circuit.failures.popleft()
        while len(circuit.failures) > self._config.threshold:
            circuit.failures.popleft()
        if len(circuit.failures) < self._config.threshold:
            if not circuit.gate.shut_at(now):
                circuit.gate.open()
            return None
        was_shut = circuit.gate.shut_at(now)
        circuit.gate.shut(now + self._config.cooldown_s)
        return None if was_shut else "opened"

    def open_circuits(self, now: float) -> Iterable[tuple[Hop, float]]:
        """The hops that are shut, and for how many seconds (0: a probe is due or under way)."""
        for hop, circuit in self._circuits.items():
            if circuit.gate.until is not None:
                yield hop, max(0.0, circuit.gate.until - now)
