"""Files made from a CLI's survey and used by its later launches.

Keyed by command, mtime and size of the program, so that a new version of the CLI is surveyed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from olp import files


def _folder(base: Path, command: Sequence[str]) -> Path:
    try:
        program = Path(command[0]).stat()
        version = f"{program.st_mtime_ns}:{program.st_size}"
    except OSError:
        version = "unknown"
    seed = "\0".join((*command, version)).encode()
    return base / hashlib.sha256(seed).hexdigest()[:16]


def find(base: Path, command: Sequence[str]) -> Mapping[str, str]:
    """The paths of the files kept for the program of `command`, by name."""
    folder = _folder(base, command)
    if not folder.is_dir():
        return {}
    return {file.name: str(file) for file in folder.iterdir() if files.NEW not in file.name}


def write(base: Path, command: Sequence[str], name: str, data: bytes) -> Path:
    """Store `data` atomically; returns the path. Raises OSError."""
    folder = _folder(base, command)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return files.replace(folder / name, data)
