"""Puts OLP into a client's own files: shown first, the old ones kept, all of them or none."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from olp.connect.base import ANY_KEY, PLACEHOLDER, CannotMerge, Client, ClientFile, Target
from olp.errors import OLPError


@dataclass(frozen=True, slots=True)
class Change:
    """What one file is to become; `old` is None where there is none yet."""

    path: Path
    old: str | None
    new: str

    @property
    def is_one(self) -> bool:
        """Whether anything changes."""
        return self.old != self.new


def path_of(file: ClientFile) -> Path:
    """Where the client's file is on this system, or would be."""
    folder = Path(file.folder(sys.platform, os.environ)).expanduser()
    places = [folder / name for name in file.names]
    return next((place for place in places if place.exists()), places[0])


def changes(client: Client, target: Target, given: str | None) -> Sequence[Change]:
    """What OLP's entry makes of the client's files, nothing written yet; `given` is the first of
    them where it is not at its usual place. OLPError if it cannot be put in safely."""
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
    """Write what changes: each file's path with that of its old text, None if there was none."""
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
    """What changes, without the key: what stands on a screen ends up in pictures of it."""
    secret = key not in (ANY_KEY, PLACEHOLDER)
    path = str(change.path)
    before, after = (change.old or "").splitlines(), change.new.splitlines()
    for line in difflib.unified_diff(before, after, path, path, lineterm="", n=2):
        yield (line.replace(key, f"{key[:8]}…") if secret else line) + "\n"


def _keep(path: Path) -> Path | None:
    """A copy beside the file, with the time in its name; None if there was no file."""
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
    """The new file in the place of the old one, in one step. A new one is its owner's alone,
    since there may be a key in it."""
    new: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        new = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
        if path.exists():
            shutil.copymode(path, new)
        new.replace(path)
    except OSError as error:
        if new is not None:
            new.unlink(missing_ok=True)
        raise OLPError(f"{path} cannot be written: {error.strerror}") from None
