"""The pool's state: warm processes, and per-provider counters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from olp.model import Request
from olp.providers.base import Preparing, Session
from olp.runtime.process.worker import Worker


@dataclass(slots=True, eq=False)
class WarmProcess:
    """One warm process."""

    provider: str
    worker: Worker
    session: Session

    kept: Mapping[str, str]
    """The kept survey files that it was started with (see `ProviderContext`)."""

    born_at: float
    """Start time, monotonic seconds."""

    used_at: float = 0.0
    """End of its last answer, else its start; monotonic seconds."""

    busy: bool = False
    """Whether it is leased."""

    caller: str = ""
    """The caller whose conversation it holds."""

    conversation: str | None = None
    """Conversation key after its last answer."""

    parked: bool = False
    """Whether it waits for results of the client's tool calls."""

    memory_mb: float = 0.0
    """Resident memory of it and its children in MB, as last measured."""

    watch: asyncio.Task[None] | None = None
    """Reads its output while it is not leased."""

    def __post_init__(self) -> None:
        self.used_at = self.used_at or self.born_at

    @property
    def idle(self) -> bool:
        """Whether it is alive and not leased."""
        return not self.busy and self.worker.alive

    @property
    def can_begin(self) -> bool:
        """Whether it can take a new conversation."""
        if self.parked:
            return False
        known = self.conversation is not None and not self.session.reusable
        return self.idle and self.worker.ready and not known

    def prepare(self) -> None:
        """Prepare it for another conversation, unless it is ready."""
        if not self.worker.ready and isinstance(self.session, Preparing):
            self.worker.carry_out(self.session.prepare)

    async def unwatch(self) -> None:
        """Cancel the watch task and wait for its end."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})


@dataclass(slots=True)
class ProviderPool:
    """The warm processes of one provider."""

    warm: int
    """Configured number of ready processes."""

    surveyed: bool = False
    """Whether the CLI was surveyed."""

    processes: list[WarmProcess] = field(default_factory=list)

    booting: int = 0
    """How many are being started."""

    proven: bool = False
    """Whether any process ever became ready."""

    refill_due: bool = False
    """Whether a refill is scheduled."""

    failures: int = 0
    """Failed starts in a row."""

    not_before: float = 0.0
    """No start before this time (backoff), monotonic seconds."""

    problem: str | None = None
    """Why the last start failed."""

    @property
    def missing(self) -> int:
        """How many more to start."""
        ready = sum(warm.can_begin for warm in self.processes)
        coming_back = sum(warm.busy and warm.session.reusable for warm in self.processes)
        missing = self.warm - ready - self.booting - coming_back
        if self.warm and not (ready or self.booting):
            return max(missing, 1)  # the next request may come before any of them is back
        return missing

    def going_on(self, known: str | None, request: Request) -> WarmProcess | None:
        """An idle process that holds the conversation `known` and can resume it."""
        if known is None:
            return None
        idle = (s for s in self.processes if s.idle and s.conversation == known)
        return next((s for s in idle if s.session.can_resume(request)), None)

    def free(self, model: str, request: Request) -> WarmProcess | None:
        """A process that can answer at once."""
        fit = [s for s in self.processes if s.can_begin and s.session.takes(request, model)]
        # One without a conversation first, then the one whose conversation is the oldest.
        return min(fit, key=lambda s: (s.conversation is not None, s.used_at), default=None)

    def soon_free(self, model: str, request: Request) -> WarmProcess | None:
        """A process that is being prepared for reuse: ready sooner than a new one."""
        busy = (s for s in self.processes if s.idle and not (s.worker.ready or s.parked))
        fit = (s for s in busy if s.session.reusable and s.session.takes(request, model))
        return next(fit, None)

    @property
    def remembers(self) -> bool:
        """Whether any process holds a conversation."""
        return any(warm.conversation is not None for warm in self.processes)

    def report(self) -> dict[str, Any]:
        """Counts for the health report; memory in MB."""
        return {
            "warm": self.warm,
            "ready": sum(warm.can_begin for warm in self.processes),
            "busy": sum(warm.busy for warm in self.processes),
            "conversations": sum(s.conversation is not None for s in self.processes),
            "parked": sum(s.parked for s in self.processes),
            "starting": self.booting,
            "memory_mb": round(sum(s.memory_mb for s in self.processes)),
            "problem": self.problem,
        }
