"""A CLI that waits, driven without OLP's server: what OLP's own share is measured against.

The protocols are OLP's (`olp/providers`), the shell around them is the smallest that works: a pipe,
a loop, no event loop and no HTTP.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from olp.config import ProviderConfig
from olp.events import Done, Failed, Text
from olp.model import PRIVATE_DIR, Launch, Message, Request, Role
from olp.providers import all_providers
from olp.providers.base import ProviderContext, Ready, Session, Step, Write
from tests.real.install import Found
from tests.real.vendors.client import Vendors

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Direct:
    """One waiting process and its session."""

    def __init__(self, process: subprocess.Popen[bytes], session: Session) -> None:
        self._process = process
        self._session = session
        self._pending: list[Step] = []
        self._do(session.start())
        while not any(isinstance(step, Ready) for step in self._next()):
            pass

    def _do(self, steps: Sequence[Step]) -> None:
        assert self._process.stdin is not None
        data = b"".join(step.data for step in steps if isinstance(step, Write))
        if data:
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _next(self) -> Sequence[Step]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the CLI has ended"
        steps = self._session.receive(line.decode())
        self._do(steps)
        return steps

    def ask(self, text: str, model: str) -> tuple[float, float]:
        """Seconds to the first text, and in all."""
        request = Request(model, (Message(Role.USER, text),), stream=True)
        began, first = time.perf_counter(), None
        self._do(self._session.ask(request, model, NOW))
        while True:
            steps = self._next()
            assert not any(isinstance(step, Failed) for step in steps), steps
            if first is None and any(isinstance(step, Text) for step in steps):
                first = time.perf_counter() - began
            if any(isinstance(step, Done) for step in steps):
                assert first is not None
                return first, time.perf_counter() - began


@contextmanager
def started(cli: Found, vendors: Vendors) -> Iterator[Direct]:
    """A process of `cli` that waits, pointed at the mock vendors."""
    with tempfile.TemporaryDirectory() as folder:
        provider = all_providers()[cli.name]
        work = Path(folder) / "work"
        work.mkdir()
        environ = {"PATH": os.environ["PATH"]}
        context = ProviderContext(
            (str(cli.path),), ProviderConfig(), environ, folder, f"{folder}/own", work=str(work)
        )
        made = provider.session(provider.mocked(context, vendors.base_url))
        assert made is not None
        launch, session = made
        private = _filled(Path(folder) / "private", launch)
        process = subprocess.Popen(
            [word.replace(PRIVATE_DIR, private) for word in launch.argv],
            env={name: value.replace(PRIVATE_DIR, private) for name, value in launch.env.items()},
            cwd=work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Direct(process, session)
        finally:
            process.kill()
            process.wait()


def _filled(folder: Path, launch: Launch) -> str:
    (folder / "home").mkdir(parents=True)
    for name, data in launch.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return str(folder)
