"""Atomic file replacement, and file locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def replace(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    durable: bool = False,
    check: Callable[[Path], None] = lambda new: None,
) -> Path:
    """Replace the content of `path` atomically.

    `check` may verify the new file, and raise, before it is renamed; with `durable`, it is
    synced to disk by then. Raises OSError, with the old file unchanged.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}{NEW}")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new.chmod(mode)
        check(new)
        return new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


NEW = ".new-"
"""Infix of the names of temporary files."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`, a folder or a file, within and across processes. A missing
    file is created."""
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
