"""The calls of the client's tools that a model waits for, in one conversation with a CLI.

They are told to the client, whose next request brings the results. Each CLI asks for the result of
a call in a message of its own, which may come before the client has it, or after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from olp.events import CallArguments, CallStarted
from olp.model import Message
from olp.providers.base import Step

Asked = TypeVar("Asked")
"""How a CLI's question for a result is known, so that it can be answered."""


class OpenCalls(Generic[Asked]):
    """Those of one answer. With `parallel` off only the first is told; the others get no result."""

    def __init__(self, *, parallel: bool = True) -> None:
        self._parallel = parallel
        self._open: dict[str, Asked | None] = {}
        self._given: dict[str, Message | None] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    def called(self, id: str, name: str, arguments: str) -> list[Step]:
        """One more call of the answer, which is open from now on, as the client is to see it."""
        index, self._count = self._count, self._count + 1
        return self.told([CallStarted(index, id, name), CallArguments(index, arguments)])

    def told(self, steps: Sequence[Step]) -> list[Step]:
        """`steps`, whose calls are open from now on, as the client is to see them."""
        for step in steps:
            if isinstance(step, CallStarted):
                self._open.setdefault(step.id, None)
        return [step for step in steps if not self._hidden(step)]

    def _hidden(self, step: Step) -> bool:
        if not isinstance(step, CallStarted | CallArguments):
            return False
        return step.index > 0 and not self._parallel

    def knows(self, id: str) -> bool:
        """Whether the call was told, or its result is here already."""
        return id in self._open or id in self._given

    def asked(self, id: str, asked: Asked) -> list[tuple[Asked, Message | None]]:
        """The CLI asks for the result of `id`: what there is to answer now."""
        if id in self._given:
            return [(asked, self._given.pop(id))]
        self._open[id] = asked
        return []

    def give(self, results: Sequence[Message]) -> list[tuple[Asked, Message | None]]:
        """The client's results: what there is to answer now. None stands for a call that got no
        result, and is to be told as cancelled."""
        by_id = {message.answers: message for message in results}
        asked = [(one, by_id.get(id)) for id, one in self._open.items() if one is not None]
        self._given = {id: by_id.get(id) for id, one in self._open.items() if one is None}
        self._open, self._count = {}, 0
        return asked


def fits(latest: Sequence[Message], *, parked: bool) -> bool:
    """Whether what was said last can be handed over: results alone while calls are open, and else
    no result at all."""
    return bool(latest) and all(bool(message.answers) == parked for message in latest)
