"""The private folder of one launch: its files, its links to a login, and what is left in it.

A CLI may replace a linked login file by a new one instead of writing through the link (a refreshed
token, written safely, is a rename). What it left in the link's place is carried back to the user's
own file, so that the new token is not lost with the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from olp.model import PRIVATE_DIR, Launch

COLLECT_LIMIT = 16 * 1024 * 1024
"""Bytes of a collected file that are read."""


class PrivateFolder:
    """A folder of mode 0700 that lives as long as its process."""

    def __init__(self, base: Path, prefix: str, launch: Launch) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
        self._launch = launch
        for name, data in launch.files.items():
            _write_private(self._inside(name), data)
        for name, target in launch.links.items():
            if Path(target).exists():
                self._inside(name).symlink_to(target)
            else:
                self._inside(name)

    def _inside(self, name: str) -> Path:
        path = self.path / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def argv(self) -> list[str]:
        """The launch's arguments, with this folder's path in them."""
        return [word.replace(PRIVATE_DIR, str(self.path)) for word in self._launch.argv]

    def env(self) -> dict[str, str]:
        """The launch's environment, with this folder's path in it."""
        return {
            name: value.replace(PRIVATE_DIR, str(self.path))
            for name, value in self._launch.env.items()
        }

    def collect(self) -> Mapping[str, bytes]:
        """The files that the launch wanted back, as far as they are there."""
        found: dict[str, bytes] = {}
        for name in self._launch.collect:
            with contextlib.suppress(OSError), (self.path / name).open("rb") as file:
                found[name] = file.read(COLLECT_LIMIT)
        return found

    def close(self) -> None:
        """Carry a new login back, and remove the folder."""
        for name, target in self._launch.links.items():
            path = self.path / name
            if path.is_file() and not path.is_symlink() and _newer(path, Path(target)):
                _replace(Path(target), path.read_bytes())
        shutil.rmtree(self.path, ignore_errors=True)


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _newer(path: Path, target: Path) -> bool:
    return not target.exists() or path.stat().st_mtime >= target.stat().st_mtime


def _replace(target: Path, data: bytes) -> None:
    """Write `data` to `target` so that a reader sees the old or the new file, never a half."""
    with contextlib.suppress(OSError):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.olp-{os.getpid()}")
        _write_private(temporary, data)
        temporary.replace(target)
