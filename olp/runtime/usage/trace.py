"""The trace of one request, for `olp why`: hops tried, timings, and the result.

It has no content: no prompt, no answer, and no vendor message that could quote one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from olp.core.answer.tokens import BYTES_PER_TOKEN
from olp.core.routing.notes import AttemptEnded
from olp.events import (
    Answering,
    CallArguments,
    Done,
    ErrorCode,
    Failed,
    Output,
    Reasoning,
    Refused,
    Text,
    Usage,
)
from olp.model import Hop
from olp.runtime.process.stats import ProcessStats


@dataclass(slots=True)
class AttemptTrace:
    hop: Hop
    index: int
    report: ProcessStats | None = None
    code: str | None = None
    trigger_type: str | None = None
    status: int | None = None


OnHop = Callable[[Hop, str, str], None]
"""Called at each hop's end with the hop, its code, and the trigger type."""


class RequestTrace:
    """Collected while the request is served. `began` is in monotonic, `at` in epoch seconds;
    `aboard` is the number of clients reading the answer."""

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
        on_hop: OnHop = lambda hop, code, trigger: None,
    ) -> None:
        self.request_id = request_id
        self.at = at
        self.aboard = 0
        self._on_hop = on_hop
        self._caller = caller
        self._background = background
        self._model = model
        self._began = began
        self._tries = [AttemptTrace(hop, index) for index, hop in enumerate(chain)]
        self._reached = -1
        self._first_at: float | None = None
        self._answering: Answering | None = None
        self._usage: Usage | None = None
        self._told_bytes = 0
        self._end: Output | None = None

    def asked(self, hop: Hop, report: ProcessStats) -> None:
        """An attempt at `hop` has started."""
        for tried in self._tries:
            if tried.hop == hop:
                tried.report = report
                self._reached = max(self._reached, tried.index)

    def ended(self, attempt: AttemptEnded) -> None:
        """Record what came of a hop that answered, failed or was skipped."""
        tried = self._tries[attempt.index]
        if attempt.code is None and not attempt.retried:
            self._on_hop(tried.hop, "OK", "none")
            return
        # A hop tried despite its open circuit was not skipped: no code.
        tried.code = attempt.code.value if attempt.code else None
        tried.trigger_type = attempt.trigger.value if attempt.trigger else None
        tried.status = attempt.status
        self._reached = max(self._reached, attempt.index)
        if tried.code:
            self._on_hop(tried.hop, tried.code, tried.trigger_type or "none")

    def told(self, outputs: Sequence[Output], now: float) -> None:
        """Record the outputs sent to the readers."""
        for output in outputs:
            match output:
                case Answering():
                    self._answering = output
                case Text(text) | Reasoning(text) | CallArguments(_, text):
                    self._told_bytes += len(text.encode("utf-8", "replace"))
                    self._first_at = now if self._first_at is None else self._first_at
                case Usage():
                    self._usage = output
                case Done() | Failed() | Refused():
                    self._end = output
                    self._note_end(output)

    def _note_end(self, end: Output) -> None:
        """Record the end of the answer at once: its note comes after the process exit, too late
        for the request log."""
        if self._answering is None:
            return
        tried = self._tries[self._answering.hops]
        match end:
            case Failed(error_code):
                tried.code = error_code.value
            case Done(truncated=True):
                tried.code = ErrorCode.SPAWN_FAILED.value

    @property
    def at_hop(self) -> tuple[int, Hop] | None:
        """Index and hop that answers, or else the last one tried; None before the first."""
        index = self._answering.hops if self._answering else self._reached
        return (index, self._tries[index].hop) if index >= 0 else None

    @property
    def codes(self) -> str:
        """The failed or skipped hops in order, as `claude/sonnet=RATE_LIMITED`."""
        return " ".join(f"{tried.hop}={tried.code}" for tried in self._tries if tried.code)

    def spent(self, prompt: Callable[[], int]) -> Usage:
        """The usage so far, as UsageCharger computes it: zero before an answer or for a cached one,
        an estimate if the CLI reported none. `prompt` estimates the tokens of the request."""
        if self._answering is None or self._answering.cache == "hit":
            return Usage()
        if self._usage is not None:
            return replace(self._usage, input=self._usage.input + self._usage.beyond)
        output = -(-self._told_bytes // BYTES_PER_TOKEN)
        return Usage(input=prompt(), output=output, estimated=True)

    def as_dict(self, now: float) -> dict[str, Any]:
        """The whole trace; durations in milliseconds from the request's arrival."""
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
            case Failed(error_code):
                return f"broke off ({error_code})"
            case Refused(failed=failed, status=status):
                return f"refused with {status} ({failed.code})"
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


def _told(tried: AttemptTrace, since: Callable[[float | None], int | None]) -> dict[str, Any]:
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
            "waiting_process": report.waits,
        }
    return out


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input": usage.input + usage.beyond,
        "output": usage.output,
        "cached": usage.cached,
        "cache_written": usage.cache_written,
        "reasoning": usage.reasoning,
        "estimated": usage.estimated,
        "cost": usage.cost,
    }
