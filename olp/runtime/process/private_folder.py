"""The private folder of one launch: its files, and its symlinks to login files.

A CLI may replace a symlinked login file instead of writing through the link (a token refresh that
renames a new file into place). Such a file is copied back to the user's own, so that the new token
is not lost with the folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from olp import files
from olp.model import PRIVATE_DIR, Launch
from olp.runtime.process.removal import remove

DYING_S = 3.0
"""Seconds that the rest of a killed process group may take to exit."""

LOGIN_LIMIT = 1024 * 1024
"""Maximum bytes of a login file that is copied back."""

COLLECT_LIMIT = 16 * 1024 * 1024
"""Bytes read of a collected file."""


class PrivateFolder:
    """A folder of mode 0700 that lives as long as its process."""

    def __init__(self, base: Path, prefix: str, launch: Launch) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
        self._launch = launch
        try:
            self._fill()
        except BaseException:
            remove(self.path)
            raise

    def _fill(self) -> None:
        for name, data in self._launch.files.items():
            _write_private(self._inside(name), data)
        for name, target in self._launch.links.items():
            if Path(target).exists():
                self._inside(name).symlink_to(target)
            else:
                self._inside(name)

    def _inside(self, name: str) -> Path:
        """The path of `name`; parents are created one by one, since `parents=True` ignores the
        mode for them."""
        folder = self.path
        for part in Path(name).parts[:-1]:
            folder = folder / part
            folder.mkdir(mode=0o700, exist_ok=True)
        return self.path / name

    def argv(self) -> list[str]:
        """The launch's arguments, with this folder's path in them."""
        return [word.replace(PRIVATE_DIR, str(self.path)) for word in self._launch.argv]

    def env(self) -> dict[str, str]:
        """The launch's environment, with this folder's path in it."""
        return {
            name: value.replace(PRIVATE_DIR, str(self.path))
            for name, value in self._launch.env.items()
        }

    def put(self, name: str, data: bytes) -> None:
        """Write a file, replacing one of that name. Raises OSError."""
        path = self._inside(name)
        path.unlink(missing_ok=True)
        _write_private(path, data)

    def collect(self) -> Mapping[str, bytes]:
        """The contents of the launch's `collect` files that exist, by name."""
        found: dict[str, bytes] = {}
        for name in self._launch.collect:
            with contextlib.suppress(OSError), (self.path / name).open("rb") as file:
                found[name] = file.read(COLLECT_LIMIT)
        return found

    def close(self) -> None:
        """Copy new login files back, and remove the folder."""
        for name, target in self._launch.links.items():
            path = self.path / name
            if _is_login(path):
                _carry_back(path, Path(target).resolve())
        _remove_dying(self.path)


def sweep(patterns: Sequence[str], pid: int) -> None:
    """Remove files that the exited process `pid` left outside of its folder."""
    for pattern in patterns:
        path = Path(pattern.replace("{pid}", str(pid)).replace("{uid}", str(os.getuid())))
        with contextlib.suppress(OSError):
            for found in sorted(path.parent.glob(path.name)):
                remove(found)


def _is_login(path: Path) -> bool:
    """Whether `path` can be a login file: a regular file of at most LOGIN_LIMIT bytes."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= LOGIN_LIMIT


def _remove_dying(folder: Path) -> None:
    """Remove it, retrying while killed processes still write there."""
    until = time.monotonic() + DYING_S
    while not remove(folder) and time.monotonic() < until:
        time.sleep(0.02)


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _carry_back(path: Path, target: Path) -> None:
    """Atomically replace `target` by the file `path`, unless `target` is newer.

    Several processes may have refreshed the token at the same time. They are serialised by a lock,
    and files keep their mtime, so that the newest wins.
    """
    with contextlib.suppress(OSError):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.locked(target.parent):
            if target.exists() and path.stat().st_mtime_ns < target.stat().st_mtime_ns:
                return
            written = path.stat().st_mtime_ns
            times = (written, written)
            files.replace(target, path.read_bytes(), check=lambda new: os.utime(new, ns=times))
