"""Removes what a CLI left, whatever that is: it never recurses and never raises.

A model that got hold of a tool, or a CLI that has gone mad, may leave folders nested by thousands,
folders without rights, or names that are no text. A removal that gives up on them would stop the
next start of the server, and would let other people's CLIs see them until then.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: Path) -> bool:
    """Remove `path`, a folder or anything else; whether it is gone. A link is removed and not
    followed."""
    empty(path)
    for take in (os.rmdir, os.unlink):
        with contextlib.suppress(OSError):
            take(path)
    return not os.path.lexists(path)


def empty(folder: Path) -> bool:
    """Remove everything in `folder`; whether nothing is left."""
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
    """Folders inside folders are lifted to `top` one after the other, so that no path is ever long
    and no more than two folders are ever open."""
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
    """Remove the files of `folder`; its own folders, by the names that they now have in `top`."""
    found = []
    for name in map(os.fsencode, os.listdir(folder)):
        try:
            os.unlink(name, dir_fd=folder)
            continue
        except OSError:
            lifted = name if folder == top else f"lifted-{secrets.token_hex(8)}".encode()
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                continue  # a link, whose target is not ours to touch
            os.chmod(name, 0o700, dir_fd=folder)  # else it could be neither read nor moved
            if folder != top:
                os.rename(name, lifted, src_dir_fd=folder, dst_dir_fd=top)
            found.append(lifted)
    return found
