"""An answer that was asked for as JSON, told while it comes.

Its first byte goes out as soon as there is the beginning of a value of the wanted kind, and so no
other hop is asked after that; prose, and what is no JSON from its beginning on, never gets there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from olp.events import Event, Text
from olp.formats import JsonText, fault
from olp.model import JsonFormat


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of an answer: its last events, the `problem` for which it is none, or the `mismatch`
    between a call's arguments and their schema."""

    events: list[Event] = field(default_factory=list)
    problem: str | None = None
    mismatch: str | None = None


class Outlet(Protocol):
    """What an answer becomes on its way to the client."""

    def feed(self, piece: str) -> list[Event]:
        """The events that the next piece of the text becomes."""

    def close(self, *, whole: bool) -> Closing:
        """The last ones. An answer that is not `whole` was cut, or goes on in another form."""


class JsonAnswer:
    """The answer as the JSON text that it holds."""

    def __init__(self, wanted: JsonFormat) -> None:
        self._wanted = wanted
        self._json = JsonText(wanted)
        self._said: list[str] = []

    def feed(self, piece: str) -> list[Event]:
        """The text that is new."""
        return self._told(self._json.feed(piece))

    def close(self, *, whole: bool) -> Closing:
        """The rest of it, and whether all of it conforms."""
        events = self._told(self._json.end())
        if not whole:
            return Closing(events)
        problem = self._json.code or fault("".join(self._said), self._wanted)
        return Closing(events, problem)

    def _told(self, text: str) -> list[Event]:
        self._said.append(text)
        return [Text(text)] if text else []
