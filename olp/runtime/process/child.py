"""Starts and ends CLI processes: the only module that spawns any.

Each is the leader of its own session, so that the whole process group can be killed. On Linux the
parent-death signal ends it with the server. Its end is that of the process itself, even if a
grandchild keeps stdout open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

HIGH_WATER = 1024 * 1024
"""Bytes of unread output at which reading is paused (backpressure)."""

STDERR_TAIL = 64 * 1024
"""Last bytes of stderr that are kept."""

LAST_WORDS_S = 0.25
"""Seconds that output may still arrive after the exit if stdout was not closed."""

SILENT_EXIT_S = 2.0
"""Seconds that a process may take to exit after closing stdout."""

TERM_GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""


class Child(asyncio.SubprocessProtocol):
    """One CLI process and its three pipes."""

    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._exited = asyncio.Event()
        self._chunks: list[bytes] = []
        self._waiting = 0
        self._paused = False
        self._nudged = False
        self._eof = False
        self._over = False
        self._stderr = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None

    def __repr__(self) -> str:
        state = f"exited {self.returncode}" if self._exited.is_set() else "running"
        return f"Child(pid={self.pid}, {state})"

    # --- asyncio callbacks ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-STDERR_TAIL]
            return
        self._chunks.append(data)
        self._waiting += len(data)
        if self._waiting > HIGH_WATER and not self._paused:
            self._output("pause_reading")
        self._wake.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._eof = True
            self._end_after(0 if self._exited.is_set() else SILENT_EXIT_S)

    def process_exited(self) -> None:
        self._exited.set()
        self._end_after(0 if self._eof else LAST_WORDS_S)

    def _end_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._end)

    def _end(self) -> None:
        self._over = True
        self._wake.set()

    def _output(self, action: str) -> None:
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(1)
        if pipe is not None and not pipe.is_closing():
            getattr(pipe, action)()
            self._paused = action == "pause_reading"

    # --- public interface ----------------------------------------------------------------------

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._transport.get_returncode() if self._transport else None

    @property
    def running(self) -> bool:
        """Whether it runs, asked from the kernel: the event loop may learn of an exit later."""
        if self.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False  # already reaped by asyncio's child watcher

    @property
    def stderr(self) -> str:
        """The last `STDERR_TAIL` bytes of its stderr."""
        return self._stderr.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        """Queue `data` for stdin. A closed stdin is no error here."""
        pipe = self._input()
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def close_input(self) -> None:
        """Close stdin after flushing it."""
        pipe = self._input()
        if pipe is not None and not pipe.is_closing():
            pipe.close()

    def _input(self) -> asyncio.WriteTransport | None:
        assert self._transport is not None
        return cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))

    def nudge(self) -> None:
        """Make `read` return None if there is no output."""
        self._nudged = True
        self._wake.set()

    async def read(self) -> bytes | None:
        """Wait for output; empty at the end, None if nudged."""
        while not (self._chunks or self._over or self._nudged):
            self._wake.clear()
            await self._wake.wait()
        if self._nudged and not self._chunks:
            self._nudged = False
            return None
        data = b"".join(self._chunks)
        self._chunks, self._waiting = [], 0
        if self._paused:
            self._output("resume_reading")
        return data

    def kill(self) -> None:
        """Send SIGKILL to the process group."""
        self._signal(signal.SIGKILL)

    async def stop(self, grace: float = TERM_GRACE_S) -> None:
        """Terminate the process group and wait for the exit; SIGKILL after `grace` seconds."""
        if not self._exited.is_set():
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._exited.wait()
        self._signal(signal.SIGKILL)
        await self._exited.wait()
        assert self._transport is not None
        self._transport.close()

    def _signal(self, number: signal.Signals) -> None:
        # macOS raises PermissionError for a group that has only zombies left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _with_death_signal(argv: Sequence[str]) -> Sequence[str]:
    """`argv` with a parent-death signal, where setpriv (util-linux) is available.

    The usual preexec_fn is unsafe with threads and copies the server's page tables.
    """
    setpriv = _SETPRIV
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else argv


_SETPRIV = shutil.which("setpriv") if sys.platform == "linux" else None


class ProgramMissing(Exception):
    """The program was not found."""


async def start(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Child:
    """Start `argv` in its own session, with exactly `env`.

    Raises ProgramMissing if the program is not found, OSError if it cannot be started.
    """
    program = shutil.which(argv[0], path=env.get("PATH"))
    if program is None:
        raise ProgramMissing(argv[0])
    loop = asyncio.get_running_loop()
    _, child = await loop.subprocess_exec(
        Child,
        *_with_death_signal([program, *argv[1:]]),
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    return child


def output_of(argv: Sequence[str]) -> str:
    """The stdout of a short system command; empty if it is missing or takes over 10 s."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def run(argv: Sequence[str]) -> tuple[int, str]:
    """Exit code and output (with stderr) of a short system command; 127 if it is missing, 124 on
    another OSError or after 60 s."""
    out = subprocess.PIPE
    try:
        done = subprocess.run(
            argv, stdout=out, stderr=subprocess.STDOUT, text=True, check=False, timeout=60
        )
    except FileNotFoundError:
        return 127, f"{argv[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return 124, str(error)
    return done.returncode, done.stdout.strip()
