"""Counts what an answer costs the person who asked, on its way to them.

It is counted before the last word goes out: the next request of somebody who waits for that word
finds it counted.
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
    """Who is charged."""

    async def spend(self, person: str, tokens: int) -> None:
        """Charge, and come back when that is safe."""

    def note_spent(self, person: str, tokens: int) -> None:
        """Charge, and go on."""


class UsageCharger:
    """One answer. `send` stands in front of the `to` that it passes all outputs to; `settle` gives
    free what was set aside for the answer, as soon as it is charged for."""

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
        """Look at the outputs, and pass them on."""
        over = False
        for output in outputs:
            match output:
                case Answering(cache=cache):
                    self._due = cache != "hit"  # what was kept costs nothing
                case Text(text) | Reasoning(text) | CallArguments(_, text):
                    self._told += len(text.encode("utf-8", "replace"))
                case Usage():
                    self._usage = output
                case Done() | Failed() | Refused():
                    over = True
        if over:
            self._settle()  # and charge, with nothing between the two
        if over and self._due:
            self._due = False
            await self._charged.spend(self._person, self._tokens())
        await self._to(outputs)

    def close(self) -> None:
        """The answer is over. One that was left in its middle has cost something too, or leaving
        just before the end would be the way around a limit; what it cost is then an estimate."""
        self._settle()
        if self._due:
            self._due = False
            self._charged.note_spent(self._person, self._tokens())

    def _tokens(self) -> int:
        if self._usage is not None:
            return self._usage.input + self._usage.beyond + self._usage.output
        return asked(self._request) + -(-self._told // BYTES_PER_TOKEN)
