"""Turns the engine's pushing into readers, and lets identical requests share one answer.

A flight is one run of the engine in a task of its own. Each reader goes through what the flight
has brought so far, from the start, at its own pace. The reader that leaves last ends the task, and
with it the process; one reader that leaves does not disturb the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from olp.errors import OLPError
from olp.events import Done, Failed, Finish, Output, Refused
from olp.runtime.serving.engine import Send
from olp.runtime.tasks import Tasks

MAX_LAG = 50_000
"""Outputs that a reader may be behind before it is cut: one slow client among several must not
make the server keep more and more for it."""

Run = Callable[[Send], Coroutine[Any, Any, None]]


class BrokenOff(OLPError):
    """A flight ended without its last word. `stopped` tells a stop of the server from a mistake."""

    def __init__(self, *, stopped: bool) -> None:
        super().__init__("the server is shutting down" if stopped else "internal error in OLP")
        self.stopped = stopped


class SharedAnswer:
    """One run and its readers."""

    def __init__(self, run: Run, tasks: Tasks, name: str = "flight") -> None:
        self._brought: list[Output] = []
        self._readers: set[Reader] = set()
        self._on_over: Callable[[], None] | None = None
        self._told = False
        self._given_up = False
        self.over = False
        self._task = tasks.spawn(run(self._send), name)
        self._task.add_done_callback(self._landed)

    def __repr__(self) -> str:
        return f"Flight({len(self._brought)} brought, {len(self._readers)} readers, {self.over=})"

    def _landed(self, task: asyncio.Task[None]) -> None:
        self.over = True
        self._wake()
        if self._on_over is not None:
            self._on_over()

    def on_over(self, call: Callable[[], None]) -> None:
        """Have `call` called when the flight is over."""
        self._on_over = call

    async def _send(self, outputs: Sequence[Output]) -> None:
        self._brought += outputs
        self._told = isinstance(self._brought[-1], Done | Failed | Refused)
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()

    @property
    def joinable(self) -> bool:
        """Whether one more reader may share it. What has told its last word is not asked again: the
        same request after an answer wants a new one. What is being ended has none to tell."""
        return not (self.over or self._told or self._given_up)

    def close(self) -> None:
        """Raise BrokenOff if it is over and its last word was never told."""
        if not self._told:
            raise BrokenOff(stopped=self._task.cancelled())

    def join(self) -> Reader:
        """A new reader, at the start."""
        reader = Reader(self)
        self._readers.add(reader)
        return reader

    def after(self, position: int) -> list[Output]:
        """What was brought from `position` on."""
        return self._brought[position:]

    @property
    def size(self) -> int:
        """How many outputs were brought so far."""
        return len(self._brought)

    @property
    def shared(self) -> bool:
        """Whether more than one reader is here."""
        return len(self._readers) > 1

    def leave(self, reader: Reader) -> None:
        """`reader` wants no more. The last one to leave ends a flight that has more to tell."""
        self._readers.discard(reader)
        if not self._readers and not self._told:
            self._given_up = True
            self._task.cancel()


class Reader:
    """One client's view of a flight. Use it as `with flight.join() as reader`."""

    def __init__(self, shared: SharedAnswer) -> None:
        self._flight = shared
        self._position = 0
        self._more = asyncio.Event()
        self._cut = False

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._flight.leave(self)

    def wake(self) -> None:
        """Something was brought, or the flight is over."""
        self._more.set()

    async def read(self) -> Sequence[Output]:
        """The outputs that came since the last call, at least one; none when all is told.

        BrokenOff if the flight ended without a last word.
        """
        if self._cut:
            return ()
        behind = self._flight.size - self._position
        # One that has read nothing yet is not slow: it has just come.
        if self._flight.shared and self._position > 0 and behind > MAX_LAG:
            self._cut = True
            return (Done(Finish.LENGTH, truncated=True),)
        while self._position == self._flight.size:
            if self._flight.over:
                self._flight.close()
                return ()
            self._more.clear()
            await self._more.wait()
        outputs = self._flight.after(self._position)
        self._position += len(outputs)
        return outputs
