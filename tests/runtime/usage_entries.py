"""What the tests of the book share: rows, files of every age, and a look into the file."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from olp.runtime.usage.entries import RequestRow
from olp.runtime.usage.report import COLUMNS, FROM_ROWS
from olp.runtime.usage.schema import opened_to_write
from olp.runtime.usage.store import UsageStore

ROW = RequestRow(
    *("r", 0.0, "", "a1", "openai-chat"),
    stream=0,
    background="",
    asked="auto",
    provider="claude",
    model="sonnet",
    hops=0,
    codes="",
    cache="bypass",
    outcome="answered",
    status=200,
    code="",
    input=10,
    output=5,
    cached=2,
    cache_written=1,
    reasoning=3,
    estimated=0,
    cost=0.25,
    first_ms=100,
    total_ms=200,
    bytes_in=50,
    bytes_out=70,
)


def at(text: str) -> float:
    """A local time in epoch seconds."""
    return datetime.fromisoformat(text).timestamp()


def row(when: str = "2026-11-20T12:00", **fields: Any) -> RequestRow:
    """A request of that time."""
    return dataclasses.replace(ROW, at=at(when), day=when[:10], **fields)


def filled(path: Path, rows: Sequence[RequestRow]) -> UsageStore:
    """A record with these rows; everybody's name is their id in capitals."""
    store = UsageStore(path, wall=lambda: at("2026-11-30T12:00"))
    store.open()
    for one in rows:
        store.ended(one, one.person.upper())
    store.close()
    assert store.problem is None and store.lost == 0
    return store


def peek(path: Path, query: str) -> list[tuple[Any, ...]]:
    """What stands in the file."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def old_file(path: Path, *, people: bool = True) -> None:
    """A file as OLP wrote it before there was a book: no number of its shape."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(
            "CREATE TABLE stories (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "id TEXT NOT NULL, at REAL NOT NULL, story TEXT NOT NULL)"
        )
        db.execute("CREATE INDEX stories_by_id ON stories (id)")
        db.execute(
            "CREATE TABLE days (day TEXT NOT NULL, provider TEXT NOT NULL, "
            "requests INTEGER NOT NULL, PRIMARY KEY (day, provider))"
        )
        db.execute("INSERT INTO stories VALUES (7, 'old', 1.0, '{\"request_id\": \"old\"}')")
        db.execute("INSERT INTO days VALUES ('2026-11-29', 'claude', 12)")
        if people:
            db.execute(
                "CREATE TABLE people (day TEXT NOT NULL, person TEXT NOT NULL, "
                "requests INTEGER NOT NULL, tokens INTEGER NOT NULL, "
                "background INTEGER NOT NULL, PRIMARY KEY (day, person))"
            )
            db.execute("INSERT INTO people VALUES ('2026-11-29', 'a1', 12, 3400, 2)")


MILLION = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < :count - 1)
INSERT INTO requests (
    id, at, day, person, dialect, stream, background, asked, provider, model, hops, codes, cache,
    outcome, status, code, input, output, cached, cache_written, reasoning, estimated, cost,
    first_ms, total_ms, bytes_in, bytes_out
) SELECT
    printf('%016x', i), :begin + i * :step,
    date(:begin + i * :step, 'unixepoch', 'localtime'),
    'person' || (i % 7), 'openai-chat', i % 2, '', 'auto',
    substr('claudecodexxvibexx', 1 + 6 * (i % 3), 6), 'model' || (i % 5), 0, '', 'bypass',
    CASE i % 50 WHEN 0 THEN 'failed' WHEN 1 THEN 'left' ELSE 'answered' END, 200, '',
    1000 + i % 9, 200, 0, 0, 0, 0, 0.01, 900, 4000, 2000, 3000
FROM n
"""


def million(path: Path, count: int = 1_000_000, days: int = 360) -> None:
    """A file with that many requests, spread over the days before 2026-11-30. The sums are made in
    one go: that the trigger makes the same is tested with fewer requests."""
    begin = at("2026-11-30T00:00") - days * 86400
    values = {"count": count, "begin": begin, "step": days * 86400 / count}
    columns = ", ".join(FROM_ROWS.get(name, f"sum({name})") for name in COLUMNS)
    made = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = 'requests' AND sql NOTNULL"
    with closing(opened_to_write(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -200000")
        later = [one for one in db.execute(made).fetchall() if one[0] != "table"]
        db.execute("BEGIN")
        for kind, name, _ in later:
            db.execute(f"DROP {kind} {name}")
        db.execute(MILLION, values)
        for *_, statement in later:
            db.execute(statement)
        # Day by day, since it is many times quicker to sort a little often than a lot once.
        for day in db.execute("SELECT DISTINCT day FROM requests").fetchall():
            db.execute(
                f"INSERT INTO sums (day, person, provider, model, {', '.join(COLUMNS)}) "
                f"SELECT day, person, provider, model, {columns} FROM requests WHERE day = ? "
                "GROUP BY 1, 2, 3, 4",
                day,
            )
        db.execute("COMMIT")
