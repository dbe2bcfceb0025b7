"""What `codex exec` says, from its first line to its last.

It streams no text: the answer comes as one item, and of several the last is the answer; what stood
before it is commentary, which a client gets as reasoning. The answer is final at `turn.completed`,
although the process may stay for seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, Event, Failed, Finish, Reasoning, Started, Text, Trouble, Usage
from olp.providers.base import CloseInput, Exit, Halt, Step, Write, tried
from olp.providers.codex_facts import LASTING, PATTERNS, explain
from olp.providers.notices import classify, http_status
from olp.providers.wire import parse_line

_HARMLESS_ITEMS = ("agent_message", "reasoning", "error", "todo_list")


class Driver:
    """The protocol of one `codex exec` run."""

    def __init__(self, prompt: str, *, now: datetime) -> None:
        self._prompt = prompt
        self._now = now
        self._answer: str | None = None

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        return self._message(parse_line(line))

    def exited(self, exit: Exit) -> Sequence[Event]:
        told = exit.told("codex")
        known = classify(told, PATTERNS)
        failed = self._failure(told) if known else Failed(Trouble.SPAWN_FAILED, told)
        return [*self._take_answer(), failed]

    def _message(self, message: Mapping[str, Any]) -> Sequence[Step]:
        match message.get("type"):
            case "item.started" | "item.updated" | "item.completed":
                return self._item(message["type"], message.get("item") or {})
            case "turn.completed":
                return [*self._take_answer(), _usage(message.get("usage") or {}), Done()]
            case "turn.failed":
                return self._failed(str((message.get("error") or {}).get("message") or ""))
            case "error":
                return self._notice(str(message.get("message") or ""))
            case _:
                return []

    def _item(self, moment: str, item: Mapping[str, Any]) -> Sequence[Step]:
        kind = item.get("type")
        if kind not in _HARMLESS_ITEMS:
            return [tried("codex", str(kind)), Halt()]
        # All lines before are of the CLI itself: the vendor may not even have been reached.
        first = [Started()] if kind in ("agent_message", "reasoning") else []
        if moment != "item.completed":
            return first
        if kind == "reasoning":
            return [*first, Reasoning(item.get("text") or "")]
        if kind == "agent_message":
            commentary, self._answer = self._answer, str(item.get("text") or "")
            return [*first, Reasoning(commentary)] if commentary else first
        return []

    def _take_answer(self) -> list[Event]:
        answer, self._answer = self._answer, None
        return [Text(answer)] if answer else []

    def _notice(self, text: str) -> Sequence[Step]:
        """A reconnect is transient, unless its reason cannot go away by itself; anything else is
        told again by `turn.failed`."""
        if not text.startswith("Reconnecting"):
            return []
        failed = self._failure(text)
        return [failed] if failed.trouble in LASTING else []

    def _failed(self, text: str) -> Sequence[Step]:
        if "max_output_tokens" in text:
            return [*self._take_answer(), Done(Finish.LENGTH)]
        if "content_filter" in text:
            return [*self._take_answer(), Done(Finish.CONTENT_FILTER)]
        failed = self._failure(text)
        partial = self._take_answer() if failed.trouble is Trouble.SPAWN_FAILED else []
        return [*partial, failed]

    def _failure(self, text: str) -> Failed:
        """Only words tell: `exec` reports no code and no status of its own."""
        return explain(text, None, http_status(text), self._now)


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input=usage.get("input_tokens") or 0,
        output=usage.get("output_tokens") or 0,
        cached=usage.get("cached_input_tokens") or 0,
        cache_written=usage.get("cache_write_input_tokens") or 0,
        reasoning=usage.get("reasoning_output_tokens") or 0,
    )
