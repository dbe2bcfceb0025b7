"""The plan of the fakes: what each call of each CLI does, and the record of what they saw.

The file is JSON: `{"claude": [turn, …], "codex": […], "vibe": […]}`. Call number n of a CLI plays
its turn n; calls beyond the list play the last one. A turn with `"when": TEXT` is played instead by
every call whose prompt or arguments contain TEXT. The file is read anew by each call, so a test may
change it between two requests (`Plan.set`).

A turn is `{"do": [action, …]}` and may say `"stdin": "ignore"` (never read it), `"term": "ignore"`
(SIGTERM does nothing) and `"cap": N` (after N bytes of output: exit code 0, in mid-line).

An action is a list, its name first. The same action is told in each CLI's own format:

    init                        start-up notices
    start [MODEL]               the vendor begins to answer; MODEL is what it calls itself
    think TEXT [N] [EVERY]      N pieces of thinking, EVERY seconds apart; {i} is the number
    say TEXT [N] [EVERY]        N pieces of the answer (codex and vibe tell all of it at the end)
    split TEXT [PAUSE]          one piece, its bytes written in two, cut inside a character
    end [FINISH] [USAGE]        the final event; FINISH is stop, length or refusal
    fail KIND [MORE]            quota rate overloaded server unavailable login expired context
                                model bad credit unknown; also prose (a limit notice that looks
                                like an answer, exit code 0) and retry (the CLI would ask again)
                                MORE is {"text": …} for other words; claude takes status, error,
                                limit, resets_at and api_error besides
    tool NAME                   the model uses one of the CLI's own tools
    json VALUE, raw TEXT, hex HEX     a line, text or bytes on standard output
    stderr TEXT [N]             TEXT on standard error, N times
    sleep S, hang, until PATH   wait: S seconds, for ever, until the file PATH exists
    note WORD                   a line {"what": WORD} in the record
    replace NAME TEXT           put a new file in place of NAME in the private folder
    grandchild HOW [S]          a process that keeps the output open for S seconds; HOW is `group`,
                                or `own` for a session of its own
    close                       close standard output
    exit CODE, kill SIGNAL      end here, without last words

`{"surveys": {"claude": {"models": [NAME, …], "limits": {…}}, "codex": …}}` is what they tell when
OLP asks them about themselves; `limits` is in the CLI's own format, and codex may tell `contexts`,
tokens by model. A survey is no call.

Without exit or kill the process ends after its last action, with 0, or with the code that its CLI
has for the failure told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Action = list[Any]
BREATH_S = 0.15
"""Seconds after which what was written has been read."""

Turn = dict[str, Any]


def turn(*actions: Action, **options: Any) -> Turn:
    """A turn that does `actions`. `options` are stdin, term, cap and when."""
    return {"do": list(actions), **options}


def says(*pieces: str, every: float = 0.0, model: str | None = None, **options: Any) -> Turn:
    """A good answer, in pieces."""
    said: list[Action] = []
    for index, piece in enumerate(pieces):
        said += [["sleep", every]] if every and index else []
        said.append(["say", piece])
    return turn(["init"], ["start", model], *said, ["end"], **options)


def fails(kind: str, after: Sequence[str] = (), **more: Any) -> Turn:
    """A failure that the CLI tells, after some pieces of an answer, in a moment of its own: what is
    read together is judged together. `more` changes its words."""
    said: list[Action] = [*(["say", piece] for piece in after), ["sleep", BREATH_S]]
    begun: list[Action] = [["start"], *said] if after else []
    return turn(["init"], *begun, ["fail", kind, more])


def dies(after: Sequence[str] = (), code: int = 1, stderr: str = "") -> Turn:
    """An exit without a final event, after some pieces of an answer."""
    said: list[Action] = [["say", piece] for piece in after]
    begun: list[Action] = [["init"], ["start"], *said] if after else []
    words: list[Action] = [["stderr", stderr]] if stderr else []
    return turn(*begun, *words, ["exit", code])


def hangs(after: Sequence[str] = (), started: bool = False, **options: Any) -> Turn:
    """A process that stops in its tracks, before its first byte or after some pieces."""
    said: list[Action] = [["say", piece] for piece in after]
    begun: list[Action] = [["init"], ["start"], *said] if after or started else []
    return turn(*begun, ["hang"], **options)


@dataclass(frozen=True, slots=True)
class Call:
    """What one call of a CLI saw and did. Times are of the system's steady clock, in seconds."""

    provider: str
    number: int
    lines: tuple[Mapping[str, Any], ...]

    @property
    def start(self) -> Mapping[str, Any]:
        """pid, pgid, sid, ppid, argv, env, cwd, listing, private, alive."""
        return self.lines[0]

    @property
    def pid(self) -> int:
        """The process's id."""
        return int(self.start["pid"])

    @property
    def argv(self) -> list[str]:
        """The arguments, without the program."""
        return list(self.start["argv"])[1:]

    @property
    def env(self) -> dict[str, str]:
        """The whole environment."""
        return dict(self.start["env"])

    @property
    def private(self) -> Path:
        """The private folder."""
        return Path(self.start["private"]["path"])

    @property
    def grandchildren(self) -> list[int]:
        """The processes that it started."""
        return [line["child"] for line in self.lines if line["what"] == "grandchild"]

    def line(self, what: str) -> Mapping[str, Any] | None:
        """The first line of a kind: started, read, term, grandchild, ended, or a note's word."""
        return next((line for line in self.lines if line["what"] == what), None)


class Plan:
    """A plan file and its record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record = path.with_name(path.name + ".record")
        self.set()

    def set(self, surveys: Mapping[str, Any] | None = None, **turns: Turn | Sequence[Turn]) -> None:
        """What the CLIs do from now on; one that is not named does nothing and exits with 0.

        Calls keep being counted from the first one of this plan.
        """
        lists = {name: [t] if isinstance(t, dict) else list(t) for name, t in turns.items()}
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_text(json.dumps({**lists, "surveys": dict(surveys or {})}))
        fresh.replace(self.path)

    def calls(self, provider: str | None = None) -> list[Call]:
        """Every call so far, in the order in which they began."""
        found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for line in self._lines():
            if line["what"] != "survey":
                found.setdefault((line["provider"], line["call"]), []).append(line)
        calls = [Call(name, number, tuple(lines)) for (name, number), lines in found.items()]
        calls.sort(key=lambda call: call.start["at"])
        return [call for call in calls if provider in (None, call.provider)]

    def surveys(self) -> list[Mapping[str, Any]]:
        """The times that a CLI was asked about itself: provider, pid, argv."""
        return [line for line in self._lines() if line["what"] == "survey"]

    def _lines(self) -> list[Mapping[str, Any]]:
        """The record, without a last line that is just being written."""
        if not self._record.exists():
            return []
        return [json.loads(text) for text in self._record.read_text().split("\n")[:-1]]

    def spawns(self) -> dict[str, int]:
        """How often each CLI was started; those never started are left out."""
        counts: dict[str, int] = {}
        for call in self.calls():
            counts[call.provider] = counts.get(call.provider, 0) + 1
        return counts
