"""What the pool keeps account of: the processes that wait, and what is known of each CLI."""

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
    """One such process."""

    provider: str
    worker: Worker
    session: Session

    kept: Mapping[str, str]
    """What the CLI had told of itself when it was started (see `ProviderContext`)."""

    born_at: float
    """When it was started, in steady seconds."""

    used_at: float = 0.0
    """When its last answer ended, or else its start, in steady seconds."""

    busy: bool = False
    """Whether it is leased."""

    caller: str = ""
    """Whose conversation it has."""

    conversation: str | None = None
    """The conversation that it last had, as it stands after the answer."""

    parked: bool = False
    """Whether it waits for the results of calls of the client's tools."""

    memory_mb: float = 0.0
    """What it and its children had in use when it was last measured."""

    watch: asyncio.Task[None] | None = None
    """Reads what it says while nobody has leased it."""

    def __post_init__(self) -> None:
        self.used_at = self.used_at or self.born_at

    @property
    def idle(self) -> bool:
        """Whether it waits and lives."""
        return not self.busy and self.worker.alive

    @property
    def can_begin(self) -> bool:
        """Whether it can take a conversation that is new to it."""
        if self.parked:
            return False
        known = self.conversation is not None and not self.session.reusable
        return self.idle and self.worker.ready and not known

    def prepare(self) -> None:
        """Get ready for another conversation."""
        if not self.worker.ready and isinstance(self.session, Preparing):
            self.worker.carry_out(self.session.prepare)

    async def unwatch(self) -> None:
        """Let nobody else read what it says."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})


@dataclass(slots=True)
class ProviderPool:
    """What the pool knows of one provider."""

    warm: int
    """How many should wait."""

    surveyed: bool = False
    """Whether the CLI was asked about itself."""

    processes: list[WarmProcess] = field(default_factory=list)

    booting: int = 0
    """How many are being started."""

    proven: bool = False
    """Whether one was ever ready."""

    refill_due: bool = False
    """Whether the number of those that wait will be looked at in a moment."""

    failures: int = 0
    """How many starts in a row have failed."""

    not_before: float = 0.0
    """Until when none is started, in steady seconds."""

    problem: str | None = None
    """Why the last start failed."""

    @property
    def missing(self) -> int:
        """How many more should be started."""
        ready = sum(warm.can_begin for warm in self.processes)
        coming_back = sum(warm.busy and warm.session.reusable for warm in self.processes)
        missing = self.warm - ready - self.booting - coming_back
        if self.warm and not (ready or self.booting):
            return max(missing, 1)  # the next request may come before any of them is back
        return missing

    def going_on(self, known: str | None, request: Request) -> WarmProcess | None:
        """The one that has the conversation `known` and can go on with it."""
        if known is None:
            return None
        idle = (s for s in self.processes if s.idle and s.conversation == known)
        return next((s for s in idle if s.session.can_resume(request)), None)

    def free(self, model: str, request: Request) -> WarmProcess | None:
        """One that can answer at once."""
        fit = [s for s in self.processes if s.can_begin and s.session.takes(request, model)]
        # One without a conversation first, then the one whose conversation is the oldest.
        return min(fit, key=lambda s: (s.conversation is not None, s.used_at), default=None)

    def soon_free(self, model: str, request: Request) -> WarmProcess | None:
        """One that prepares for another conversation: sooner ready than a process that starts."""
        busy = (s for s in self.processes if s.idle and not (s.worker.ready or s.parked))
        fit = (s for s in busy if s.session.reusable and s.session.takes(request, model))
        return next(fit, None)

    @property
    def remembers(self) -> bool:
        """Whether any process has a conversation."""
        return any(warm.conversation is not None for warm in self.processes)

    def report(self) -> dict[str, Any]:
        """What there is of it; memory in MB."""
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
