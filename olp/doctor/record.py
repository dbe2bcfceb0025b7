"""Checks whether the usage store can be read and written."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from olp.core.words import counted
from olp.doctor.finding import Finding
from olp.runtime.process.run_folder import RunFolder
from olp.runtime.usage.schema import NewerFile, opened_to_read

NAME = "record"

ROOM_MB = 50
"""Megabytes of free space below which a warning is due."""


async def check_record(state: Path | None) -> Finding:
    """Check the file of the usage store; takes a second at most."""
    return await asyncio.to_thread(_check, RunFolder(state).state / "olp.db")


def _check(path: Path) -> Finding:
    if not path.exists():
        return _check_space(path, f"{path} will be made")
    try:
        return _check_space(path, _check_content(path))
    except NewerFile as error:
        fix = (
            f"install the newer OLP again, or start a new database: {_move_command(path, 'newer')}"
        )
        return Finding(NAME, False, f"{path}: {error}", fix)
    except sqlite3.OperationalError as error:
        fix = "end the program that locks it; OLP then writes its queued entries"
        if "locked" not in str(error):
            fix = f"make it writable: chmod u+rw {path}"
        return Finding(NAME, False, f"{path} cannot be used: {error}", fix)
    except (sqlite3.Error, OSError) as error:
        fix = f"start a new one: {_move_command(path, 'broken')}"
        return Finding(NAME, False, f"{path} is damaged: {error}", fix)


def _move_command(path: Path, name: str) -> str:
    """A command that moves the file together with SQLite's auxiliary files, which must not be used
    with another file.
    """
    folder = path.with_name(name)
    return f"mkdir {folder} && mv {path}* {folder}"


def _check_content(path: Path) -> str:
    """A summary of the content. Raises sqlite3.Error if the file is corrupt or not writable."""
    with closing(opened_to_read(path)) as db:
        verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict.splitlines()[-1])
        db.execute("PRAGMA query_only = 0")
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
        known = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'requests'").fetchone()
        query = "SELECT count(*), min(day) FROM requests"
        requests, day = db.execute(query).fetchone() if known else (0, None)
    size = path.stat().st_size / 1024 / 1024
    since = f" since {day}" if day else ""
    return f"{path} holds {counted(requests, 'request')}{since} ({size:.1f} MB)"


def _check_space(path: Path, what: str) -> Finding:
    folder = next(above for above in path.parents if above.exists())
    free = shutil.disk_usage(folder).free / 1024 / 1024
    if free < ROOM_MB:
        fix = "free space on that disk; until then some usage is not recorded"
        return Finding(NAME, False, f"only {free:.0f} MB are free for {path}", fix)
    return Finding(NAME, True, what)
