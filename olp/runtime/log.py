"""Structured logging as JSON lines.

No field holds a prompt, an answer or a key; error texts are scrubbed at their source. Lines of a
request are always written. Other warnings are rate-limited per kind to one per minute with a
count, so that a client cannot fill the disk.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

LEVELS = ("debug", "info", "warn", "error")

QUIET_S = 60.0
"""Seconds after a warning in which repeats of its kind are only counted."""

LOOK_S = 5.0
"""Seconds between checks for counts to write."""

KINDS = 256
"""Kinds of warnings that are remembered (LRU)."""

REQUEST = "request_id"
"""The field that binds a log to one request."""

_VARYING = frozenset({REQUEST, "remote"})
"""Fields that a client can vary: not part of a warning's kind."""

_encoded = json.JSONEncoder(default=str).encode

Fields = Mapping[str, Any]


class Repeats:
    """Rate limiter of warnings by kind. Thread-safe: libraries log from their own threads."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._known: OrderedDict[tuple[object, ...], tuple[float, int, Fields]] = OrderedDict()
        self._lock = threading.Lock()
        self._looked_at = 0.0

    def quiet(self, line: Fields, now: float) -> bool:
        """Whether `line` repeats a kind within `quiet_s`; it is then counted."""
        told = ((k, v) for k, v in line.items() if k not in _VARYING)
        kind = tuple(sorted((k, str(v)) for k, v in told if isinstance(v, str | list | tuple)))
        with self._lock:
            at, times, _ = self._known.get(kind, (-self._quiet_s, 0, line))
            quiet = 0 <= now - at < self._quiet_s
            self._known[kind] = (at, times + 1, line) if quiet else (now, 0, line)
            self._known.move_to_end(kind)
            if len(self._known) > KINDS:
                self._known.popitem(last=False)
        return quiet

    def due(self, now: float, *, over: bool = False) -> Sequence[Fields]:
        """The last line of each suppressed kind whose quiet time is over, with its count in
        `times`. Called with every line written; `over` returns all of them."""
        if 0 <= now - self._looked_at < LOOK_S and not over:
            return ()
        self._looked_at = now
        found = []
        with self._lock:
            for kind, (at, times, line) in self._known.items():
                if times and (over or not 0 <= now - at < self._quiet_s):
                    self._known[kind] = now, 0, line
                    found.append({**line, "times": times})
        return found


class Log:
    """Writes lines of at least `level` to `stream`. `quiet_s` is the rate limit per kind of
    warning."""

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        level: str = "info",
        wall: Callable[[], float] = time.time,
        fields: Fields | None = None,
        quiet_s: float = QUIET_S,
        repeats: Repeats | None = None,
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._level = level
        self._wall = wall
        self.fields = dict(fields or {})
        self._repeats = repeats or Repeats(quiet_s)

    def bind(self, **fields: Any) -> Log:
        """A log that adds `fields` to each line."""
        merged = self.fields | fields
        return Log(
            self._stream,
            level=self._level,
            wall=self._wall,
            fields=merged,
            repeats=self._repeats,
        )

    def write(self, level: str, event: str, **fields: Any) -> None:
        """Write one line; fields that are None are omitted."""
        if LEVELS.index(level) < LEVELS.index(self._level):
            return
        now = self._wall()
        line = {"level": level, "event": event} | self.fields | fields
        loud = level in ("warn", "error") and REQUEST not in self.fields
        for counted in self._repeats.due(now):
            self._put(counted, now)
        if not (loud and self._repeats.quiet(line, now)):
            self._put(line, now)

    def close(self) -> None:
        """Write the pending counts."""
        now = self._wall()
        for counted in self._repeats.due(now, over=True):
            self._put(counted, now)

    def _put(self, line: Fields, now: float) -> None:
        at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        kept = {name: value for name, value in line.items() if value is not None}
        try:
            self._stream.write(_encoded({"timestamp": at} | kept) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # A closed terminal or a full disk must not stop the server.
            return

    def info(self, event: str, **fields: Any) -> None:
        """A normal event."""
        self.write("info", event, **fields)

    def warn(self, event: str, **fields: Any) -> None:
        """An event that may need the owner's attention."""
        self.write("warn", event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """An error."""
        self.write("error", event, **fields)


def described(error: BaseException) -> str:
    """An exception for the log: its type and location, without its message, which may quote a
    prompt (a UnicodeEncodeError contains the whole text)."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None:
        return type(error).__name__
    code = at.tb_frame.f_code
    return (
        f"{type(error).__name__} in {code.co_name} ({Path(code.co_filename).name}:{at.tb_lineno})"
    )


_PLACEHOLDER = re.compile(r"%%|%(?:\([^)]*\))?[-#0 +]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]")


def _template(text: str) -> str:
    """A %-format message with its placeholders replaced by `…`."""
    return _PLACEHOLDER.sub(lambda gap: "%" if gap[0] == "%%" else "…", text)


class Libraries(logging.Handler):
    """Forwards library warnings to the log: only the message template and the location of the
    error, since arguments may contain content."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        told = _template(str(record.msg).partition("\n")[0])[:120]
        error = record.exc_info[1] if record.exc_info else None
        where = described(error) if error else None
        self._log.warn("library", logger=record.name, told=told, error=where)
