"""What OLP itself does to an answer: stop strings, the token limit, the JSON check, the usage.

A CLI cannot be asked for the first, not every one for the second, and none can be trusted with the
third. `Shaper` stands between a driver and the walk; when `over` it wants no more events, and the
process can be ended although it would have gone on.
"""

from __future__ import annotations

from dataclasses import replace

from olp.core.required import as_format, call_from
from olp.core.stops import StopCutter
from olp.core.tokens import BYTES_PER_TOKEN, asked, cut, estimate
from olp.events import (
    CallArguments,
    CallStarted,
    Done,
    Event,
    Failed,
    Finish,
    Reasoning,
    Text,
    Trouble,
    Usage,
)
from olp.formats import conform
from olp.model import Request


class Shaper:
    """One attempt's. `enforce_tokens` is off where the CLI keeps `max_tokens` itself."""

    def __init__(self, request: Request, *, enforce_tokens: bool = True) -> None:
        self._request = request
        limited = enforce_tokens and request.max_tokens is not None
        self._limit = (request.max_tokens or 0) * BYTES_PER_TOKEN if limited else None
        self._stops = StopCutter(request.stop)
        self._format = as_format(request).format
        self._answer: list[str] = []
        self._bytes = 0
        self._calls = 0
        self._called: list[str] = []
        self._half = ""
        self._usage: Usage | None = None
        self.over = False

    def feed(self, event: Event) -> list[Event]:
        """The events that `event` becomes."""
        if self.over:
            return []
        match event:
            case Text(text):
                return self._text(text)
            case Usage():
                self._usage = event
                return []
            case Done():
                return self._rest() + self._done(event)
            case Failed():
                return self._failed(event)
            case Reasoning(text):
                return [Reasoning(repaired(text))]
            case CallStarted():
                self._calls += 1
                return [*self._before_calls(), *([] if self.over else [event])]
            case CallArguments(index, text):
                self._called.append(self._whole(text))
                return [] if self.over else [CallArguments(index, self._called[-1])]
            case _:
                return [event]

    def _text(self, piece: str) -> list[Event]:
        return self._take(self._stops.feed(self._whole(piece)))

    def _rest(self) -> list[Event]:
        """What was held back while more text could come."""
        half, self._half = repaired(self._half), ""
        return self._take(self._stops.feed(half) + self._stops.flush())

    def _before_calls(self) -> list[Event]:
        """What was held back of the text comes before them, also where it is no JSON."""
        out = self._rest()
        if self._format is None or self.over:
            return out
        text, self._answer = "".join(self._answer), []
        return [*out, *([Text(text)] if text else [])]

    def _take(self, text: str) -> list[Event]:
        finish = Finish.STOP if self._stops.hit else None
        if self._limit is not None and (rest := self._limit - self._bytes) < _bytes(text):
            text = cut(text, rest)
            finish = Finish.LENGTH
        out = self._emit(text)
        return out + self._done(Done(finish), cut_short=True) if finish else out

    def _whole(self, piece: str) -> str:
        """`piece` without half characters: a CLI may cut a surrogate pair between two deltas."""
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return repaired(piece)

    def _emit(self, text: str) -> list[Event]:
        if not text:
            return []
        self._answer.append(text)
        self._bytes += _bytes(text)
        return [] if self._format else [Text(text)]

    def _done(self, done: Done, *, cut_short: bool = False) -> list[Event]:
        if self.over:
            return []
        self.over = True
        text = "".join(self._answer)
        usage = self._final_usage(text, cut_short)
        if self._format is None:
            silent = done.finish is Finish.STOP and not (cut_short or text.strip() or self._calls)
            return [usage, replace(done, empty=True) if silent else done]
        if done.finish is not Finish.STOP:
            shown = text and not self._request.must_call
            return [*([Text(text)] if shown else []), usage, done]
        body, problem = conform(text, self._format)
        if self._request.must_call and problem is None:
            call, problem = call_from(body, self._request)
            done = Done(Finish.TOOL_CALLS)
        else:
            call = [Text(body)]
        if problem:
            return [Failed(Trouble.FORMAT_MISMATCH, f"the answer does not conform: {problem}")]
        return [*call, usage, done]

    def _failed(self, failed: Failed) -> list[Event]:
        """Of a CLI that died, the text is usable, so that it needs its end and its usage too. A
        living one that tells of a failure (VENDOR_CUT and all others) has said that its text is
        none, and JSON that is not whole is of no use either."""
        dead = failed.trouble is Trouble.SPAWN_FAILED and self._format is None
        usable = dead and bool("".join(self._answer).strip())
        out = self._rest() if usable else []
        if self.over:
            return out
        self.over = True
        if usable:
            out.append(self._final_usage("".join(self._answer), cut_short=True))
        return [*out, failed]

    def _final_usage(self, text: str, cut_short: bool) -> Usage:
        """The CLI's own count; an estimate for what it did not live to tell."""
        if self._usage is None:
            said = estimate(text) + estimate("".join(self._called))
            return Usage(input=asked(self._request), output=said, estimated=True)
        if cut_short:
            output = max(self._usage.output, estimate(text))
            return replace(self._usage, output=output, estimated=True)
        return self._usage


def repaired(text: str) -> str:
    """`text` with surrogate pairs joined and half ones replaced, so that it can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
