"""The circuit breaker: skips a hop that fails repeatedly.

Otherwise a provider that is down delays every request. After `threshold` failures within `window_s`
the circuit opens; after `cooldown_s` one request probes it. Only the provider's own faults count
(see the trigger table).
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
    """One circuit per hop. Not persisted on purpose: a restart usually means that something was
    repaired."""

    def __init__(self, config: BreakerConfig) -> None:
        self._config = config
        self._circuits: dict[Hop, _Circuit] = {}

    def adopt(self, config: BreakerConfig) -> None:
        """Use another configuration from the next failure on."""
        self._config = config

    def forget(self, provider: str) -> None:
        """Drop the circuits of a provider."""
        self._circuits = {h: c for h, c in self._circuits.items() if h.provider != provider}

    def blocks(self, hop: Hop, now: float) -> bool:
        """Whether `hop` must be skipped now."""
        circuit = self._circuits.get(hop)
        return circuit is not None and circuit.gate.blocks(now)

    def opens_again(self, hop: Hop, now: float) -> float:
        """When `hop` may be tried again; `now` if at once, or if a probe is in progress."""
        circuit = self._circuits.get(hop)
        until = circuit.gate.until if circuit else None
        return now if until is None else max(now, until)

    def enter(self, hop: Hop) -> Probe | None:
        """Start an attempt at `hop`; returns a Probe if the attempt is one."""
        circuit = self._circuits.get(hop)
        return circuit.gate.enter() if circuit else None

    def note(self, hop: Hop, end: Done | Failed, now: float) -> str | None:
        """Record the end of an attempt; returns `opened` or `closed` if the circuit changed."""
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
        """The hops with an open circuit, and the seconds left (0: probe due or in progress)."""
        for hop, circuit in self._circuits.items():
            if circuit.gate.until is not None:
                yield hop, max(0.0, circuit.gate.until - now)
