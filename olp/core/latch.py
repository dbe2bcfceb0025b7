"""A door that is shut for a while and then lets one try it.

What the circuit breaker and the quota hold have in common: after the wait, exactly one request goes
through as a probe while the others still find the door shut, and how the probe ends decides.
"""

from __future__ import annotations


class Latch:
    """Shut until a time; times are seconds of one clock."""

    def __init__(self) -> None:
        self.until: float | None = None
        self.probing = False

    def __repr__(self) -> str:
        return f"Latch(until={self.until}, probing={self.probing})"

    def shut(self, until: float) -> None:
        """Shut it, or keep it shut, until then; a probe that was under way is over."""
        self.until = until
        self.probing = False

    def open(self) -> None:
        """Open it for everybody."""
        self.until = None
        self.probing = False

    def blocks(self, now: float) -> bool:
        """Whether a request that comes now has to stay out."""
        return self.until is not None and (now < self.until or self.probing)

    def enter(self) -> bool:
        """A request goes through; whether it is the probe, which has to say how it ended."""
        if self.until is None or self.probing:
            return False
        self.probing = True
        return True

    def leave(self) -> None:
        """The probe ended without saying anything: the next one may try."""
        self.probing = False
