"""The log: structured JSON lines, one event a line.

There is no field for a prompt, an answer or a key, and error texts are scrubbed where they arise.
What concerns one request is written whole. Any other kind of warning is written once a minute at
most, with how often it came: whoever can cause one could fill the disk with it.
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
"""Seconds for which a kind of warning is only counted after it was written."""

LOOK_S = 5.0
"""How often it is looked whether a count is to be told."""

KINDS = 256
"""Kinds of warnings that are remembered, the last ones."""

REQUEST = "request_id"
"""The field that binds a log to one request."""

_VARYING = frozenset({REQUEST, "remote"})
"""Fields that a client chooses: they do not make a warning one of another kind."""

_encoded = json.JSONEncoder(default=str).encode

Fields = Mapping[str, Any]


class Repeats:
    """Which kinds of warnings were written lately, and how often each came since. Libraries warn
    from threads of their own."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._known: OrderedDict[tuple[object, ...], tuple[float, int, Fields]] = OrderedDict()
        self._lock = threading.Lock()
        self._looked_at = 0.0

    def quiet(self, line: Fields, now: float) -> bool:
        """Whether `line` is of a kind that was just written, and so is only counted."""
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
        """The last line of each kind that was only counted for a minute, with how often it came
        again. To be asked with every line: a count is told as soon as anything is. `over` asks
        for all of them."""
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
    """Writes to `stream` what is at least of `level`. `bind` makes a log with more fields.
    `quiet_s` is for how long a kind of warning is only counted after it was written."""

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
        """The same log with `fields` on each of its lines."""
        merged = self.fields | fields
        return Log(
            self._stream,
            level=self._level,
            wall=self._wall,
            fields=merged,
            repeats=self._repeats,
        )

    def write(self, level: str, event: str, **fields: Any) -> None:
        """One line; fields that are None are left out."""
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
        """Tell what was only counted so far."""
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


_PLACEHOLDER = re.compile(r"%%|%(?:\([^)]*\))?[-#0 +]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]")


def _template(text: str) -> str:
    """A library's message with its gaps in it."""
    return _PLACEHOLDER.sub(lambda gap: "%" if gap[0] == "%%" else "…", text)


class Libraries(logging.Handler):
    """What the libraries log, as lines of our own log, and only what is safe to write: a template
    and where the error arose, not the words that were put in."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        told = _template(str(record.msg).partition("\n")[0])[:120]
        error = record.exc_info[1] if record.exc_info else None
        where = described(error) if error else None
        self._log.warn("library", logger=record.name, told=told, error=where)
