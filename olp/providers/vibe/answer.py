"""The output protocol of `vibe -p`.

Its output consists of whole entries: the prompt is echoed, and a message is the answer only if its
outcome is `committed`. Usage and error codes are in a report, export.json, written at exit; only
then is it known whether the messages are a valid answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Finish, Reasoning, Started, Text, Usage
from olp.providers.base import CloseInput, Exit, Halt, Settle, Step, Write, tried
from olp.providers.shared.wire import count, number, parse_line, rows, table, text
from olp.providers.vibe.info import HARMLESS_ENTRIES, explain

REPORT_S = 3.0
"""Seconds the CLI has to write its report once the answer is complete."""


class Driver:
    """The protocol of one `vibe -p` run."""

    def __init__(self, prompt: str, model: str, *, now: datetime) -> None:
        self._prompt = prompt
        self._model = model
        self._now = now
        self._answer: list[str] = []
        self._vendor_started = False

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        """The first line is an echo of the prompt, printed before the vendor is asked."""
        entry = parse_line(line)
        match entry.get("type"):
            case "reasoning":
                self._vendor_started = True
                return [Started(), Reasoning(text(entry.get("text")) or "")]
            case "message" if entry.get("role") == "assistant":
                self._vendor_started = True
                return [Started(), *self._message(entry)]
            case kind if kind in HARMLESS_ENTRIES:
                return []
            case kind if kind not in ("effect", "callback") and "id" not in entry:
                return []  # not a history entry
            case kind:
                return [tried("vibe", text(entry.get("title")) or str(kind)), Halt()]

    def _message(self, entry: Mapping[str, Any]) -> Sequence[Step]:
        outcome = table(entry.get("outcome"))
        if outcome.get("cause") == "retry":
            # The CLI is about to retry, which is a second request for the same answer.
            return [Failed(ErrorCode.VENDOR_CUT, "vibe gave up a part of its answer"), Halt()]
        if outcome.get("type") != "committed":
            return []
        parts = (part for part in rows(entry.get("content")) if part.get("type") == "text")
        self._answer += [text(part.get("text")) or "" for part in parts]
        return [Settle(REPORT_S)]

    def exited(self, exit: Exit) -> Sequence[Event]:
        report = parse_line(exit.files.get("out/export.json", b"").decode("utf-8", "replace"))
        finish = self._finish(report, exit)
        if finish is None:
            return [self._failure(report, exit)]
        return [Text("".join(self._answer)), *_usage(report), Done(finish)]

    def _finish(self, report: Mapping[str, Any], exit: Exit) -> Finish | None:
        outcome = report.get("outcome")
        if self._answer and exit.code in (0, None) and outcome in ("finished", None):
            return Finish.STOP
        return Finish.LENGTH if self._answer and outcome == "length" else None

    def _failure(self, report: Mapping[str, Any], exit: Exit) -> Failed:
        error = table(report.get("error"))
        message = text(error.get("message"))
        if "turn_limit" in (message or exit.stderr):
            # turn limit: it was kept from asking its vendor again
            return tried("vibe", "without a word")
        code = text(error.get("code"))
        if report.get("outcome") == "refusal":
            code = "refusal"
        if message is not None:
            return explain(message, code, self._now, began=self._vendor_started)
        failed = explain(exit.stderr, code, self._now, began=self._vendor_started)
        if failed.code is ErrorCode.AUTH_MISSING:
            return failed
        if not report and failed.code is ErrorCode.UNKNOWN:
            # it exited without an error message
            failed = replace(failed, code=ErrorCode.SPAWN_FAILED)
        return replace(failed, detail=exit.told("vibe"))


def _usage(report: Mapping[str, Any]) -> list[Event]:
    """The usage in the report; empty if it counted nothing, as the vendor does not always report
    it.
    """
    counts = table(report.get("usage"))
    usage = Usage(
        input=count(counts.get("input_tokens")),
        output=count(counts.get("output_tokens")),
        cached=count(counts.get("cached_input_tokens")),
        cost=number(report.get("cost_usd")),
    )
    return [usage] if usage.input or usage.output else []
