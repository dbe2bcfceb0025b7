"""Applies to an answer what CLIs do not: stop strings, `max_tokens`, JSON validation and usage.

No CLI supports stop strings, not all support `max_tokens`, and none is trusted to conform to a
schema. `Shaper` sits between a driver and the walk; once it is `over`, it ignores further events,
and the process can be ended.
"""

from __future__ import annotations

from dataclasses import replace

from olp.core.answer.forced_call import CallAnswer
from olp.core.answer.json_answer import JsonAnswer, Outlet
from olp.core.answer.stop_strings import StopCutter
from olp.core.answer.tokens import BYTES_PER_TOKEN, asked, cut, estimate
from olp.events import (
    CallArguments,
    CallStarted,
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    Reasoning,
    Text,
    Usage,
)
from olp.model import Request


class Shaper:
    """Shapes the answer of one attempt. `enforce_tokens` is False if the CLI enforces `max_tokens`
    itself. Unless `live`, JSON is held back until validated. `id` is that of a forced call."""

    def __init__(
        self, request: Request, *, enforce_tokens: bool = True, live: bool = False, id: str = ""
    ) -> None:
        self._request = request
        limited = enforce_tokens and request.max_tokens is not None
        self._limit = (request.max_tokens or 0) * BYTES_PER_TOKEN if limited else None
        self._stops = StopCutter(request.stop)
        self._live = live
        self._call_id = id
        self._outlet = self._new_outlet()
        self._held: list[Event] = []
        self._told = False
        self._answer: list[str] = []
        self._bytes = 0
        self._calls = 0
        self._called: list[str] = []
        self._half = ""
        self._usage: Usage | None = None
        self.over = False

    def _new_outlet(self) -> Outlet | None:
        if self._request.must_call:
            return CallAnswer(self._request, self._call_id)
        return JsonAnswer(self._request.format) if self._request.format else None

    def feed(self, event: Event) -> list[Event]:
        """Return the shaped events for `event`."""
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
        """Release the text that was held back while more could follow."""
        half, self._half = repaired(self._half), ""
        return self._take(self._stops.feed(half) + self._stops.flush())

    def _before_calls(self) -> list[Event]:
        """Release the held text before a call, even if it is not JSON."""
        out = self._rest()
        if self._outlet is None or self.over:
            return out
        out += [*self._held, *self._outlet.close(whole=False).events]
        self._outlet, self._held = self._new_outlet(), []
        return out

    def _take(self, text: str) -> list[Event]:
        finish = Finish.STOP if self._stops.hit else None
        if self._limit is not None and (rest := self._limit - self._bytes) < _bytes(text):
            text = cut(text, rest)
            finish = Finish.LENGTH
        out = self._emit(text)
        return out + self._done(Done(finish), cut_short=True) if finish else out

    def _whole(self, piece: str) -> str:
        """`piece` without half surrogate pairs: a CLI may split one between two deltas."""
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return repaired(piece)

    def _emit(self, text: str) -> list[Event]:
        if not text:
            return []
        self._answer.append(text)
        self._bytes += _bytes(text)
        if self._outlet is None:
            return [Text(text)]
        made = self._outlet.feed(text)
        if not self._live:
            self._held += made
            return []
        self._told = self._told or bool(made)
        return made

    def _done(self, done: Done, *, cut_short: bool = False) -> list[Event]:
        if self.over:
            return []
        self.over = True
        text = "".join(self._answer)
        usage = self._final_usage(text, cut_short)
        if self._outlet is None:
            silent = done.finish is Finish.STOP and not (cut_short or text.strip() or self._calls)
            return [usage, replace(done, empty=True) if silent else done]
        whole = done.finish is Finish.STOP
        closing = self._outlet.close(whole=whole)
        if closing.problem:
            told = f"the answer does not conform: {closing.problem}"
            return [Failed(ErrorCode.FORMAT_MISMATCH, told)]
        if whole and self._request.must_call:
            done = replace(done, finish=Finish.TOOL_CALLS, mismatch=closing.mismatch)
        return [*self._held, *closing.events, usage, done]

    def _failed(self, failed: Failed) -> list[Event]:
        """If the CLI died, its text is usable, and is completed with the usage. If the CLI reported
        the failure itself (VENDOR_CUT and all others), it is not. Incomplete JSON is only usable
        if part of it was sent already."""
        dead = failed.code is ErrorCode.SPAWN_FAILED
        some = bool("".join(self._answer).strip()) if self._outlet is None else self._told
        usable = dead and some and not self._request.must_call
        out = self._rest() if usable else []
        if self.over:
            return out
        self.over = True
        if usable:
            out.append(self._final_usage("".join(self._answer), cut_short=True))
        return [*out, failed]

    def _final_usage(self, text: str, cut_short: bool) -> Usage:
        """The usage that the CLI reported; estimated where it ended before reporting."""
        if self._usage is None:
            said = estimate(text) + estimate("".join(self._called))
            return Usage(input=asked(self._request), output=said, estimated=True)
        if cut_short:
            output = max(self._usage.output, estimate(text))
            return replace(self._usage, output=output, estimated=True)
        return self._usage


def repaired(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced, so that it encodes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
