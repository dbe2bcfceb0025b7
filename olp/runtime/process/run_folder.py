"""The folders of one server run, and the sweep after runs that could not clean up.

Every run has an id, which is in the environment of each process it starts and in the name of each
private folder; a file of that name is locked while the run lives. If a file is no longer locked,
its run is over, and all processes and folders with its id are killed and removed. This needs no
state per process, and finds grandchildren too.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
import signal
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from olp import files
from olp.errors import StartError
from olp.runtime.process import child as process
from olp.runtime.process.removal import empty, remove
from olp.runtime.process.worker import RUN_VARIABLE


class RunFolder:
    """Opened once per run. `state` is the persistent state folder; `within` is a parent of it that
    is made private as well."""

    def __init__(self, state: Path | None = None, within: Path | None = None) -> None:
        self.state = state or default_state()
        self._above = (within,) if within else ()
        self.run_id = secrets.token_hex(8)
        self._runtime = _runtime_folder(self.state)
        self.work = _work_folder(self.state, self._runtime)
        self.private = self._runtime / "private"
        self._runs = self.state / "runs"
        self._lock: int | None = None
        self._serving: int | None = None

    def open(self) -> int:
        """Create the folders and lock the run; returns how many left-over processes were killed.

        Raises StartError if the folders cannot be made, written or emptied.
        """
        self._make(*self._above, self.state, self._runs)
        with self._alone():
            self._make(self.work, self.private)
            if not empty(self.work):
                raise StartError(
                    f"{self.work} is where the CLIs run, and OLP cannot remove what is in it"
                )
            swept = self._sweep()
            self._lock = os.open(self._runs / self.run_id, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return swept

    @staticmethod
    def _make(*folders: Path) -> None:
        for folder in folders:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
            except OSError as error:
                raise StartError(f"cannot use the folder {folder}: {error.strerror}") from None
            if not os.access(folder, os.W_OK):
                raise StartError(f"cannot write in the folder {folder}")

    def serve(self) -> None:
        """Take the server lock of the state folder until `close`. Raises StartError if another
        server has it: limits, slots and holds are in memory, so two servers would admit twice as
        much."""
        serving = os.open(self.state / "serving", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(serving, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(serving)
            raise StartError(
                f"a server runs over the folder {self.state} already, and two would count limits "
                'twice; stop it, or give this one a folder of its own: state_dir = "…" in [server]'
            ) from None
        self._serving = serving

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Serialises starts and ends: a sweep must not find a run's file before it is locked, and
        an end must not remove the working directory of a start."""
        return files.locked(self._runs)

    def close(self) -> None:
        """End the run: kill and remove what it left, and release the locks."""
        if self._lock is None:
            return
        self._remove(self.run_id)
        os.close(self._lock)
        self._lock = None
        if self._serving is not None:
            os.close(self._serving)
            self._serving = None
        with contextlib.suppress(OSError), self._alone():
            if not in_use(self.state):
                self.work.rmdir()

    async def tidy(self) -> None:
        """Empty the working directory, so that no request sees another's files; recreate it if a
        cleanup of /tmp removed it."""
        with contextlib.suppress(OSError):
            if not self.work.is_dir():
                self.work = _work_folder(self.state, self._runtime)
                self.work.mkdir(mode=0o700)
            if any(self.work.iterdir()):
                await asyncio.to_thread(empty, self.work)

    def alive(self, run_id: str) -> bool:
        """Whether the run with this id is alive."""
        return _locked(self._runs / run_id)

    def _sweep(self) -> int:
        ended = 0
        for file in self._runs.iterdir():
            try:
                descriptor = os.open(file, os.O_RDWR)
            except FileNotFoundError:
                # That run has just ended.
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            else:
                ended += self._remove(file.name)
            finally:
                os.close(descriptor)
        return ended

    def _remove(self, run_id: str) -> int:
        processes = [pid for pid in marked(run_id) if pid != os.getpid()]
        for pid in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for folder in self.private.glob(f"{run_id}-*"):
            remove(folder)
        (self._runs / run_id).unlink(missing_ok=True)
        return len(processes)


def default_state() -> Path:
    """The platform's state folder for OLP."""
    return Path(platformdirs.user_state_dir("olp"))


def in_use(state: Path) -> bool:
    """Whether a run is alive on this state folder."""
    try:
        files = list((state / "runs").iterdir())
    except OSError:
        return False
    return any(_locked(file) for file in files)


def _locked(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _runtime_folder(state: Path) -> Path:
    """The parent of the working and private folders: XDG_RUNTIME_DIR (in memory) if writable, since
    a CLI may send the path to its vendor and this one has no user name in it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "olp"
    return state


_TEMPORARY = Path("/tmp")


def _work_folder(state: Path, runtime: Path) -> Path:
    """The working directory of every CLI, one per state folder. Claude Code sends the path to its
    model and cannot be told not to; so the path is constant, does not name the user, and shows that
    it is not the client's directory. If another user owns it, a folder of OLP's own is used."""
    name = f"olp-empty-{hashlib.sha256(os.fsencode(state)).hexdigest()[:8]}"
    folder = _TEMPORARY / name
    return folder if _TEMPORARY.is_dir() and _is_free(folder) else runtime / "work" / name


def _is_free(folder: Path) -> bool:
    """Whether it does not exist, or is this user's folder."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def marked(run_id: str) -> Iterable[int]:
    """Ids of the processes with `run_id` in their environment."""
    mark = f"{RUN_VARIABLE}={run_id}"
    if sys.platform == "linux":
        yield from _marked_in_proc(mark.encode())
    else:
        yield from _marked_by_ps(mark)


def _marked_in_proc(mark: bytes) -> Iterable[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


def _marked_by_ps(mark: str) -> Iterable[int]:
    """`ps e` shows the environment of the user's own processes on the BSDs and macOS."""
    for line in process.output_of(["ps", "axeww", "-o", "pid=,command="]).splitlines():
        if mark in line.split():
            yield int(line.split(maxsplit=1)[0])
