"""The key file, for the server and the `olp keys` commands.

Changes are atomic: the new file is written, synced and renamed over the old one under a lock. The
server checks the file's identity on every request (microseconds) and reloads it when it changed, so
a revoked key is refused at once.

It fails closed: an unreadable or removed file does not turn authentication off.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from olp import files
from olp.core.keys import keyfile
from olp.core.keys.key import PREFIX
from olp.core.keys.keyfile import Keys
from olp.errors import OLPError

FILE = "keys.json"

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of the key file."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The content of the key file. `problem` is why it is unusable, if so; then there are no keys,
    but one is still required."""

    keys: Keys = ()
    problem: str | None = None

    @property
    def on(self) -> bool:
        """Whether requests need a key: once any key exists, revoked or not."""
        return bool(self.keys) or self.problem is not None


def _read(path: Path) -> tuple[Ring, tuple[int, ...]]:
    """Read the file at `path`; returns its content and identity."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return Ring(problem=f"it is larger than {MAX_BYTES // 1024**2} MiB"), _identity(status)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"others may write to it; `chmod 600 {FILE}` in the state folder"
        return Ring(problem=problem), _identity(status)
    try:
        return Ring(keyfile.read(data)), _identity(status)
    except ValueError as error:
        return Ring(problem=f"it cannot be used: {error}"), _identity(status)


class Keyring:
    """The keys in the folder `state`."""

    def __init__(self, state: Path) -> None:
        self.path = state / FILE
        self._seen: tuple[int, ...] | None = None
        self._ring = Ring()

    def look(self) -> Ring:
        """The keys as they are now."""
        try:
            found = _identity(self.path.stat())
            # Any difference counts, not only a later mtime: clocks are set back, and a restored
            # backup is older.
            if found != self._seen:
                self._ring, self._seen = _read(self.path)
        except FileNotFoundError:
            if self._ring.on:
                gone = "the file of the keys is gone; bring it back, or start OLP again without it"
                self._ring, self._seen = Ring(problem=gone), None
        except OSError as error:
            self._ring, self._seen = Ring(problem=f"it cannot be read: {error.strerror}"), None
        return self._ring

    def change(self, change: Callable[[Keys], Keys]) -> tuple[Keys, Keys]:
        """Apply `change`; returns the old and the new keys. Raises OLPError, without any change, if
        the file cannot be read or written."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.parent.chmod(0o700)
            with self._locked():
                ring = self.look()
                if ring.problem is not None:
                    raise OLPError(f"{self.path}: {ring.problem}; nothing was changed")
                keys = change(ring.keys)
                self._write(keyfile.written(keys), keys)
        except OSError as error:
            where = error.filename or self.path
            raise OLPError(f"the keys cannot be written: {where}: {error.strerror}") from None
        return ring.keys, keys

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock for changes. It is a separate file, since each change replaces the key
        file."""
        with files.locked(self.path.with_name(f"{FILE}.lock")):
            for left in self.path.parent.glob(f"{FILE}{files.NEW}*"):
                left.unlink(missing_ok=True)  # of an interrupted change
            yield

    def _write(self, data: bytes, keys: Keys) -> None:
        files.replace(self.path, data, durable=True, check=lambda new: self._read_back(new, keys))
        self._sync(self.path.parent)

    @staticmethod
    def _read_back(path: Path, keys: Keys) -> None:
        """Verify the new file; an unreadable one would lock all users out. Raises OLPError."""
        ring, _ = _read(path)
        if ring.keys != keys:
            why = ring.problem or "it does not say what was written"
            raise OLPError(f"nothing was changed, since the new file would be unusable: {why}")

    def _sync(self, folder: Path) -> None:
        """Sync the folder, or a power failure could restore the old file with a revoked key."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (
        *(status.st_dev, status.st_ino, status.st_size, status.st_mode),
        *(status.st_mtime_ns, status.st_ctime_ns),
    )


def new_token() -> str:
    """A random token."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


def new_id() -> str:
    """An id for a new key."""
    return secrets.token_hex(8)
