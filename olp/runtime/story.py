"""The story of one request, for `olp why`: what was tried, how long it took, why it ended.

No content: no prompt, no answer, and no words of a vendor that could quote one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from olp.core.walk import Note
from olp.events import Answering, Done, Failed, Output, Reasoning, Refused, Text, Usage
from olp.model import Hop


@dataclass(slots=True)
class Report:
    """What a worker tells of its process. Times are steady seconds, sizes are bytes."""

    spawned_at: float | None = None
    first_output_at: float | None = None
    ended_at: float | None = None
    written: int = 0
    read: int = 0
    exit_code: int | None = None


_ABOUT_HOPS = frozenset(
    {"fallback_hop_error", "spawn_failed_after_usable_chunks", "breaker_forced_attempt"}
)
"""The walk's notes that say how a hop fared."""


@dataclass(slots=True)
class _Try:
    hop: Hop
    index: int
    report: Report | None = None
    code: str | None = None
    trigger_type: str | None = None
    status: int | None = None


class Story:
    """Collects while the request is served; `as_dict` tells it. `began` is steady, `at` epoch
    seconds."""

    def __init__(
        self,
        request_id: str,
        *,
        caller: str,
        model: str,
        chain: Sequence[Hop],
        began: float,
        at: float,
        background: str | None = None,
    ) -> None:
        self.request_id = request_id
        self.at = at
        self._caller = caller
        self._background = background
        self._model = model
        self._began = began
        self._tries = [_Try(hop, index) for index, hop in enumerate(chain)]
        self._reached = -1
        self._first_at: float | None = None
        self._answering: Answering | None = None
        self._usage: Usage | None = None
        self._end: Output | None = None

    def asked(self, hop: Hop, report: Report) -> None:
        """`hop` is being asked."""
        for tried in self._tries:
            if tried.hop == hop:
                tried.report = report
                self._reached = max(self._reached, tried.index)

    def note(self, note: Note) -> None:
        """What the walk noted of a hop that failed or was skipped."""
        if note.event not in _ABOUT_HOPS:
            return
        tried = self._tries[note.fields["hop"]]
        # A hop that is tried in spite of its open circuit is not skipped after all: no code.
        tried.code = note.fields.get("code")
        tried.trigger_type = note.fields.get("trigger_type")
        tried.status = note.fields.get("status")
        self._reached = max(self._reached, tried.index)

    def told(self, outputs: Sequence[Output], now: float) -> None:
        """What went to the reader."""
        for output in outputs:
            match output:
                case Answering():
                    self._answering = output
                case Text() | Reasoning() if self._first_at is None:
                    self._first_at = now
                case Usage():
                    self._usage = output
                case Done() | Failed() | Refused():
                    self._end = output

    def as_dict(self, now: float) -> dict[str, Any]:
        """The whole story; durations in milliseconds from the request's arrival."""
        since = self._since
        return {
            "request_id": self.request_id,
            "at": self.at,
            "caller": self._caller,
            "asked": self._model,
            "background": self._background,
            "outcome": self._outcome(),
            "answered_by": self._answered_by(),
            "first_content_ms": since(self._first_at),
            "total_ms": since(now),
            "usage": _usage(self._usage),
            "hops": [_told(t, since) for t in self._tries if t.index <= self._reached],
        }

    def _since(self, moment: float | None) -> int | None:
        return None if moment is None else round((moment - self._began) * 1000)

    def _outcome(self) -> str:
        match self._end:
            case Done(finish, truncated):
                return f"truncated ({finish})" if truncated else f"answered ({finish})"
            case Failed(trouble):
                return f"broke off ({trouble})"
            case Refused(failed=failed, status=status):
                return f"refused with {status} ({failed.trouble})"
            case _:
                return "the client left"

    def _answered_by(self) -> dict[str, Any] | None:
        head = self._answering
        if head is None:
            return None
        return {
            "provider": head.provider,
            "model": head.model,
            "hop": head.hops,
            "cache": head.cache,
        }


def _told(tried: _Try, since: Callable[[float | None], int | None]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "hop": tried.index,
        "provider": tried.hop.provider,
        "model": tried.hop.model,
        "code": tried.code,
        "trigger_type": tried.trigger_type,
        "status": tried.status,
        "asked": tried.report is not None,
    }
    if report := tried.report:
        out |= {
            "spawned_ms": since(report.spawned_at),
            "first_output_ms": since(report.first_output_at),
            "ended_ms": since(report.ended_at),
            "bytes_written": report.written,
            "bytes_read": report.read,
            "exit_code": report.exit_code,
        }
    return out


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input": usage.input,
        "output": usage.output,
        "cached": usage.cached,
        "reasoning": usage.reasoning,
        "cost": usage.cost,
    }
