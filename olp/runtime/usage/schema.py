"""Schema and migrations of the usage store.

`PRAGMA user_version` is the number of applied migrations. A released migration is never changed. A
file from a newer OLP is neither read nor written, since its data may have another meaning.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

LOCK_WAIT_S = 5.0
"""Seconds to wait for another process's lock."""

_FIRST = (
    """CREATE TABLE IF NOT EXISTS stories (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL, at REAL NOT NULL, story TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS stories_by_id ON stories (id)",
    """CREATE TABLE IF NOT EXISTS days (
        day TEXT NOT NULL, provider TEXT NOT NULL, requests INTEGER NOT NULL,
        PRIMARY KEY (day, provider)
    )""",
    """CREATE TABLE IF NOT EXISTS people (
        day TEXT NOT NULL, person TEXT NOT NULL,
        requests INTEGER NOT NULL, tokens INTEGER NOT NULL, background INTEGER NOT NULL,
        PRIMARY KEY (day, person)
    )""",
)
"""Unversioned files (user_version 0) have some of these tables."""

# `day` is the local date. `person` is a key id; its current name is in `names`. `sums` is kept by a
# trigger in the request's own transaction, so that the two never differ; a million requests are
# then summed by reading a few hundred rows.
_BOOK = (
    """CREATE TABLE requests (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL, at REAL NOT NULL, day TEXT NOT NULL, person TEXT NOT NULL,
        dialect TEXT NOT NULL, stream INTEGER NOT NULL, background TEXT NOT NULL,
        asked TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
        hops INTEGER NOT NULL, codes TEXT NOT NULL, cache TEXT NOT NULL,
        outcome TEXT NOT NULL, status INTEGER, code TEXT NOT NULL,
        input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL,
        cache_written INTEGER NOT NULL, reasoning INTEGER NOT NULL, estimated INTEGER NOT NULL,
        cost REAL, first_ms INTEGER, total_ms INTEGER NOT NULL,
        bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL
    )""",
    "CREATE INDEX requests_by_day ON requests (day, at)",
    "CREATE INDEX requests_by_person ON requests (person, number)",
    """CREATE INDEX requests_refused ON requests (number) WHERE outcome = 'refused'""",
    """CREATE INDEX requests_in_vain ON requests (number)
        WHERE outcome NOT IN ('answered', 'left', 'refused')""",
    """CREATE TABLE under_way (
        id TEXT PRIMARY KEY, run TEXT NOT NULL, at REAL NOT NULL, day TEXT NOT NULL,
        person TEXT NOT NULL, dialect TEXT NOT NULL, stream INTEGER NOT NULL,
        background TEXT NOT NULL, asked TEXT NOT NULL
    )""",
    "CREATE TABLE names (person TEXT PRIMARY KEY, name TEXT NOT NULL)",
    """CREATE TABLE sums (
        day TEXT NOT NULL, person TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
        requests INTEGER NOT NULL, answered INTEGER NOT NULL, refused INTEGER NOT NULL,
        gone INTEGER NOT NULL, background INTEGER NOT NULL, fallbacks INTEGER NOT NULL,
        input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL,
        cache_written INTEGER NOT NULL, reasoning INTEGER NOT NULL, estimated INTEGER NOT NULL,
        cost REAL NOT NULL, costed INTEGER NOT NULL,
        first_ms INTEGER NOT NULL, began INTEGER NOT NULL, total_ms INTEGER NOT NULL,
        bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,
        PRIMARY KEY (day, person, provider, model)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER requests_summed AFTER INSERT ON requests BEGIN
        INSERT INTO sums VALUES (
            new.day, new.person, new.provider, new.model,
            1, new.outcome = 'answered', new.outcome = 'refused',
            new.outcome = 'left', new.background != '',
            new.hops > 0 AND new.outcome = 'answered',
            new.input, new.output, new.cached,
            new.cache_written, new.reasoning, new.estimated,
            ifnull(new.cost, 0), new.cost IS NOT NULL,
            ifnull(new.first_ms, 0), new.first_ms IS NOT NULL, new.total_ms,
            new.bytes_in, new.bytes_out
        ) ON CONFLICT DO UPDATE SET
            requests = requests + 1, answered = answered + excluded.answered,
            refused = refused + excluded.refused, gone = gone + excluded.gone,
            background = background + excluded.background,
            fallbacks = fallbacks + excluded.fallbacks,
            input = input + excluded.input, output = output + excluded.output,
            cached = cached + excluded.cached,
            cache_written = cache_written + excluded.cache_written,
            reasoning = reasoning + excluded.reasoning, estimated = estimated + excluded.estimated,
            cost = cost + excluded.cost, costed = costed + excluded.costed,
            first_ms = first_ms + excluded.first_ms, began = began + excluded.began,
            total_ms = total_ms + excluded.total_ms,
            bytes_in = bytes_in + excluded.bytes_in, bytes_out = bytes_out + excluded.bytes_out;
    END""",
)

# A chain says `sonnet`, while an answer has the full model id. Failures are stored by the chain's
# name; this table maps it to the id.
_MODELS = (
    """CREATE TABLE models (
        provider TEXT NOT NULL, name TEXT NOT NULL, model TEXT NOT NULL,
        PRIMARY KEY (provider, name)
    )""",
)

STEPS: Sequence[Sequence[str]] = (_FIRST, _BOOK, _MODELS)
VERSION = len(STEPS)


class NewerFile(sqlite3.DatabaseError):
    """The file is from a newer version of OLP."""


def version_of(db: sqlite3.Connection) -> int:
    """The file's schema version. Raises NewerFile if it is above VERSION."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise NewerFile(
            f"it was written by a newer OLP (its shape is {version}, this OLP knows {VERSION}) and "
            "is left as it is; install that version again, or move the file away"
        )
    return version


def opened_to_write(path: Path) -> sqlite3.Connection:
    """Open the file at `path`; create or migrate it if needed."""
    if not path.exists():
        path.touch(mode=0o600)
    db = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None)
    try:
        version_of(db)  # before anything is done to the file
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA journal_size_limit = 16777216")
        _migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def opened_to_read(path: Path) -> sqlite3.Connection:
    """Open the existing file at `path`."""
    db = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None)
    try:
        version_of(db)
        db.execute("PRAGMA query_only = 1")
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection) -> None:
    """Apply the missing migrations, all or none."""
    if version_of(db) == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS[version_of(db) :]:  # again: another process may have migrated it
            for statement in step:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
