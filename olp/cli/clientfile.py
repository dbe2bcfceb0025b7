"""Puts OLP into a client's own file: shown first, the old file kept beside it, all or nothing."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from olp.connect.base import ANY_KEY, PLACEHOLDER, CannotMerge, Client, ClientFile, Target
from olp.errors import OLPError


def path_of(file: ClientFile) -> Path:
    """Where the client's file is on this system, or would be."""
    places = [
        Path(text.replace("%APPDATA%", os.environ.get("APPDATA", "~"))).expanduser()
        for text in file.candidates(sys.platform)
    ]
    return next((place for place in places if place.exists()), places[0])


def write(client: Client, target: Target, given: str | None) -> None:
    """Merge OLP into the client's file; OLPError if that cannot be done safely."""
    if client.file is None:
        why = client.cannot or f"{client.title} has no file that could be written"
        raise OLPError(f"{why}; `olp connect {client.name}` shows what to do")
    path = (Path(given) if given else path_of(client.file)).resolve()
    old = _read(path)
    try:
        new = client.file.merge(old or "", target)
    except CannotMerge as error:
        _print_instead(client, target)
        raise OLPError(f"{path} was not touched, since {error}; put the above in by hand") from None
    if new == old:
        click.echo(f"{path} is as it should be.")
        return
    click.echo("".join(_diff(path, old or "", new, target.key)), nl=False)
    if sys.stdin.isatty() and not click.confirm(f"Write {path}?", default=True):
        raise OLPError("nothing was written")
    kept = _keep(path)
    _replace(path, new)
    click.echo(f"\nWritten: {path}" + (f"\nThe old one: {kept}" if kept else ""))
    for note in (client.warning, *client.notes):
        click.echo(f"- {note}" if note else "", nl=bool(note))


def _print_instead(client: Client, target: Target) -> None:
    for snippet in client.snippets(target):
        click.echo(f"# {snippet.where}\n{snippet.text}")


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise OLPError(f"{path} was not touched, since it is not UTF-8") from None
    except OSError as error:
        raise OLPError(f"{path} cannot be read: {error.strerror}") from None


def _diff(path: Path, old: str, new: str, key: str) -> Iterator[str]:
    """What changes, without the key: what stands on a screen ends up in pictures of it."""
    secret = key not in (ANY_KEY, PLACEHOLDER)
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), str(path), str(path), lineterm="", n=2
    )
    for line in lines:
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
    shutil.copy2(path, kept)
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
