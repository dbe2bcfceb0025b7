"""The request log: the outcome of each client request, without content.

A `RequestEntry` covers one request, from authentication to its last byte. Hops and tokens come from
the trace of the answer, which identical requests may share. At its end it is queued for the usage
store and counted for /metrics; neither blocks the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from olp.core.answer.tokens import asked
from olp.core.days import day_of
from olp.errors import RequestError
from olp.events import Answering, CallStarted, Done, Failed, Output, Reasoning, Refused, Text, Usage
from olp.model import Hop, Request, is_model_id
from olp.runtime.access.caller import Caller
from olp.runtime.usage.counters import Counters
from olp.runtime.usage.entries import Outcome, RequestInFlight, RequestRow
from olp.runtime.usage.store import UsageStore
from olp.runtime.usage.trace import RequestTrace

Clock = Callable[[], float]

_OWN_ENDS = {"server_stopping": Outcome.INTERRUPTED, "internal_error": Outcome.ERROR}
"""Errors sent to a client that are not its own fault."""


class RequestLog:
    """All requests of one server. `clock` is monotonic, `wall` in epoch seconds."""

    def __init__(self, store: UsageStore, clock: Clock, wall: Clock) -> None:
        self.counters = Counters()
        self._store = store
        self._clock = clock
        self._wall = wall
        self._in_flight: dict[str, RequestEntry] = {}

    def entry(self, request_id: str, caller: Caller, dialect: str) -> RequestEntry:
        """A new entry, to be used as a context manager."""
        return RequestEntry(self, request_id, caller, dialect, self._clock(), self._wall())

    def live(self) -> list[dict[str, Any]]:
        """The requests in flight, the oldest first."""
        now = self._clock()
        return [entry.told_of(now) for entry in self._in_flight.values()]

    def begin(self, entry: RequestEntry, row: RequestInFlight) -> None:
        """A request was admitted."""
        self._in_flight[entry.id] = entry
        self._store.begun(row)

    @property
    def run(self) -> str:
        """The id of this run of the server."""
        return self._store.run

    def end(self, entry: RequestEntry, error: BaseException | None) -> None:
        """A request has ended."""
        self._in_flight.pop(entry.id, None)
        row = entry.row(self._clock(), error)
        self.counters.request(row, entry.hop, entry.caller.name)
        self._store.ended(row, entry.caller.name, entry.also_called)


class RequestEntry:
    """One request of `caller`. The server sets its attributes as they become known."""

    def __init__(
        self,
        log: RequestLog,
        request_id: str,
        caller: Caller,
        dialect: str,
        began: float,
        at: float,
    ) -> None:
        self.id = request_id
        self.caller = caller
        self.asked = ""
        self.bytes_in = 0
        self.bytes_out = 0
        self.all_sent = False
        self.error: RequestError | None = None
        self._log = log
        self._dialect = dialect
        self._began = began
        self._at = at
        self._request: Request | None = None
        self._background = ""
        self._trace: RequestTrace | None = None
        self._head: Answering | None = None
        self._end: Done | Failed | Refused | None = None
        self._first_at: float | None = None

    def __enter__(self) -> RequestEntry:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._log.end(self, error)

    # --- in flight -----------------------------------------------------------------------------

    def joined(self, request: Request, background: str | None, trace: RequestTrace) -> None:
        """The request is within all limits, and waits for the answer of `trace`."""
        self._request, self._background, self._trace = request, background or "", trace
        trace.aboard += 1
        row = RequestInFlight(
            *(self.id, self._log.run, self._at, self._day, self.caller.id, self._dialect),
            *(int(request.stream), self._background, self._model_asked),
        )
        self._log.begin(self, row)

    def told(self, outputs: Sequence[Output], now: float) -> None:
        """Record the next outputs for its client."""
        for output in outputs:
            match output:
                case Answering():
                    self._head = output
                case Text() | Reasoning() | CallStarted() if self._first_at is None:
                    self._first_at = now
                case Done() | Failed() | Refused():
                    self._end = output

    @property
    def hop(self) -> Hop | None:
        """The hop that answers, or the last one tried, by the chain's names."""
        if isinstance(self._end, Refused):
            return Hop(self._end.provider, self._end.model)
        place = self._trace.at_hop if self._trace else None
        return place[1] if place else None

    @property
    def also_called(self) -> str:
        """The chain's name of the answering model, if the reported id differs; else empty."""
        hop, head = self.hop, self._head
        if hop is None or head is None or hop.provider != head.provider:
            return ""
        return hop.model if hop.model != head.model else ""

    def told_of(self, now: float) -> dict[str, Any]:
        """The request as JSON, for the live view."""
        hop = self.hop
        return {
            "request_id": self.id,
            "person": self.caller.name,
            "asked": self._model_asked,
            "provider": hop.provider if hop else None,
            "model": hop.model if hop else None,
            "answering": self._head is not None,
            "background": self._background or None,
            "seconds": round(now - self._began, 1),
        }

    # --- at its end ----------------------------------------------------------------------------

    def row(self, now: float, error: BaseException | None) -> RequestRow:
        """The row for the request log. `error` is the handler's exception. Call it once."""
        outcome, status, code = self._how_it_ended(error)
        hops, provider, model = self._by_whom()
        shared = self._left_others()
        usage = Usage() if self._trace is None or shared else self._trace.spent(self._prompt)
        return RequestRow(
            *(self.id, self._at, self._day, self.caller.id, self._dialect),
            stream=int(self._request is not None and self._request.stream),
            background=self._background,
            asked=self._model_asked,
            provider=provider,
            model=model,
            hops=hops,
            codes=self._trace.codes if self._trace else "",
            cache="shared" if shared else self._head.cache if self._head else "",
            outcome=outcome.value,
            status=status,
            code=code,
            input=usage.input,
            output=usage.output,
            cached=usage.cached,
            cache_written=usage.cache_written,
            reasoning=usage.reasoning,
            estimated=int(usage.estimated),
            cost=usage.cost,
            first_ms=None if self._first_at is None else self._since(self._first_at),
            total_ms=self._since(now),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
        )

    def _since(self, moment: float) -> int:
        return round((moment - self._began) * 1000)

    @property
    def _day(self) -> str:
        return day_of(self._at)

    @property
    def _model_asked(self) -> str:
        """The requested model, or `?` if it is no valid model id: it could be any text."""
        return self.asked if is_model_id(self.asked) else "?" if self.asked else ""

    def _prompt(self) -> int:
        assert self._request is not None
        return asked(self._request)

    def _left_others(self) -> bool:
        """Leave the shared answer; True if others still read it. The last one carries its
        usage."""
        if self._trace is None:
            return False
        self._trace.aboard -= 1
        return self._trace.aboard > 0

    def _by_whom(self) -> tuple[int, str, str]:
        if self._head is not None:
            return self._head.hops, self._head.provider, self._head.model
        if isinstance(self._end, Refused):
            return self._end.hops, self._end.provider, self._end.model
        place = self._trace.at_hop if self._trace else None
        return (place[0], place[1].provider, place[1].model) if place else (0, "", "")

    def _how_it_ended(self, error: BaseException | None) -> tuple[Outcome, int | None, str]:
        """Outcome, HTTP status and error code."""
        if isinstance(error, RequestError):
            self.error = error
        if self.error is not None:
            code = self.error.code or "invalid_request"
            status = 200 if self._head and self._request and self._request.stream else None
            return _OWN_ENDS.get(code, Outcome.REFUSED), status or self.error.status, code
        left = isinstance(error, asyncio.CancelledError | ConnectionError | TimeoutError)
        if left and not self.all_sent:
            return Outcome.LEFT, 200 if self._head else None, ""
        if error is not None and not left:
            status = int(getattr(error, "status", 500))
            refused = status < 500
            code = "bad_request" if refused else "internal_error"
            return Outcome.REFUSED if refused else Outcome.ERROR, status, code
        match self._end:
            case Refused(failed=failed, status=status):
                return Outcome.FAILED, status, failed.code.value
            case Failed(error_code):
                return Outcome.BROKE_OFF, 200, error_code.value
            case Done(truncated=True):
                return Outcome.TRUNCATED, 200, ""
            case Done():
                return Outcome.ANSWERED, 200, ""
            case None:
                return Outcome.ERROR, None, "internal_error"
