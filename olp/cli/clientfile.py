"""Edits a client's own configuration files: shows the changes, keeps backups, and writes all files
or none.
"""

from __future__ import annotations

import difflib
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from olp import files
from olp.connect.base import ANY_KEY, PLACEHOLDER, CannotMerge, Client, ClientFile, Target
from olp.errors import OLPError


@dataclass(frozen=True, slots=True)
class Change:
    """The planned content of one file; `old` is None if it does not exist yet."""

    path: Path
    old: str | None
    new: str

    @property
    def is_one(self) -> bool:
        """Whether the content differs."""
        return self.old != self.new


def path_of(file: ClientFile) -> Path:
    """The path of the client's file on this system, existing or not."""
    folder = Path(file.folder(sys.platform, os.environ)).expanduser()
    candidates = [folder / name for name in file.names]
    return next((path for path in candidates if path.exists()), candidates[0])


def changes(client: Client, target: Target, given: str | None) -> Sequence[Change]:
    """The changes that add OLP to the client's files; nothing is written.

    `given` replaces the path of the first file. Raises OLPError if a file cannot be changed safely.
    """
    if not client.files:
        why = client.cannot or f"{client.title} has no configuration file to write"
        raise OLPError(f"{why}; `olp connect {client.name}` shows what to do")
    paths = [path_of(file) for file in client.files]
    if given:
        paths[0] = Path(given)
    return [
        _merged(client, file, path.resolve(), target)
        for file, path in zip(client.files, paths, strict=True)
    ]


def write(found: Sequence[Change]) -> dict[Path, Path | None]:
    """Write the changed files; returns paths with those of the backups, None for new files."""
    wanted = [change for change in found if change.is_one]
    kept = {change.path: _keep(change.path) for change in wanted}
    for number, change in enumerate(wanted):
        try:
            _replace(change.path, change.new)
        except OLPError:
            for before in wanted[:number]:
                _restore(before)
            raise
    return kept


def _restore(change: Change) -> None:
    if change.old is None:
        change.path.unlink(missing_ok=True)
    else:
        _replace(change.path, change.old)


def _merged(client: Client, file: ClientFile, path: Path, target: Target) -> Change:
    old = _read(path)
    try:
        return Change(path, old, file.merge(old or "", target))
    except CannotMerge as error:
        _print_instead(client, target)
        raise OLPError(f"{path} was not changed: {error}; add the above by hand") from None


def _print_instead(client: Client, target: Target) -> None:
    for snippet in client.snippets(target):
        click.echo(f"# {snippet.where}\n{snippet.text}")


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise OLPError(f"{path} was not changed: it is not UTF-8") from None
    except OSError as error:
        raise OLPError(f"{path} cannot be read: {error.strerror}") from None


def difference(change: Change, key: str) -> Iterator[str]:
    """The lines of a diff, with the key shortened: terminal output ends up in screenshots."""
    secret = key not in (ANY_KEY, PLACEHOLDER)
    path = str(change.path)
    before, after = (change.old or "").splitlines(), change.new.splitlines()
    for line in difflib.unified_diff(before, after, path, path, lineterm="", n=2):
        yield (line.replace(key, f"{key[:8]}…") if secret else line) + "\n"


def _keep(path: Path) -> Path | None:
    """Copy a file to a timestamped backup next to it; None if it does not exist."""
    if not path.exists():
        return None
    kept = path.with_name(f"{path.name}.olp-{datetime.now():%Y%m%d-%H%M%S}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.olp-{datetime.now():%Y%m%d-%H%M%S}-{number}")
    try:
        shutil.copy2(path, kept)
    except OSError as error:
        raise OLPError(f"{kept} cannot be written: {error.strerror}") from None
    return kept


def _replace(path: Path, text: str) -> None:
    """Replace the file atomically. A new file is readable by its owner only, since it may contain a
    key.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
        files.replace(path, text.encode("utf-8"), mode=mode)
    except OSError as error:
        raise OLPError(f"{path} cannot be written: {error.strerror}") from None
