"""Fans one run of the engine out to several readers, so that identical requests share an answer.

A shared answer is one run of the engine in its own task. Its outputs are buffered, and each reader
iterates over them from the start at its own pace. When the last reader leaves, the task is
cancelled, and with it the process; a reader that leaves earlier does not affect the others.
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
"""Outputs that a reader may lag behind before it is truncated: one slow client among several must
not make the buffer grow without bound."""

Run = Callable[[Send], Coroutine[Any, Any, None]]


class BrokenOff(OLPError):
    """A run ended without a final output. `stopped`: by a server stop, not by a bug."""

    def __init__(self, *, stopped: bool) -> None:
        super().__init__("the server is shutting down" if stopped else "internal error in OLP")
        self.stopped = stopped


class SharedAnswer:
    """One run of the engine and its readers."""

    def __init__(self, run: Run, tasks: Tasks, name: str = "flight") -> None:
        self._outputs: list[Output] = []
        self._readers: set[Reader] = set()
        self._on_over: Callable[[], None] | None = None
        self._complete = False
        self._cancelled = False
        self.over = False
        self._task = tasks.spawn(run(self._send), name)
        self._task.add_done_callback(self._on_done)

    def __repr__(self) -> str:
        counts = f"{len(self._outputs)} outputs, {len(self._readers)} readers"
        return f"SharedAnswer({counts}, {self.over=})"

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.over = True
        self._wake()
        if self._on_over is not None:
            self._on_over()

    def on_over(self, call: Callable[[], None]) -> None:
        """Register the callback for the end of the run."""
        self._on_over = call

    async def _send(self, outputs: Sequence[Output]) -> None:
        self._outputs += outputs
        self._complete = isinstance(self._outputs[-1], Done | Failed | Refused)
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()

    @property
    def joinable(self) -> bool:
        """Whether another reader may join. A complete answer is not shared: the same request sent
        again wants a new one. A run that is being cancelled has no answer."""
        return not (self.over or self._complete or self._cancelled)

    def close(self) -> None:
        """Raise BrokenOff if there was no final output. Call it only after the end of the run."""
        if not self._complete:
            raise BrokenOff(stopped=self._task.cancelled())

    def join(self) -> Reader:
        """A new reader, positioned at the start."""
        reader = Reader(self)
        self._readers.add(reader)
        return reader

    def after(self, position: int) -> list[Output]:
        """The outputs from index `position` on."""
        return self._outputs[position:]

    @property
    def size(self) -> int:
        """How many outputs there are so far."""
        return len(self._outputs)

    @property
    def shared(self) -> bool:
        """Whether it has more than one reader."""
        return len(self._readers) > 1

    def leave(self, reader: Reader) -> None:
        """Remove `reader`. The last one to leave cancels a run that is not complete."""
        self._readers.discard(reader)
        if not self._readers and not self._complete:
            self._cancelled = True
            self._task.cancel()


class Reader:
    """One client's cursor. Use it as `with shared.join() as reader`."""

    def __init__(self, shared: SharedAnswer) -> None:
        self._shared = shared
        self._position = 0
        self._more = asyncio.Event()
        self._cut = False

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._shared.leave(self)

    def wake(self) -> None:
        """There are new outputs, or the run is over."""
        self._more.set()

    async def read(self) -> Sequence[Output]:
        """Wait for outputs; returns those since the last call, or none at the end.

        Raises BrokenOff if the run ended without a final output.
        """
        if self._cut:
            return ()
        behind = self._shared.size - self._position
        # A reader that has read nothing yet is not slow: it has just joined.
        if self._shared.shared and self._position > 0 and behind > MAX_LAG:
            self._cut = True
            return (Done(Finish.LENGTH, truncated=True),)
        while self._position == self._shared.size:
            if self._shared.over:
                self._shared.close()
                return ()
            self._more.clear()
            await self._more.wait()
        outputs = self._shared.after(self._position)
        self._position += len(outputs)
        return outputs
