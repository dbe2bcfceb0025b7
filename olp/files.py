"""Files that others may read while they are written, and folders that one may change at a time."""

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
    """Write `data` to `path` in one step: a reader sees the old file or the new one, never a part.

    The new file has `mode` from its beginning. `check` may look at it, and raise, before it takes
    the place of the old one; a `durable` one is on the disk by then. OSError leaves the old file.
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
"""What stands behind the name of a file that has not taken its place yet."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of `path`, a folder or a file, which keeps out every other user of this
    function, in this process and in others. A file is made if it is not there."""
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
