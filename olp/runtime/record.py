"""What is kept over restarts: the counts of the day and the stories of the last requests.

One SQLite file, written by one thread, so that no request waits for a disk. A disk that is full or
a file that is broken costs the record and never an answer; `trouble` then says what happened.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from olp.core.ledger import Count

KEPT = 1000
"""Stories that are kept, the newest."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stories (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL, at REAL NOT NULL, story TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS stories_by_id ON stories (id);
CREATE TABLE IF NOT EXISTS days (
    day TEXT NOT NULL, provider TEXT NOT NULL, requests INTEGER NOT NULL,
    PRIMARY KEY (day, provider)
);
CREATE TABLE IF NOT EXISTS people (
    day TEXT NOT NULL, person TEXT NOT NULL,
    requests INTEGER NOT NULL, tokens INTEGER NOT NULL, background INTEGER NOT NULL,
    PRIMARY KEY (day, person)
);
"""

_COUNT_PERSON = """
INSERT INTO people VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    requests = requests + excluded.requests,
    tokens = tokens + excluded.tokens,
    background = background + excluded.background
"""

Work = Callable[[sqlite3.Connection], None]


@dataclass(frozen=True, slots=True)
class _Awaited:
    """Work whose end somebody waits for, however it ends."""

    work: Work
    done: Future[None]


class Record:
    """The file at `path`; it is made, readable by its owner alone, when it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._work: queue.SimpleQueue[Work | _Awaited | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.trouble: str | None = None

    def open(self) -> None:
        """Begin to write, unless that was done."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._write, name="record", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is waiting, and end."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(10)
            self._thread = None

    def count(self, day: str, provider: str) -> None:
        """One more request was made."""
        self._work.put(
            lambda db: _run(
                db,
                "INSERT INTO days VALUES (?, ?, 1) "
                "ON CONFLICT DO UPDATE SET requests = requests + 1",
                (day, provider),
            )
        )

    def count_person(self, day: str, person: str, used: Count) -> Future[None]:
        """A person used so much more. The future is done when that is in the file, or cannot be
        written to it."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # nobody who stops waiting can call it off
        counted = (day, person, used.requests, used.tokens, used.background)
        self._work.put(_Awaited(lambda db: _run(db, _COUNT_PERSON, counted), done))
        return done

    def people(self, day: str) -> Mapping[str, Count]:
        """What each person used on `day`, by the id of their key."""
        query = "SELECT person, requests, tokens, background FROM people WHERE day = ?"
        return {str(row[0]): Count(*row[1:]) for row in self._read(query, (day,))}

    def keep(self, story: Mapping[str, Any]) -> None:
        """One request is over."""
        row = (story["request_id"], story["at"], json.dumps(story))

        def work(db: sqlite3.Connection) -> None:
            _run(db, "INSERT INTO stories (id, at, story) VALUES (?, ?, ?)", row)
            newest = "(SELECT max(number) FROM stories)"
            _run(db, f"DELETE FROM stories WHERE number <= {newest} - ?", (KEPT,))

        # One piece of work: a deletion that finds nothing to do must not look like a recovery.
        self._work.put(work)

    def counts(self, day: str) -> Mapping[str, int]:
        """How many requests each provider got on `day`, as far as the file can be read."""
        rows = self._read("SELECT provider, requests FROM days WHERE day = ?", (day,))
        return {str(provider): int(requests) for provider, requests in rows}

    def story(self, request_id: str | None = None) -> dict[str, Any] | None:
        """The story of one request, or of the last one."""
        if request_id is None:
            rows = self._read("SELECT story FROM stories ORDER BY number DESC LIMIT 1", ())
        else:
            rows = self._read(
                "SELECT story FROM stories WHERE id = ? ORDER BY number DESC LIMIT 1", (request_id,)
            )
        return json.loads(rows[0][0]) if rows else None

    def _read(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            if not self._path.exists():
                return []
            with closing(_connected(self._path)) as db:
                return db.execute(query, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            # A file of an earlier version has nothing to tell of what it did not know.
            if "no such table" not in str(error):
                self.trouble = str(error)
            return []

    def _write(self) -> None:
        db: sqlite3.Connection | None = None
        while (given := self._work.get()) is not None:
            work = given.work if isinstance(given, _Awaited) else given
            try:
                if db is None:
                    db = _connected(self._path)
                    db.executescript(_SCHEMA)
                work(db)
                self.trouble = None
            except (sqlite3.Error, OSError) as error:
                self.trouble = str(error)
            if isinstance(given, _Awaited):
                given.done.set_result(None)
        if db is not None:
            db.close()


def _connected(path: Path) -> sqlite3.Connection:
    if not path.exists():
        path.touch(mode=0o600)
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _run(db: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> None:
    db.execute(statement, values)
