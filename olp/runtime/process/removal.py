"""Removes any files a CLI left; never recurses, never raises.

A model with a tool, or a broken CLI, may leave thousands of nested folders, folders without
permissions, or names that are not UTF-8. A failed removal would block the next start of the server
and expose the files to other users' requests until then.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: Path) -> bool:
    """Remove a file or a folder; True if it is gone. Symlinks are not followed."""
    empty(path)
    for take in (os.rmdir, os.unlink):
        with contextlib.suppress(OSError):
            take(path)
    return not os.path.lexists(path)


def empty(folder: Path) -> bool:
    """Remove everything in `folder`; True if nothing is left."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return False
        folder.chmod(0o700)
        top = os.open(folder, _FOLDER)
    except OSError:
        return not os.path.lexists(folder)
    try:
        return not os.listdir(top) or _emptied(top)  # noqa: PTH208
    except OSError:
        return False
    finally:
        os.close(top)


def _emptied(top: int) -> bool:
    """Moves nested folders up to `top` one by one, so that no path gets long and at most two
    folders are open."""
    waiting = _cleared(top, top)
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):
            inner = os.open(name, _FOLDER, dir_fd=top)
            try:
                waiting += _cleared(inner, top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    return not os.listdir(top)


def _cleared(folder: int, top: int) -> list[bytes]:
    """Remove the files of `folder`; returns its subfolders by their names in `top`, after the
    move."""
    found = []
    for name in map(os.fsencode, os.listdir(folder)):
        try:
            os.unlink(name, dir_fd=folder)
            continue
        except OSError:
            lifted = name if folder == top else f"lifted-{secrets.token_hex(8)}".encode()
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                continue  # not a folder, and it could not be unlinked
            os.chmod(name, 0o700, dir_fd=folder)  # else it could be neither read nor moved
            if folder != top:
                os.rename(name, lifted, src_dir_fd=folder, dst_dir_fd=top)
            found.append(lifted)
    return found
