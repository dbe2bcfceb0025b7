"""The environment in which the doctor runs CLIs: temporary folders, removed at the end."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from olp.errors import StartError
from olp.events import Done, ErrorCode, Event, Failed
from olp.model import Launch, Request
from olp.providers.base import Callee, CloseInput, Driver, Exit, Ready, Session, Settle, Step
from olp.runtime.log import Log
from olp.runtime.process.removal import remove
from olp.runtime.process.worker import Worker
from olp.runtime.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Lab:
    """The folders for the worker. `work` is empty, like the server's."""

    run_id: str
    work: Path
    private: Path
    tasks: Tasks

    async def tidy(self) -> None:
        """Do nothing: files left in the working directory are what the doctor looks for."""

    async def run(self, launch: Launch, driver: Driver, seconds: float) -> list[Event]:
        """Run a CLI until it ends or `seconds` have passed, which adds a Failed; returns its
        events.
        """
        events: list[Event] = []
        until = time.monotonic() + seconds
        async with Worker(launch, driver, self, self.tasks, time.monotonic) as worker:
            while not (events and isinstance(events[-1], Done | Failed)):
                more = await worker.events(until)
                events += more
                if not more and time.monotonic() >= until:
                    late = f"it did not end within {seconds:g} s"
                    events.append(Failed(ErrorCode.SPAWN_TIMEOUT, late))
        return events


@contextmanager
def open_lab() -> Iterator[Lab]:
    """Create a lab and remove it at the end. Raises StartError if no folder can be created."""
    try:
        base = Path(tempfile.mkdtemp(prefix="olp-doctor-"))
    except OSError as error:
        raise StartError(f"no temporary folder can be made: {error.strerror}") from None
    try:
        work, private = base / "work", base / "private"
        work.mkdir(mode=0o700)
        private.mkdir(mode=0o700)
        yield Lab(secrets.token_hex(8), work, private, Tasks(Log(level="error")))
    finally:
        remove(base)


class Listener:
    """A driver for a command that only prints output and exits."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.code: int | None = None
        self.stderr = ""

    def start(self) -> Sequence[Step]:
        return [CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        self.lines.append(line)
        return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        self.code, self.stderr = exit.code, exit.stderr
        return [Done()]


class Bystander:
    """A driver that starts like `driver` and then does not intervene, whatever the CLI does."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def start(self) -> Sequence[Step]:
        return self._driver.start()

    def receive(self, line: str) -> Sequence[Step]:
        return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Done()]


class OneTurn:
    """A driver that sends one request to a session once it is ready."""

    def __init__(self, session: Session, request: Request, model: str, now: datetime) -> None:
        self._session = session
        self._request = request
        self._model = model
        self._now = now
        self._asked = False

    def start(self) -> Sequence[Step]:
        return self._after(self._session.start())

    def receive(self, line: str) -> Sequence[Step]:
        return self._after(self._session.receive(line))

    def called(self, connection: int, line: str) -> Sequence[Step]:
        session = self._session
        return session.called(connection, line) if isinstance(session, Callee) else []

    def exited(self, exit: Exit) -> Sequence[Event]:
        return self._session.exited(exit)

    def _after(self, steps: Sequence[Step]) -> Sequence[Step]:
        if self._asked or not any(isinstance(step, Ready) for step in steps):
            return [step for step in steps if not isinstance(step, Ready)]
        self._asked = True
        return self._after([*steps, *self._session.ask(self._request, self._model, self._now)])


class Lingering:
    """Like `driver`, but on a failure leaves the CLI running for `seconds`: for a CLI that waits
    for the next request and does not exit.
    """

    def __init__(self, driver: Driver, seconds: float) -> None:
        self._driver = driver
        self._seconds = seconds
        self._over = False

    def start(self) -> Sequence[Step]:
        return self._driver.start()

    def receive(self, line: str) -> Sequence[Step]:
        if self._over:
            return []
        steps = self._driver.receive(line)
        if not any(isinstance(step, Failed) for step in steps):
            return steps
        self._over = True
        return [Settle(self._seconds)]

    def called(self, connection: int, line: str) -> Sequence[Step]:
        return self._driver.called(connection, line) if isinstance(self._driver, Callee) else []

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Done()] if self._over else self._driver.exited(exit)
