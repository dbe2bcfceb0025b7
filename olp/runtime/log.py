"""The log: structured JSON lines, one event a line.

There is no field for a prompt, an answer or a key, and error texts are scrubbed where they arise.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

LEVELS = ("debug", "info", "warn", "error")

_encoded = json.JSONEncoder(default=str).encode


class Log:
    """Writes to `stream` what is at least of `level`. `bind` makes a log with more fields."""

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        level: str = "info",
        wall: Callable[[], float] = time.time,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._level = level
        self._wall = wall
        self.fields = dict(fields or {})

    def bind(self, **fields: Any) -> Log:
        """The same log with `fields` on each of its lines."""
        merged = self.fields | fields
        return Log(self._stream, level=self._level, wall=self._wall, fields=merged)

    def write(self, level: str, event: str, **fields: Any) -> None:
        """One line; fields that are None are left out."""
        if LEVELS.index(level) < LEVELS.index(self._level):
            return
        at = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds")
        line = {"timestamp": at, "level": level, "event": event} | self.fields | fields
        kept = {name: value for name, value in line.items() if value is not None}
        try:
            self._stream.write(_encoded(kept) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads it any more (a closed terminal, a full disk): serving goes on.
            return

    def info(self, event: str, **fields: Any) -> None:
        """A normal event."""
        self.write("info", event, **fields)

    def warn(self, event: str, **fields: Any) -> None:
        """Something that the owner may want to look at."""
        self.write("warn", event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something that went wrong."""
        self.write("error", event, **fields)


def described(error: BaseException) -> str:
    """An exception for the log: its type and where it arose, never its words, which may quote a
    prompt (a UnicodeEncodeError shows the whole text)."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None:
        return type(error).__name__
    code = at.tb_frame.f_code
    return (
        f"{type(error).__name__} in {code.co_name} ({Path(code.co_filename).name}:{at.tb_lineno})"
    )


class Libraries(logging.Handler):
    """What the libraries log, as lines of our own log, and only what is safe to write: a template
    and where the error arose, not the words that were put in."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        told = str(record.msg).partition("\n")[0][:120]
        error = record.exc_info[1] if record.exc_info else None
        where = described(error) if error else None
        self._log.warn("library", logger=record.name, told=told, error=where)
