"""Plays the recorded output of a real CLI to its driver, as a worker would."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from olp.events import Done, Event, Failed, Reasoning, Text, Usage
from olp.providers.base import Driver, Exit, Step

NOW = datetime(2026, 11, 30, 6, 5, tzinfo=UTC)
"""When the transcripts were recorded, about."""

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"

WORDS = "word0 word1 word2 word3 word4 word5 "
"""What the mock vendors answer."""

GARBAGE = (
    "",
    "not json",
    "[]",
    "null",
    "5",
    '"x"',
    "{}",
    '{"type": "new"}',
    '{"type": 5}',
    "{",
    "[" * 100000,
)
"""Lines that no driver understands and every driver passes over."""

Make = Callable[[], Driver]


@dataclass(frozen=True)
class Recording:
    """One run of a CLI: its lines, and how it ended."""

    lines: tuple[str, ...]
    exit: Exit

    @classmethod
    def load(cls, cli: str, name: str) -> Recording:
        base = TRANSCRIPTS / cli / name
        meta = json.loads(base.with_suffix(".meta.json").read_text("utf-8"))
        report = meta.get("export")
        files = {"out/export.json": json.dumps(report).encode()} if report else {}
        lines = base.with_suffix(".jsonl").read_text("utf-8").splitlines()
        return cls(tuple(lines), Exit(meta["exit"], meta["stderr"], files))

    def line(self, **wanted: Any) -> dict[str, Any]:
        """The first line with these fields."""
        for text in self.lines:
            found: dict[str, Any] = json.loads(text)
            if all(found.get(key) == value for key, value in wanted.items()):
                return found
        raise LookupError(wanted)


def short(line: str) -> str:
    """A line as the name of a test."""
    return repr(line)[:30]


def names(cli: str) -> list[str]:
    """What was recorded of one CLI."""
    return sorted(path.stem for path in (TRANSCRIPTS / cli).glob("*.jsonl"))


@dataclass(frozen=True)
class Played:
    """What the driver made of it. `used` counts the lines up to the end it saw."""

    steps: tuple[Step, ...]
    used: int
    of: int

    @property
    def events(self) -> list[Event]:
        return [step for step in self.steps if isinstance(step, Event)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Text))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Reasoning))

    @property
    def usage(self) -> Usage:
        return [event for event in self.events if isinstance(event, Usage)][-1]

    @property
    def end(self) -> Done | Failed:
        """The last event; there is exactly one end, and it is the last."""
        ends = [event for event in self.events if isinstance(event, Done | Failed)]
        assert len(ends) == 1 and self.events[-1] is ends[0], self.events
        return ends[0]

    @property
    def failed(self) -> Failed:
        assert isinstance(self.end, Failed), self.end
        return self.end


def play(driver: Driver, lines: Sequence[str], exit: Exit) -> Played:
    """The lines, one by one, to the first end; then the exit, if there was none."""
    steps: list[Step] = []
    used = 0
    for used, line in enumerate(lines, 1):
        steps += driver.receive(line)
        if any(isinstance(step, Done | Failed) for step in steps):
            return Played(tuple(steps), used, len(lines))
    steps += driver.exited(exit)
    return Played(tuple(steps), used, len(lines))


def replay(make: Make, cli: str, name: str) -> Played:
    """One recording, from beginning to end."""
    recording = Recording.load(cli, name)
    return play(make(), recording.lines, recording.exit)
