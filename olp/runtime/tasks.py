"""The one place where background tasks begin, so that none is ever lost or forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from olp.runtime.log import Log, described

T = TypeVar("T")


class Tasks:
    """Every task that OLP started and that has not ended."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: set[asyncio.Task[Any]] = set()
        self._vital: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(
        self, work: Coroutine[Any, Any, Any], name: str, *, vital: bool = False
    ) -> asyncio.Task[Any]:
        """Start `work`. Its exception, if it has one, is logged and not lost.

        `vital` work ends by itself, within seconds, and a stop of the server waits for it: the
        killing of a process must not be cancelled half-way.
        """
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        if vital:
            self._vital.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._vital.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("task_failed", task=task.get_name(), error=described(error))

    async def drain(self, seconds: float | None) -> bool:
        """Wait until nothing runs, at most so long if there is a limit; whether that was
        reached."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)
        return not self._running

    async def cancel_all(self) -> None:
        """End everything that still runs, and wait for it and for what that starts to clean up."""
        while self._running:
            for task in self._running - self._vital:
                task.cancel()
            await asyncio.wait(set(self._running))


async def see_through(task: asyncio.Task[Any]) -> None:
    """Wait for `task` to end even while being cancelled; the cancellation is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


async def together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at the same time; all have ended when this ends, in whatever way.

    A group and not `gather`, which when it is cancelled does not wait for what it started.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
    return [task.result() for task in tasks]
