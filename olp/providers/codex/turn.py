"""One turn of Codex's app-server: the model's output and how the turn ends. Calls of tools are
handled by the session.

A turn is one response of the vendor. The CLI may request another one by itself, without ending the
turn: after the vendor's stream broke off, or after the vendor ended a response but not the turn. If
the model has only written commentary so far, its answer is still to come; otherwise the turn is
failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Finish, Reasoning, Started, Text
from olp.providers.base import Halt, Ready, Step, tried
from olp.providers.codex.failures import announces_retry, error_events, retry_events
from olp.providers.shared.wire import table, text

_ITEMS = ("userMessage", "agentMessage", "reasoning", "plan", "dynamicToolCall")
"""Item types that run nothing, neither on this machine nor at the vendor."""

_ANSWERS = 3
"""The most responses of the vendor in a turn, without results of tools in between."""


class Turn:
    """State of one turn, from the client's request, or the tool results it sent, to the end."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._has_text = False
        self._commentary: dict[str, str] = {}
        self._messages_started = 0
        self._messages_completed = 0
        self._responses = 0
        self._response_complete = False

    def item(self, item: Mapping[str, Any], *, ended: bool) -> Sequence[Step]:
        """An item has started, or has `ended`."""
        kind = item.get("type")
        if kind == "contextCompaction":
            what = "the conversation is too long: codex would go on with a summary of it"
            return [Failed(ErrorCode.CONTEXT_TOO_LONG, what)]
        if kind not in _ITEMS:
            return [tried("codex", str(kind)), Halt()]
        if kind not in ("agentMessage", "reasoning"):
            return []
        if kind == "agentMessage":
            self._message(item, ended=ended)
        return [] if ended else self.begins([Started()])

    def _message(self, item: Mapping[str, Any], *, ended: bool) -> None:
        self._messages_started += not ended
        self._messages_completed += ended
        if item.get("phase") == "commentary":
            # Messages that precede the answer are marked as commentary.
            self._commentary.setdefault(str(item.get("id")), "")

    def begins(self, steps: Sequence[Step]) -> Sequence[Step]:
        """`steps`; a failure instead if they belong to a further response that is not allowed."""
        if not self._response_complete:
            return steps
        self._response_complete = False
        if self._has_text or self._responses >= _ANSWERS:
            what = "the vendor ended its answer midway, and codex asked it to go on"
            return [Failed(ErrorCode.VENDOR_CUT, what), Halt()]
        return steps

    def delta(self, params: Mapping[str, Any]) -> Sequence[Step]:
        """A piece of a message."""
        piece, id = text(params.get("delta")) or "", str(params.get("itemId"))
        if id in self._commentary:
            self._commentary[id] += piece
            return self.begins([Reasoning(piece)])
        steps = self.begins([Text(piece)])
        self._has_text = self._has_text or bool(piece.strip())
        return steps

    def thought(self, params: Mapping[str, Any]) -> Sequence[Step]:
        """A piece of the model's reasoning."""
        return self.begins([Reasoning(text(params.get("delta")) or "")])

    def responded(self) -> None:
        """A response of the vendor is complete."""
        self._response_complete = True
        self._responses += 1

    def rerouted(self, params: Mapping[str, Any]) -> Sequence[Step]:
        """The vendor switched to another model."""
        model = text(params.get("toModel"))
        return self.begins([Started(model)]) if model else []

    def warned(self, params: Mapping[str, Any]) -> Sequence[Event]:
        """A warning, which may announce that the CLI asks its vendor again."""
        message = text(params.get("message")) or ""
        if not announces_retry(message):
            return []
        return retry_events(message, self.now, spoke=self._has_text)

    def failing(self, params: Mapping[str, Any]) -> Sequence[Event]:
        """An error notification. It is repeated when the turn ends, unless the CLI is about to
        retry.
        """
        if params.get("willRetry") is not True:
            return []
        error = table(params.get("error"))
        why = text(error.get("additionalDetails")) or text(error.get("message")) or ""
        return retry_events(why, self.now, spoke=self._has_text)

    def completed(self, turn: Mapping[str, Any]) -> Sequence[Step]:
        """The turn has ended."""
        error = turn.get("error")
        if error:
            return error_events(table(error), self.now, spoke=self._has_text)
        if turn.get("status") != "completed":
            return [Failed(ErrorCode.SPAWN_FAILED, f"codex ended its turn: {turn.get('status')}")]
        if self._messages_started and not self._messages_completed and not self._has_text:
            # A message without any text is a refusal, whose text the CLI drops.
            return [Done(Finish.CONTENT_FILTER), Ready()]
        return [*self._last_commentary(), Done(), Ready()]

    def _last_commentary(self) -> list[Step]:
        """The last commentary, which is the answer if the model wrote nothing else."""
        if self._has_text or not self._commentary:
            return []
        return [Text(list(self._commentary.values())[-1])]
