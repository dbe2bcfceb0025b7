"""Starts CLIs and ends them: the only module in which a process begins.

Each one is the leader of a session of its own, so that it and everything it started can be ended
together. Where the system has it, the parent-death signal ends it with the server. Its end is the
end of the process itself: a grandchild that keeps standard output open delays nobody.
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
"""Bytes of output waiting to be read at which the CLI is made to wait."""

STDERR_TAIL = 64 * 1024
"""Bytes of standard error that are kept, the last ones."""

LAST_WORDS_S = 0.25
"""How long output may still arrive when the process has ended but its output was not closed."""

SILENT_EXIT_S = 2.0
"""How long a process that closed its output may take to end by itself."""

TERM_GRACE_S = 5.0
"""Time between the polite signal and the other one."""


class Child(asyncio.SubprocessProtocol):
    """One running CLI, seen through its three pipes."""

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

    # --- what the event loop tells -------------------------------------------------------------

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

    # --- what OLP does -------------------------------------------------------------------------

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._transport.get_returncode() if self._transport else None

    @property
    def running(self) -> bool:
        """Whether it runs at this very moment, which the loop may hear of a moment later."""
        if self.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False  # waited for already, by the thread that tells the loop

    @property
    def stderr(self) -> str:
        """The end of what it wrote to standard error."""
        return self._stderr.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        """Queue `data` for its standard input. A CLI that no longer reads is no error here."""
        pipe = self._input()
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def close_input(self) -> None:
        """Close its standard input when all that was written has gone out."""
        pipe = self._input()
        if pipe is not None and not pipe.is_closing():
            pipe.close()

    def _input(self) -> asyncio.WriteTransport | None:
        assert self._transport is not None
        return cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))

    def nudge(self) -> None:
        """Let `read` come back although there is no output."""
        self._nudged = True
        self._wake.set()

    async def read(self) -> bytes | None:
        """The output that has come, as soon as there is any; nothing when it has ended; None if it
        was nudged."""
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
        """Let it and all it started do nothing more, this very moment."""
        self._signal(signal.SIGKILL)

    async def stop(self, grace: float = TERM_GRACE_S) -> None:
        """End the process and all it started, and wait until it is gone; killed after `grace`
        seconds."""
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
        # PermissionError is macOS's answer for a group that has only zombies left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _with_death_signal(argv: Sequence[str]) -> Sequence[str]:
    """`argv` so that the kernel ends it when the server dies, where there is a way to ask.

    The usual way, code between fork and exec, is unsafe beside threads and costs a copy of the
    server's page tables; util-linux's setpriv does the same from outside.
    """
    setpriv = _SETPRIV
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else argv


_SETPRIV = shutil.which("setpriv") if sys.platform == "linux" else None


class ProgramMissing(Exception):
    """There is no such program."""


async def start(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Child:
    """Start `argv` in a session of its own, with exactly `env`.

    ProgramMissing if the program is not there; OSError if it cannot be started.
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
    """What a short command of the system itself prints; nothing if it is not there."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def run(argv: Sequence[str]) -> tuple[int, str]:
    """Exit code and output, errors included, of a short command of the system itself; 127 if it is
    not there, 124 if it does not end."""
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
