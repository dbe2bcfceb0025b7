"""Streaming of JSON answers.

The first byte is sent once a value of the wanted kind has started, after which there is no
fallback. Prose is never sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from olp.events import Event, Text
from olp.formats import JsonText, fault
from olp.model import JsonFormat


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of an answer: its last events; the `problem` that makes it invalid, if any; and the
    `mismatch` between a call's arguments and their schema, if any."""

    events: list[Event] = field(default_factory=list)
    problem: str | None = None
    mismatch: str | None = None


class Outlet(Protocol):
    """Converts the text of an answer to events for the client."""

    def feed(self, piece: str) -> list[Event]:
        """Take the next piece of the text; returns its events."""

    def close(self, *, whole: bool) -> Closing:
        """Return the last events. Not `whole`: the answer was cut, or continues with calls."""


class JsonAnswer:
    """Reduces an answer to the JSON text in it."""

    def __init__(self, wanted: JsonFormat) -> None:
        self._wanted = wanted
        self._json = JsonText(wanted)
        self._said: list[str] = []

    def feed(self, piece: str) -> list[Event]:
        """Take the next piece; returns the new JSON text."""
        return self._told(self._json.feed(piece))

    def close(self, *, whole: bool) -> Closing:
        """Return the rest, and validate a whole answer."""
        events = self._told(self._json.end())
        if not whole:
            return Closing(events)
        problem = self._json.code or fault("".join(self._said), self._wanted)
        return Closing(events, problem)

    def _told(self, text: str) -> list[Event]:
        self._said.append(text)
        return [Text(text)] if text else []
