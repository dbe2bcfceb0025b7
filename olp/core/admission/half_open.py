"""A door that is shut for a while and then lets one try it.

What the circuit breaker and the quota hold have in common: after the wait, exactly one request goes
through as a probe while the others still find the door shut, and how the probe ends decides.
"""

from __future__ import annotations


class Probe:
    """The one request that tries a shut door."""

    def __init__(self, gate: HalfOpenGate) -> None:
        self._latch = gate

    def leave(self) -> None:
        """It has ended, whatever came of it: if the door is still shut, the next one may try. A
        second call does nothing, nor does one that comes when another has taken its place."""
        if self._latch.probe is self:
            self._latch.probe = None


class HalfOpenGate:
    """Shut until a time; times are seconds of one clock."""

    def __init__(self) -> None:
        self.until: float | None = None
        self.probe: Probe | None = None

    def __repr__(self) -> str:
        return f"Latch(until={self.until}, probing={self.probe is not None})"

    def shut(self, until: float) -> None:
        """Shut it, or keep it shut, until then. A probe that is under way stays the only one: the
        news may come from a request that was on its way before the door was shut."""
        self.until = until

    def open(self) -> None:
        """Open it for everybody."""
        self.until = None
        self.probe = None

    def shut_at(self, now: float) -> bool:
        """Whether the wait is not over yet."""
        return self.until is not None and now < self.until

    def blocks(self, now: float) -> bool:
        """Whether a request that comes now has to stay out."""
        return self.until is not None and (now < self.until or self.probe is not None)

    def enter(self) -> Probe | None:
        """A request goes through; the probe that it is, if it is the one."""
        if self.until is None or self.probe is not None:
            return None
        self.probe = Probe(self)
        return self.probe
