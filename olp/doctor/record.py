"""Whether what OLP keeps of its use can be read and written."""

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
"""Less free space than this is soon none."""


async def check_record(state: Path | None) -> Finding:
    """The file of the record; what is looked at takes a second at most."""
    return await asyncio.to_thread(_check, RunFolder(state).state / "olp.db")


def _check(path: Path) -> Finding:
    if not path.exists():
        return _room(path, f"{path} will be made")
    try:
        return _room(path, _sound(path))
    except NewerFile as error:
        fix = f"install the newer OLP again, or start a new database: {_away(path, 'newer')}"
        return Finding(NAME, False, f"{path}: {error}", fix)
    except sqlite3.OperationalError as error:
        fix = "end the program that locks it; OLP then writes its queued entries"
        if "locked" not in str(error):
            fix = f"make it writable: chmod u+rw {path}"
        return Finding(NAME, False, f"{path} cannot be used: {error}", fix)
    except (sqlite3.Error, OSError) as error:
        fix = f"start a new one: {_away(path, 'broken')}"
        return Finding(NAME, False, f"{path} is damaged: {error}", fix)


def _away(path: Path, name: str) -> str:
    """The file with what SQLite keeps beside it, which must never meet another file."""
    folder = path.with_name(name)
    return f"mkdir {folder} && mv {path}* {folder}"


def _sound(path: Path) -> str:
    """What stands in it. sqlite3.Error if it is not sound, or cannot be written."""
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


def _room(path: Path, what: str) -> Finding:
    folder = next(above for above in path.parents if above.exists())
    free = shutil.disk_usage(folder).free / 1024 / 1024
    if free < ROOM_MB:
        fix = "free space on that disk; until then some usage is not recorded"
        return Finding(NAME, False, f"only {free:.0f} MB are free for {path}", fix)
    return Finding(NAME, True, what)
