"""The only module that creates background tasks, so that each is tracked and its error logged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from olp.runtime.log import Log, described

T = TypeVar("T")


class Tasks:
    """All running background tasks."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: set[asyncio.Task[Any]] = set()
        self._vital: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(
        self, work: Coroutine[Any, Any, Any], name: str, *, vital: bool = False
    ) -> asyncio.Task[Any]:
        """Start `work`; an exception is logged.

        `vital` work ends by itself within seconds and is awaited, not cancelled, at a server stop,
        such as the killing of a process.
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
        """Wait for all tasks, up to `seconds` unless None; True if none is left."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)
        return not self._running

    async def cancel_all(self) -> None:
        """Cancel all tasks but vital ones, and wait for all, including tasks that cleanup
        starts."""
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
    """Run coroutines concurrently; results in order. All have ended on return.

    Not `gather`, which does not wait for its tasks when it is cancelled.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
    return [task.result() for task in tasks]
