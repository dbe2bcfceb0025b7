"""Backup and restore of the configuration and state, as one file.

Databases are copied with SQLite's backup API, so the server may be running. Files of a single
server run (private folders, locks) and files that are regenerated are left out.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any

from olp import __version__
from olp.errors import OLPError
from olp.runtime.process.run_folder import in_use

ABOUT = "olp-backup.json"
CONFIG = "olp.toml"
STATE = "state"
FORM = 1
"""Version of the backup format."""

LEFT_OUT = {"runs", "private", "work", "kept", "demo"}
"""Folders of a single run, or with regenerated or disposable content."""

PASSING = ("-wal", "-shm", "-journal", ".new", ".lock", ".token")
"""Suffixes of auxiliary and temporary files."""

MAX_BYTES = 8 * 1024**3
"""Maximum unpacked size of a backup."""


MAX_CONFIG = 1024**2
"""Maximum bytes of a configuration."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore. `aside` are the previous folder and file, moved aside."""

    config: Path | None
    state: Path
    files: int
    aside: tuple[Path, ...]


# --- writing -----------------------------------------------------------------------------------


def write(target: Path, config: Path, state: Path, now: datetime) -> int:
    """Write the backup `target` with mode 600; returns its number of files. Raises OLPError if it
    exists, or if a file cannot be read."""
    new = target.with_name(target.name + ".new")
    try:
        if target.exists():
            raise OLPError(f"{target} is there already")
        new.unlink(missing_ok=True)
        handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            count = _fill(archive, config, state, now)
        new.replace(target)
    except (OSError, sqlite3.Error) as error:
        new.unlink(missing_ok=True)
        raise OLPError(f"the backup could not be made: {error}") from None
    return count


def _fill(archive: tarfile.TarFile, config: Path, state: Path, now: datetime) -> int:
    sources = {CONFIG: config} if config.is_file() else {}
    sources |= {f"{STATE}/{p.relative_to(state).as_posix()}": p for p in _files(state)}
    made = now.isoformat(timespec="seconds")
    about = {"form": FORM, "version": __version__, "made": made, "files": len(sources)}
    _add(archive, ABOUT, io.BytesIO(json.dumps(about).encode()), now)
    for name, path in sources.items():
        at = datetime.fromtimestamp(path.stat().st_mtime)
        with _copy_of(path) if path.suffix == ".db" else path.open("rb") as file:
            _add(archive, name, file, at)
    return len(sources)


def _files(state: Path) -> Iterator[Path]:
    """The files to back up, without symbolic links."""
    for folder, folders, names in os.walk(state):
        here = Path(folder)
        if here == state:
            folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in sorted(names):
            path = here / name
            if path.is_file() and not path.is_symlink() and not name.endswith(PASSING):
                yield path


@contextlib.contextmanager
def _copy_of(database: Path) -> Iterator[IO[bytes]]:
    """A consistent snapshot of a database."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        with (
            closing(sqlite3.connect(database, timeout=10)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        with copy.open("rb") as file:
            yield file


def _add(archive: tarfile.TarFile, name: str, file: IO[bytes], at: datetime) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = file.seek(0, os.SEEK_END)
    entry.mode, entry.mtime = 0o600, round(at.timestamp())
    file.seek(0)
    archive.addfile(entry, file)


# --- reading back ------------------------------------------------------------------------------


def config_in(source: Path) -> str | None:
    """Return the configuration in a backup. Raises OLPError if it is not a backup."""
    with _opened(source) as (archive, _):
        entry = next((e for e in archive if e.name == CONFIG and e.isreg()), None)
        file = archive.extractfile(entry) if entry else None
        try:
            return file.read(MAX_CONFIG).decode("utf-8") if file else None
        except UnicodeDecodeError:
            raise OLPError(f"{source}: the configuration in it cannot be read") from None


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[tuple[tarfile.TarFile, int]]:
    """Open the archive after its first file; also yields the expected number of other files."""
    try:
        with tarfile.open(source, "r:gz") as archive:
            first = archive.next()
            file = archive.extractfile(first) if first and first.name == ABOUT else None
            about: Any = json.load(file) if file else None
            if not isinstance(about, dict) or "form" not in about:
                raise OLPError(f"{source} is no backup of OLP")
            if about["form"] != FORM:
                raise OLPError(f"{source} was made by OLP {about.get('version')}, a newer one")
            yield archive, int(about.get("files", 0))
    except (OSError, EOFError, tarfile.TarError, zlib.error, ValueError) as error:
        raise OLPError(f"{source} cannot be read: {error}") from None


def restore(source: Path, config: Path, state: Path, now: datetime) -> Restored:
    """Restore a backup. Existing files are moved aside, never overwritten.

    Raises OLPError, without any change, if a server uses `state` or the backup is incomplete.
    """
    if in_use(state):
        raise OLPError(f"a server runs on {state}; stop it first")
    try:
        return _restore(source, config, state, f"before-restore-{now:%Y%m%d-%H%M%S}")
    except OSError as error:
        raise OLPError(f"{error.filename or state}: {error.strerror}") from None


def _restore(source: Path, config: Path, state: Path, stamp: str) -> Restored:
    state.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=state.parent, prefix=".olp-restore-") as folder:
        fresh = Path(folder) / STATE
        fresh.mkdir(mode=0o700)
        count, text = _unpack(source, fresh)
        aside = [_aside(state, stamp)] if state.exists() else []
        if text is not None and config.exists():
            aside.append(_aside(config, stamp))
        fresh.rename(state)
    if text is not None:
        config.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(config, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(text)
    return Restored(config if text is not None else None, state, count, tuple(aside))


def _unpack(source: Path, folder: Path) -> tuple[int, bytes | None]:
    """Unpack the state to `folder`; returns the number of files, and the configuration."""
    count, total, config = 0, 0, None
    with _opened(source) as (archive, expected):
        for entry in archive:
            if entry.name == ABOUT:
                continue
            total += entry.size
            path = PurePosixPath(entry.name)
            if not entry.isreg() or path.is_absolute() or ".." in path.parts or total > MAX_BYTES:
                raise OLPError(f"{source} holds what no backup of OLP holds: {entry.name!r}")
            file = archive.extractfile(entry)
            assert file is not None
            count += 1
            if entry.name == CONFIG:
                config = file.read(MAX_CONFIG)
            elif path.parts[0] == STATE and len(path.parts) > 1:
                _put(folder.joinpath(*path.parts[1:]), file)
            else:
                raise OLPError(f"{source} holds what no backup of OLP holds: {entry.name!r}")
        # tarfile accepts a truncated archive; reading to the end verifies the gzip checksum.
        while archive.fileobj is not None and archive.fileobj.read(1024**2):
            continue
        if count != expected:
            raise OLPError(f"{source} is not whole: {count} of {expected} files are in it")
    return count, config


def _put(path: Path, data: IO[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    with path.open("wb") as file:
        shutil.copyfileobj(data, file)


def _aside(path: Path, stamp: str) -> Path:
    target = path.with_name(f"{path.name}.{stamp}")
    path.rename(target)
    return target
