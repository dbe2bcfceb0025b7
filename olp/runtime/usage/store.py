"""The usage store: request log, daily counts and recent traces, kept across restarts.

One SQLite file, written by one thread (see `StoreWriter`), so that no request waits for the disk. A
full disk or corrupt file loses entries but never fails a request; `problem` is then the error.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from datetime import datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from olp.config import RecordConfig
from olp.core.keys.key_usage import DayUsage
from olp.runtime.usage.entries import (
    KeyUsed,
    ProviderAsked,
    RequestEnded,
    RequestInFlight,
    RequestRow,
    TraceEnded,
)
from olp.runtime.usage.schema import opened_to_read
from olp.runtime.usage.store_writer import StoreWriter

KEPT = 1000
"""Traces to keep, the newest ones."""

PRUNE_EVERY = 1000
"""Requests between prunings: at most 0.5 MB."""

CHUNK = 5000
"""Requests deleted per transaction: some tens of milliseconds of the writer thread."""

CHUNKS = 8

AT_ONCE = 32
"""Rows per INSERT. Between statements the writer thread reacquires the GIL from the answers in
flight, which costs more than the write itself."""

_COUNT = """
INSERT INTO days VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET requests = requests + excluded.requests
"""

_COUNT_PERSON = """
INSERT INTO people VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    requests = requests + excluded.requests,
    tokens = tokens + excluded.tokens,
    background = background + excluded.background
"""

_NAME = """
INSERT INTO names VALUES (?, ?) ON CONFLICT DO UPDATE SET name = excluded.name
WHERE name != excluded.name
"""

_MODEL = """
INSERT INTO models VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET model = excluded.model
WHERE model != excluded.model
"""

_TRACE_COLUMNS = ("id", "at", "story")
_FORGET_TRACES = "DELETE FROM stories WHERE number <= (SELECT max(number) FROM stories) - ?"


Entry = TypeVar("Entry")


def _names(kind: type[RequestRow | RequestInFlight]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


_BEGUN = _names(RequestInFlight)
_BEGUN_VALUES = attrgetter(*_BEGUN)
_ENDED = _names(RequestRow)
_ENDED_VALUES = attrgetter(*_ENDED)

_INTERRUPTED = """
INSERT INTO requests (
    id, at, day, person, dialect, stream, background, asked, provider, model, hops, codes, cache,
    outcome, status, code, input, output, cached, cache_written, reasoning, estimated, cost,
    first_ms, total_ms, bytes_in, bytes_out
) SELECT id, at, day, person, dialect, stream, background, asked, '', '', 0, '', '',
    'interrupted', NULL, '', 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0
FROM under_way WHERE run = ?
"""

Alive = Callable[[str], bool]
Wall = Callable[[], float]
Values = tuple[Any, ...] | Mapping[str, Any]


class UsageStore:
    """The file at `path`; created with mode 600 if missing.

    `run` is the id of this run of the server. `alive` returns whether another run is still alive;
    requests in flight of a dead one are stored as interrupted.
    """

    def __init__(
        self, path: Path, run: str = "", alive: Alive = lambda run: False, wall: Wall = time.time
    ) -> None:
        self._path = path
        self.run = run
        self._alive = alive
        self._wall = wall
        self._writer = StoreWriter(path, self._put, self._first, self._last)
        self._read_problem: str | None = None
        self._until_prune = PRUNE_EVERY
        self.bounds = RecordConfig()

    @property
    def problem(self) -> str | None:
        """The last error of the file, if any."""
        return self._writer.problem or self._read_problem

    @property
    def lost(self) -> int:
        """How many entries were dropped before they could be written."""
        return self._writer.lost

    def open(self) -> None:
        """Start the writer. Idempotent."""
        self._writer.open()
        self._writer.written()  # so that a bad file is reported at startup

    def close(self) -> None:
        """Flush, and end the writer."""
        self._writer.close()

    # --- the requests --------------------------------------------------------------------------

    def begun(self, entry: RequestInFlight) -> None:
        """Store a request in flight."""
        self._writer.write(entry)

    def ended(self, row: RequestRow, name: str, hop: str = "") -> None:
        """Store a finished request; `name` is the person's current name, `hop` the chain's name of
        the answering model, if it differs."""
        self._writer.write(RequestEnded(row, name, hop))

    # --- counts --------------------------------------------------------------------------------

    def count(self, day: str, provider: str) -> None:
        """Count one request to `provider`."""
        self._writer.write(ProviderAsked(day, provider))

    def count_person(self, day: str, person: str, used: DayUsage) -> None:
        """Add usage of a person."""
        self._writer.write(KeyUsed(day, person, used))

    def written(self) -> Future[None]:
        """A future, done when all queued entries are written or cannot be written now."""
        return self._writer.written()

    def people(self, day: str) -> Mapping[str, DayUsage]:
        """Usage on `day` by key id."""
        query = "SELECT person, requests, tokens, background FROM people WHERE day = ?"
        return {str(row[0]): DayUsage(*row[1:]) for row in self.read(query, (day,))}

    def counts(self, day: str) -> Mapping[str, int]:
        """Requests on `day` by provider; empty if the file cannot be read."""
        rows = self.read("SELECT provider, requests FROM days WHERE day = ?", (day,))
        return {str(provider): int(requests) for provider, requests in rows}

    # --- traces --------------------------------------------------------------------------------

    def keep(self, trace: Mapping[str, Any]) -> None:
        """Store the trace of a finished answer."""
        self._writer.write(TraceEnded(trace["request_id"], trace["at"], json.dumps(trace)))

    def trace(self, request_id: str | None = None) -> dict[str, Any] | None:
        """The trace of one request, or of the last one."""
        if request_id is None:
            rows = self.read("SELECT story FROM stories ORDER BY number DESC LIMIT 1")
        else:
            rows = self.read(
                "SELECT story FROM stories WHERE id = ? ORDER BY number DESC LIMIT 1", (request_id,)
            )
        return json.loads(rows[0][0]) if rows else None

    # --- the file ------------------------------------------------------------------------------

    def _put(self, db: sqlite3.Connection, entries: Sequence[object]) -> None:
        """Write the entries in as few statements as possible."""
        ended = _of(RequestEnded, entries)
        begun = {entry.id: entry for entry in _of(RequestInFlight, entries)}
        for one in ended:
            if begun.pop(one.row.id, None) is None:
                db.execute("DELETE FROM under_way WHERE id = ?", (one.row.id,))
        _insert(db, "under_way", _BEGUN, [_BEGUN_VALUES(entry) for entry in begun.values()])
        _insert(db, "requests", _ENDED, [_ENDED_VALUES(one.row) for one in ended])
        for name in {one.row.person: one.name for one in ended}.items():
            db.execute(_NAME, name)
        for key, model in {(e.row.provider, e.hop): e.row.model for e in ended if e.hop}.items():
            db.execute(_MODEL, (*key, model))
        for asked, times in Counter(_of(ProviderAsked, entries)).items():
            db.execute(_COUNT, (*asked, times))
        people: defaultdict[tuple[str, str], list[DayUsage]] = defaultdict(list)
        for day, person, used in _of(KeyUsed, entries):
            people[day, person].append(used)
        for whose, each in people.items():
            requests, tokens = sum(c.requests for c in each), sum(c.tokens for c in each)
            background = sum(c.background for c in each)
            db.execute(_COUNT_PERSON, (*whose, requests, tokens, background))
        traces = _of(TraceEnded, entries)
        if traces:
            _insert(db, "stories", _TRACE_COLUMNS, traces)
            db.execute(_FORGET_TRACES, (KEPT,))
        self._until_prune -= len(ended)
        if self._until_prune <= 0:
            self._prune(db)

    def read(self, query: str, values: Values = ()) -> list[Any]:
        """The rows of a query; empty if the file cannot be read (see `problem`)."""
        try:
            if not self._path.exists():
                return []
            with closing(opened_to_read(self._path)) as db:
                found = db.execute(query, values).fetchall()
            self._read_problem = None
        except (sqlite3.Error, OSError) as error:
            # A file of an earlier version may lack the table.
            if "no such table" not in str(error):
                self._read_problem = str(error)
            return []
        return found

    def _first(self, db: sqlite3.Connection) -> None:
        """After opening: mark requests of dead runs as interrupted, and prune."""
        runs = [row[0] for row in db.execute("SELECT DISTINCT run FROM under_way")]
        for run in runs:
            if run != self.run and not self._alive(run):
                self._interrupted(db, run)
        self._prune(db)
        if _bytes_of(db, "freelist_count") * 2 > _bytes_of(db, "page_count") > 1024 * 1024:
            db.execute("VACUUM")

    def _last(self, db: sqlite3.Connection) -> None:
        self._interrupted(db, self.run)

    def _interrupted(self, db: sqlite3.Connection, run: str) -> None:
        db.execute("BEGIN IMMEDIATE")
        db.execute(_INTERRUPTED, (run,))
        db.execute("DELETE FROM under_way WHERE run = ?", (run,))
        db.execute("COMMIT")

    def _prune(self, db: sqlite3.Connection) -> None:
        """Delete requests that are too old, and the oldest above the limits; refused ones first, so
        that a client retrying at a limit does not push out the others."""
        self._until_prune = PRUNE_EVERY
        today = datetime.fromtimestamp(self._wall())
        oldest = (today - timedelta(days=self.bounds.keep_days - 1)).strftime("%Y-%m-%d")
        for table in ("requests", "sums", "days", "people"):
            db.execute(f"DELETE FROM {table} WHERE day < ?", (oldest,))
        for _ in range(CHUNKS):
            used = _bytes_of(db, "page_count") - _bytes_of(db, "freelist_count")
            if used <= self.bounds.max_mb * 1024 * 1024:
                return
            if not _forget(db, "WHERE outcome = 'refused'"):
                _forget(db, "")


def _forget(db: sqlite3.Connection, which: str) -> int:
    numbers = f"SELECT number FROM requests {which} ORDER BY number LIMIT {CHUNK}"
    return db.execute(f"DELETE FROM requests WHERE number IN ({numbers})").rowcount


def _bytes_of(db: sqlite3.Connection, pages: str) -> int:
    count, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in (pages, "page_size"))
    return int(count) * int(size)


def _of(kind: type[Entry], entries: Sequence[object]) -> list[Entry]:
    return [entry for entry in entries if isinstance(entry, kind)]


def _insert(
    db: sqlite3.Connection, table: str, names: Sequence[str], lines: Sequence[tuple[Any, ...]]
) -> None:
    one = f"({', '.join('?' * len(names))})"
    for at in range(0, len(lines), AT_ONCE):
        some = lines[at : at + AT_ONCE]
        values = ", ".join([one] * len(some))
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES {values}"
        db.execute(statement, [value for line in some for value in line])
