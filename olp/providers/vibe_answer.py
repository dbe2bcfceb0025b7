"""What `vibe -p` says, from its first line to its last.

Its output is whole entries: the prompt is echoed, and a message is the answer only when its
outcome is `committed`. Usage and error codes stand in a report, export.json, written as it exits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, Event, Failed, Finish, Reasoning, Started, Text, Trouble, Usage
from olp.providers.base import CloseInput, Exit, Halt, Settle, Step, Write, tried
from olp.providers.notices import by_status, classify, http_status, plain
from olp.providers.vibe_facts import PATTERNS, explain
from olp.providers.wire import parse_line

REPORT_S = 3.0
"""How long the CLI may take to write its report when the answer is there."""

CODES = {
    "rate_limit": Trouble.RATE_LIMITED,
    "context_too_long": Trouble.CONTEXT_TOO_LONG,
    "invalid_api_key": Trouble.AUTH_MISSING,
    "invalid_model": Trouble.MODEL_NOT_FOUND,
    "incomplete_stream": Trouble.SPAWN_FAILED,
}


class Driver:
    """The protocol of one `vibe -p` run."""

    def __init__(self, prompt: str, model: str, *, now: datetime) -> None:
        self._prompt = prompt
        self._model = model
        self._now = now
        self.answered = False
        self._partial = ""

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        """Its first line is an echo of the prompt, before anything has reached the vendor."""
        entry = parse_line(line)
        match entry.get("type"):
            case "effect" | "callback":
                return [tried("vibe", str(entry.get("title") or entry.get("type"))), Halt()]
            case "reasoning":
                return [Started(), Reasoning(str(entry.get("text") or ""))]
            case "message" if entry.get("role") == "assistant":
                return [Started(), *self._message(entry)]
            case _:
                return []

    def _message(self, entry: Mapping[str, Any]) -> Sequence[Step]:
        text = "".join(
            str(part.get("text") or "")
            for part in entry.get("content") or ()
            if isinstance(part, dict) and part.get("type") == "text"
        )
        outcome = entry.get("outcome") or {}
        if outcome.get("type") == "committed":
            self.answered = True
            return [Text(text), Settle(REPORT_S)]
        if outcome.get("cause") == "retry":
            # The CLI would ask again by itself, which is a second request for the same answer.
            return [Text(text), Failed(Trouble.VENDOR_CUT, "vibe gave up a part of its answer")]
        self._partial = text
        return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        report = parse_line(exit.files.get("out/export.json", b"").decode("utf-8", "replace"))
        usage = _usage(report)
        outcome = report.get("outcome")
        if self.answered and exit.code in (0, None) and outcome in ("finished", None):
            return [*usage, Done()]
        if self.answered and outcome == "length":
            return [*usage, Done(Finish.LENGTH)]
        failed = self._failure(report, exit)
        salvage = self._partial and failed.trouble is Trouble.SPAWN_FAILED
        return [Text(self._partial), failed] if salvage else [failed]

    def _failure(self, report: Mapping[str, Any], exit: Exit) -> Failed:
        error = report.get("error") or {}
        text = str(error.get("message") or exit.told("vibe"))
        status = http_status(text)
        code = str(error.get("code") or "")
        if "turn_limit" in text:
            return tried("vibe", "without a word")  # and was not let to ask its vendor again
        if code == "refusal" or report.get("outcome") == "refusal":
            return Failed(Trouble.BAD_REQUEST, plain(text), status)
        trouble = CODES.get(code)
        if trouble is None and not report and classify(text, PATTERNS) is None:
            trouble = by_status(status) or Trouble.SPAWN_FAILED
        return explain(text, trouble, self._now)


def _usage(report: Mapping[str, Any]) -> list[Event]:
    usage = report.get("usage")
    if not isinstance(usage, dict):
        return []
    return [
        Usage(
            input=usage.get("input_tokens") or 0,
            output=usage.get("output_tokens") or 0,
            cached=usage.get("cached_input_tokens") or 0,
            cost=report.get("cost_usd"),
        )
    ]
