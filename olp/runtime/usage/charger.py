"""Charges the tokens of an answer to its caller, as the outputs pass through.

Charged before the final output is sent, so that the caller's next request sees it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from olp.core.answer.tokens import BYTES_PER_TOKEN, asked
from olp.events import (
    Answering,
    CallArguments,
    Done,
    Failed,
    Output,
    Reasoning,
    Refused,
    Text,
    Usage,
)
from olp.model import Request

Send = Callable[[Sequence[Output]], Awaitable[None]]


class ChargedKey(Protocol):
    """Where usage is charged."""

    async def spend(self, person: str, tokens: int) -> None:
        """Charge; returns when it is stored."""

    def note_spent(self, person: str, tokens: int) -> None:
        """Charge without waiting for the store."""


class UsageCharger:
    """Charges one answer. `send` wraps `to` and passes all outputs on; `settle` releases the
    answer's token reservation once it is charged."""

    def __init__(
        self,
        request: Request,
        person: str,
        charged: ChargedKey,
        to: Send,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._settle = settle
        self._request = request
        self._person = person
        self._charged = charged
        self._to = to
        self._usage: Usage | None = None
        self._told = 0
        self._due = False

    async def send(self, outputs: Sequence[Output]) -> None:
        """Count the outputs and pass them on."""
        over = False
        for output in outputs:
            match output:
                case Answering(cache=cache):
                    self._due = cache != "hit"  # a cached answer costs nothing
                case Text(text) | Reasoning(text) | CallArguments(_, text):
                    self._told += len(text.encode("utf-8", "replace"))
                case Usage():
                    self._usage = output
                case Done() | Failed() | Refused():
                    over = True
        if over:
            self._settle()  # no await between this and the charge
        if over and self._due:
            self._due = False
            await self._charged.spend(self._person, self._tokens())
        await self._to(outputs)

    def close(self) -> None:
        """End of the answer. An aborted one is charged an estimate, or disconnecting just before
        the end would evade the limits."""
        self._settle()
        if self._due:
            self._due = False
            self._charged.note_spent(self._person, self._tokens())

    def _tokens(self) -> int:
        if self._usage is not None:
            return self._usage.input + self._usage.beyond + self._usage.output
        return asked(self._request) + -(-self._told // BYTES_PER_TOKEN)
