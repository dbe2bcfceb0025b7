"""The output protocol of `codex exec`.

It does not stream text: messages come as whole items, of which the last is the answer; earlier ones
are commentary and are passed on as reasoning. The answer is final at `turn.completed`, although the
process may stay alive for seconds.

It reports neither calls of unknown tools nor the vendor's single responses: a model that makes such
calls is asked again and again, invisibly. Only messages between two calls show it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Reasoning, Started, Text, Usage
from olp.providers.base import CloseInput, Exit, Halt, Step, Write, tried
from olp.providers.codex.failures import (
    announces_retry,
    failure_events,
    is_known_error,
    retry_events,
)
from olp.providers.shared.notices import LOOKED_AT
from olp.providers.shared.wire import count, parse_line, table, text

_HARMLESS_ITEMS = ("agent_message", "reasoning", "error", "todo_list")

_MESSAGES = 5
"""The most messages in one answer, commentary included. A model without tools has no reason for
more, nor for repeating one: the CLI is then asking its vendor again and again.
"""

_REROUTED = re.compile(r"^model rerouted: \S+ -> (\S+)")


class Driver:
    """The protocol of one `codex exec` run."""

    def __init__(self, prompt: str, *, now: datetime) -> None:
        self._prompt = prompt
        self._now = now
        self._answer: str | None = None
        self._messages = 0
        self._last_error = ""

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        match message.get("type"):
            case "item.started" | "item.updated" | "item.completed" as moment:
                return self._item(moment, table(message.get("item")))
            case "turn.completed":
                usage = _usage(table(message.get("usage")))
                return [*self._take_answer(), usage, Done()]
            case "turn.failed":
                return self._failure(text(table(message.get("error")).get("message")) or "")
            case "error":
                return self._error(text(message.get("message")) or "")
            case _:
                return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        """The process exited without `turn.completed`.

        A failure that it reported before is the cause; otherwise the answer so far may be complete.
        """
        exit_error = exit.told("codex")
        for error in (self._last_error, exit_error):
            if is_known_error(error, log=error is exit_error):
                return self._failure(error)
        return [*self._take_answer(), Failed(ErrorCode.SPAWN_FAILED, exit_error)]

    def _item(self, moment: str, item: Mapping[str, Any]) -> Sequence[Step]:
        kind, content = item.get("type"), text(item.get("text")) or ""
        if kind not in _HARMLESS_ITEMS:
            return [tried("codex", str(kind)), Halt()]
        if kind == "error":
            return self._warning(text(item.get("message")) or "")
        # Earlier lines come from the CLI itself: the vendor may not have been reached yet.
        first = [Started()] if kind in ("agent_message", "reasoning") else []
        if moment != "item.completed":
            return first
        if kind == "reasoning":
            return [*first, Reasoning(content)]
        return [*first, *self._message(content)] if kind == "agent_message" else []

    def _message(self, content: str) -> Sequence[Step]:
        self._messages += 1
        if self._messages > _MESSAGES or (content and content == self._answer):
            what = "codex asked its vendor again and again; OLP ended it"
            return [Failed(ErrorCode.SPAWN_FAILED, what, by_model=True), Halt()]
        commentary, self._answer = self._answer, content
        return [Reasoning(commentary)] if commentary else []

    def _take_answer(self) -> list[Event]:
        answer, self._answer = self._answer, None
        return [Text(answer)] if answer else []

    def _warning(self, message: str) -> Sequence[Step]:
        """An item of type `error` is a warning."""
        if rerouted := _REROUTED.search(message):
            return [Started(rerouted[1])]
        return self._retry(message) if announces_retry(message) else []

    def _error(self, message: str) -> Sequence[Step]:
        """An `error` line. It is repeated in `turn.failed`, unless the CLI is about to retry."""
        if announces_retry(message):
            return self._retry(message)
        self._last_error = message[:LOOKED_AT]
        return []

    def _retry(self, message: str) -> Sequence[Event]:
        return self._with_answer(retry_events(message, self._now, spoke=self._answer is not None))

    def _failure(self, message: str) -> Sequence[Event]:
        return self._with_answer(failure_events(message, self._now, spoke=self._answer is not None))

    def _with_answer(self, end: Sequence[Event]) -> Sequence[Event]:
        """Put the answer so far before `end`, if the turn was cut by a limit or refused; after a
        failure it is dropped.
        """
        return [*self._take_answer(), *end] if isinstance(end[-1], Done) else end


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input=count(usage.get("input_tokens")),
        output=count(usage.get("output_tokens")),
        cached=count(usage.get("cached_input_tokens")),
        cache_written=count(usage.get("cache_write_input_tokens")),
        reasoning=count(usage.get("reasoning_output_tokens")),
    )
