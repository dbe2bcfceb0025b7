"""A CLI process with its driver: the I/O around the sans-I/O protocol.

A worker's `async with` block owns the process, the private folder and all descriptors: leaving it
ends the process group and waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Protocol

from olp.core.lines import LineSplitter, LineTooLong
from olp.events import Done, ErrorCode, Event, Failed
from olp.model import Launch
from olp.providers.base import (
    Callee,
    CloseInput,
    Driver,
    Exit,
    Halt,
    Put,
    Ready,
    Reply,
    Session,
    Settle,
    Step,
    Write,
)
from olp.runtime.process import child as process
from olp.runtime.process.call_socket import CallSocket
from olp.runtime.process.private_folder import PrivateFolder, sweep
from olp.runtime.process.stats import ProcessStats
from olp.runtime.tasks import Tasks, see_through


class RunFolders(Protocol):
    """The run folder as workers see it."""

    @property
    def run_id(self) -> str:
        """Id of this run of the server, in the environment of every process it starts."""

    @property
    def work(self) -> Path:
        """The working directory of every CLI: fixed, so that the vendors' prompt caches hit, and
        empty, so that there is nothing to read."""

    @property
    def private(self) -> Path:
        """The parent of the private folders."""

    async def tidy(self) -> None:
        """Empty the working directory before a request, and after a process."""


RUN_VARIABLE = "OLP_RUN"

ODD = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What a driver raises on a field of an unexpected type or nesting depth: the CLI's protocol has
changed."""


def _odd(error: Exception) -> Failed:
    said = f"the CLI said something unexpected ({type(error).__name__})"
    return Failed(ErrorCode.SPAWN_FAILED, said, living=True)


class Worker:
    """One CLI process. `clock` is the clock of the times given to `events`."""

    def __init__(
        self,
        launch: Launch,
        driver: Driver | Session,
        folders: RunFolders,
        tasks: Tasks,
        clock: Callable[[], float],
        *,
        keeps_max_tokens: bool = False,
        opening_s: float | None = None,
        conversation: str = "new",
    ) -> None:
        self.keeps_max_tokens = keeps_max_tokens
        self.opening_s = opening_s
        self.conversation = conversation
        self.ready = False
        self._launch = launch
        self._driver = driver
        self._folders = folders
        self._tasks = tasks
        self._clock = clock
        self._lines = LineSplitter()
        self._child: process.Child | None = None
        self._folder: PrivateFolder | None = None
        self._settle_at: float | None = None
        self.report = ProcessStats()
        self._pending: list[Event] = []
        self._socket: CallSocket | None = None

    async def __aenter__(self) -> Worker:
        await self.open()
        return self

    async def open(self) -> None:
        """Start the process. A failed start is reported by `events`."""
        try:
            await self._start()
        except process.ProgramMissing:
            missing = Path(self._launch.argv[0]).name
            self._pending = [Failed(ErrorCode.CLI_NOT_FOUND, f"{missing} is not installed")]
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            self._pending = [Failed(ErrorCode.SPAWN_FAILED, f"could not be started: {reason}")]
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        self._folder = PrivateFolder(
            self._folders.private, self._folders.run_id + "-", self._launch
        )
        env = self._folder.env() | {RUN_VARIABLE: self._folders.run_id}
        self.report.spawned_at = self._clock()
        if self._launch.socket:
            self._socket = CallSocket(self._folder.path / self._launch.socket, self._called)
            await self._socket.open()
        await self._folders.tidy()
        self._child = await process.start(self._folder.argv(), env, self._folders.work)
        self._do(self._driver.start())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the process group, and remove the private folder."""
        await see_through(self._tasks.spawn(self._end(), "end of a worker", vital=True))

    async def _end(self) -> None:
        if self._child is not None:
            self.report.exit_code = self._child.returncode
            await self._child.stop(self._launch.grace_s)
            self.report.ended_at = self._clock()
            await asyncio.to_thread(sweep, self._launch.leaves, self._child.pid)
            await self._folders.tidy()
        if self._socket is not None:
            self._socket.close()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.close)

    async def events(self, until: float) -> Sequence[Event]:
        """The next events; empty if none came by `until`, or if it only became ready."""
        began_ready = self.ready
        while not self._pending and self.ready == began_ready:
            at = until if self._settle_at is None else min(until, self._settle_at)
            data = await self._read(max(0.0, at - self._clock()))
            if data is None and self._settle_at is not None and self._clock() >= self._settle_at:
                self._settle_at, data = None, b""
            if data is not None:
                self._pending += self._understand(data)
            if self._clock() >= until:
                break
        pending, self._pending = self._pending, []
        return pending

    async def _read(self, seconds: float) -> bytes | None:
        """Output within `seconds`, empty at the end; None on timeout or nudge."""
        assert self._child is not None
        # Cheaper than asyncio.timeout: this runs for every chunk of an answer.
        timer = asyncio.get_running_loop().call_later(seconds, self._child.nudge)
        try:
            data = await self._child.read()
        finally:
            timer.cancel()
        if data is None:
            return None
        if data and self.report.first_output_at is None:
            self.report.first_output_at = self._clock()
        self.report.read += len(data)
        return data

    def _understand(self, data: bytes) -> list[Event]:
        """Feed `data` to the driver; empty means the end."""
        try:
            lines = self._lines.feed(data) if data else self._lines.flush()
        except LineTooLong as error:
            return [Failed(ErrorCode.SPAWN_FAILED, str(error))]
        events: list[Event] = []
        try:
            for line in lines:
                events += self._do(self._driver.receive(line))
        except ODD as error:
            return [*events, _odd(error)]
        return events if data else events + self._closing(events)

    def _called(self, connection: int, line: str) -> None:
        """The CLI sent a line on its socket."""
        if not isinstance(self._driver, Callee) or self._child is None:
            return
        try:
            self._pending += self._do(self._driver.called(connection, line))
        except ODD as error:
            self._pending.append(_odd(error))
        self._child.nudge()

    async def begin_again(self) -> None:
        """Reset the stats and tidy the working directory for another request."""
        await self._folders.tidy()
        self.report = ProcessStats(spawned_at=self._clock(), waits=True)

    def carry_out(self, wish: Callable[[], Sequence[Step]]) -> None:
        """Carry out the steps of a session call outside of `receive`."""
        try:
            self._pending += self._do(wish())
        except ODD as error:
            self._pending.append(_odd(error))

    @property
    def alive(self) -> bool:
        """Whether the process runs and has no unread events."""
        child = self._child
        return child is not None and child.running and not self._pending

    @property
    def pid(self) -> int | None:
        """Id of the process and of its group."""
        return self._child.pid if self._child is not None else None

    def _do(self, steps: Sequence[Step]) -> list[Event]:
        """Carry out the driver's steps; returns the events among them."""
        assert self._child is not None
        events = self._put([step for step in steps if isinstance(step, Put)])
        # One write: each wakes the CLI, which then competes with the server for the CPU.
        if data := b"".join(step.data for step in steps if isinstance(step, Write)):
            self.report.written += len(data)
            self._child.write(data)
        for step in steps:
            match step:
                case Reply(connection, data) if self._socket is not None:
                    self.report.written += len(data)
                    self._socket.answer(connection, data)
                case Write() | Put() | Reply():
                    pass
                case CloseInput():
                    self._child.close_input()
                case Halt():
                    self._child.kill()
                case Settle(seconds):
                    self._settle_at = self._clock() + seconds
                case Ready():
                    self.ready = True
                case Failed():
                    events.append(replace(step, living=True))
                case _:
                    events.append(step)
        return events

    def _put(self, files: Sequence[Put]) -> list[Event]:
        """Write files into the private folder; an OSError fails the attempt."""
        assert self._folder is not None
        try:
            for file in files:
                self._folder.put(file.name, file.data)
        except OSError as error:
            said = f"its files could not be written: {error.strerror or error}"
            return [Failed(ErrorCode.SPAWN_FAILED, said)]
        return []

    def _closing(self, events: Sequence[Event]) -> list[Event]:
        """The driver's final events; an attempt always ends with Done or Failed."""
        if any(isinstance(event, Done | Failed) for event in events):
            return []
        assert self._child is not None and self._folder is not None
        end = Exit(self._child.returncode, self._child.stderr, self._folder.collect())
        try:
            closing = list(self._driver.exited(end))
        except ODD as error:
            closing = [_odd(error)]
        if not closing or not isinstance(closing[-1], Done | Failed):
            closing.append(Failed(ErrorCode.SPAWN_FAILED, end.told("the CLI")))
        return closing
