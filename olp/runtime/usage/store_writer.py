"""The thread that writes the usage store.

Entries are queued, so that no request waits for the disk. Entries that cannot be written now (the
disk is full, the file is locked or corrupt) stay queued and are retried. The queue is bounded: the
oldest entries are dropped, and counted as lost.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from olp.runtime.usage.schema import opened_to_write

Work = Callable[[sqlite3.Connection], None]
Put = Callable[[sqlite3.Connection, Sequence[Any]], None]

MAX_HELD = 10_000
"""Maximum queued entries: a few MB, hours of heavy use."""

GATHER_S = 0.02
"""Seconds to batch entries, unless a caller waits for them: each write takes CPU time from the
answers in flight."""

RETRY_S = 5.0
"""Seconds between retries while no new entry comes."""

CLOSE_S = 15.0
"""Seconds for the final write; longer than one attempt waits for a lock."""

_ITS_OWN_FAULT = frozenset(
    {
        *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
        *(sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_TOOBIG),
    }
)
"""Errors of an entry, not of the file: a retry would not help."""


_FAULTS = (sqlite3.Error, ValueError, OverflowError)
"""Exceptions of a write; the last two for values SQLite cannot store, such as a lone surrogate or a
number of 30 digits."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """An entry, or a future that waits for the entries before it."""

    entry: Any = None
    settled: Future[None] | None = None

    def settle(self) -> None:
        """Resolve its future: written, or not writable now."""
        if self.settled is not None:
            self.settled.set_result(None)


class StoreWriter:
    """Writes to the file at `path`. `put` writes entries; `first` is called each time the file is
    opened, `last` at the end."""

    def __init__(self, path: Path, put: Put, first: Work, last: Work) -> None:
        self._put = put
        self._path = path
        self._first = first
        self._last = last
        self._given: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._held: deque[_Piece] = deque()
        self._thread: threading.Thread | None = None
        self._db: sqlite3.Connection | None = None
        self.problem: str | None = None
        self.lost = 0

    def open(self) -> None:
        """Start the thread. Idempotent."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="record", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Flush, and end the thread."""
        if self._thread is not None:
            self._given.put(None)
            self._hurry.set()
            self._thread.join(CLOSE_S)
            self._thread = None

    def write(self, entry: Any) -> None:
        """Queue `entry`."""
        self._given.put(_Piece(entry))

    def written(self) -> Future[None]:
        """A future, done when all queued entries are written or cannot be written now."""
        settled: Future[None] = Future()
        settled.set_running_or_notify_cancel()  # a waiter's cancellation must not cancel it
        self._given.put(_Piece(settled=settled))
        self._hurry.set()
        return settled

    # --- in the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        over = False
        while not over:
            over = self._gather()
            self._write_held()
        if self._db is not None:
            try:
                self._last(self._db)
            except (sqlite3.Error, OSError) as error:
                self.problem = str(error)
        self._drop_connection()

    def _gather(self) -> bool:
        """Wait for entries, and take all; True at the end."""
        try:
            given = self._given.get(timeout=RETRY_S if self._held else None)
            if given is not None:
                self._hurry.wait(GATHER_S)
                self._hurry.clear()  # before draining, so that no later request is missed
            while given is not None:
                self._hold(given)
                given = self._given.get_nowait()
        except queue.Empty:
            return False
        return True

    def _hold(self, piece: _Piece) -> None:
        if len(self._held) >= MAX_HELD:
            self._held.popleft().settle()
            self.lost += 1
        self._held.append(piece)

    def _write_held(self) -> None:
        """Write all held entries in one transaction."""
        try:
            db = self._connection()
            faults = self._written(db)
        except (*_FAULTS, OSError) as error:
            self.problem = str(error)
            self._drop_connection()  # rolls back; the file may be another one on reopening
            for piece in self._held:
                piece.settle()
            self._held = deque(piece for piece in self._held if piece.settled is None)
            return
        self.lost += len(faults)
        self.problem = faults[0] if faults else None
        while self._held:
            self._held.popleft().settle()

    def _written(self, db: sqlite3.Connection) -> list[str]:
        """Write all entries; returns the errors of invalid ones. Entries are written one by one
        only if the batch fails, since that is ten times as slow."""
        entries = [piece.entry for piece in self._held if piece.entry is not None]
        db.execute("BEGIN IMMEDIATE")
        faults: list[str] = []
        try:
            self._put(db, entries)
        except _FAULTS as error:
            if not _own_fault(error, db):
                raise
            db.execute("ROLLBACK")
            db.execute("BEGIN IMMEDIATE")
            faults = [fault for entry in entries if (fault := self._fault_of(entry, db))]
        db.execute("COMMIT")
        return faults

    def _fault_of(self, entry: Any, db: sqlite3.Connection) -> str | None:
        """Write one entry; returns its error, if it is invalid."""
        db.execute("SAVEPOINT entry")
        try:
            self._put(db, [entry])
        except _FAULTS as error:
            if not _own_fault(error, db):
                raise
            db.execute("ROLLBACK TO entry")
            return str(error)
        finally:
            if db.in_transaction:
                db.execute("RELEASE entry")
        return None

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            db = opened_to_write(self._path)
            try:
                self._first(db)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _drop_connection(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _own_fault(error: Exception, db: sqlite3.Connection) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    return code & 0xFF in _ITS_OWN_FAULT and db.in_transaction
