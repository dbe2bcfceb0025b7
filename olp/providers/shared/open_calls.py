"""The open calls of the client's tools in one conversation with a CLI.

They are sent to the client, whose next request brings the results. Each CLI requests the result of
a call in a message of its own, before or after the client's request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from olp.events import CallArguments, CallStarted
from olp.model import Message
from olp.providers.base import Step

Asked = TypeVar("Asked")
"""The identity of a CLI's request for a result, with which it is answered."""


class OpenCalls(Generic[Asked]):
    """The calls of one answer. With `parallel` off only the first is passed on; the others get no
    result.
    """

    def __init__(self, *, parallel: bool = True) -> None:
        self._parallel = parallel
        self._open: dict[str, Asked | None] = {}
        self._given: dict[str, Message | None] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    def called(self, id: str, name: str, arguments: str) -> list[Step]:
        """Open a call of the answer; returns the steps to pass on to the client."""
        index, self._count = self._count, self._count + 1
        return self.track([CallStarted(index, id, name), CallArguments(index, arguments)])

    def track(self, steps: Sequence[Step]) -> list[Step]:
        """Open the calls among `steps`; returns the steps to pass on to the client."""
        for step in steps:
            if isinstance(step, CallStarted):
                self._open.setdefault(step.id, None)
        return [step for step in steps if not self._hidden(step)]

    def _hidden(self, step: Step) -> bool:
        if not isinstance(step, CallStarted | CallArguments):
            return False
        return step.index > 0 and not self._parallel

    def knows(self, id: str) -> bool:
        """Whether the call is open, or its result has arrived."""
        return id in self._open or id in self._given

    def asked(self, id: str, asked: Asked) -> list[tuple[Asked, Message | None]]:
        """The CLI requests the result of `id`; returns (request, result) pairs to answer now."""
        if id in self._given:
            return [(asked, self._given.pop(id))]
        self._open[id] = asked
        return []

    def give(self, results: Sequence[Message]) -> list[tuple[Asked, Message | None]]:
        """Take the client's results; returns the (request, result) pairs to answer now. None stands
        for a call without a result, to be reported as cancelled.
        """
        by_id = {message.answers: message for message in results}
        asked = [(one, by_id.get(id)) for id, one in self._open.items() if one is not None]
        self._given = {id: by_id.get(id) for id, one in self._open.items() if one is None}
        self._open, self._count = {}, 0
        return asked


def fits(latest: Sequence[Message], *, parked: bool) -> bool:
    """Whether the new messages can be passed on: only results while calls are open, otherwise no
    results.
    """
    return bool(latest) and all(bool(message.answers) == parked for message in latest)
