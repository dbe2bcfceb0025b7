"""Half-open gate: after `until`, admits one probe.

Shared by the circuit breaker and the quota hold: once the wait is over, exactly one request passes
as a probe while the others stay blocked, and its result decides.
"""

from __future__ import annotations


class Probe:
    """The one request that was admitted through a shut gate."""

    def __init__(self, gate: HalfOpenGate) -> None:
        self._gate = gate

    def leave(self) -> None:
        """The probe ended: if the gate is still shut, the next request may probe. Idempotent; no
        effect if another probe has replaced it."""
        if self._gate.probe is self:
            self._gate.probe = None


class HalfOpenGate:
    """Shut until a time, in seconds of one clock."""

    def __init__(self) -> None:
        self.until: float | None = None
        self.probe: Probe | None = None

    def __repr__(self) -> str:
        return f"HalfOpenGate(until={self.until}, probing={self.probe is not None})"

    def shut(self, until: float) -> None:
        """Shut it, or keep it shut, until then. A probe in progress is kept: this call may come
        from a request that started before the gate was shut."""
        self.until = until

    def open(self) -> None:
        """Open it for all requests."""
        self.until = None
        self.probe = None

    def shut_at(self, now: float) -> bool:
        """Whether the wait is not over yet."""
        return self.until is not None and now < self.until

    def blocks(self, now: float) -> bool:
        """Whether a new request is refused now."""
        return self.until is not None and (now < self.until or self.probe is not None)

    def enter(self) -> Probe | None:
        """Admit a request; returns a Probe if the gate is shut and none is in progress."""
        if self.until is None or self.probe is not None:
            return None
        self.probe = Probe(self)
        return self.probe
