"""What the mock vendors are told to do, and what they remember.

The real CLIs cannot be given a fake answer directly: they only know a base URL. So the prompt
itself carries the order, as a marker such as ``[[QUOTA]]`` or ``[[SLOW:0.5]]`` in the last user
text, and a test that must change a vendor's mood between two equal prompts does it through the
control endpoint, which ends up in the same ``State``. Everything here is vendor-neutral; wire
formats live in the modules named after the vendors.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

VENDORS = ("anthropic", "openai", "mistral")
CUT_AFTER = 4  # deltas sent before MIDERR and DROP strike
WORDS = 6

# The argument ends at the first "]]" that cannot be the end of a JSON list inside it.
_MARKER = re.compile(r"\[\[([A-Z][A-Z0-9_]*)(?::(.*?))?\]\](?![\]},])", re.DOTALL)

_CANARY = "echo olp-canary-$((6*7))"
EVIL_ARGS: dict[str, dict[str, Any]] = {
    "Bash": {"command": _CANARY},
    "Read": {"file_path": "/etc/passwd"},
    "Write": {"file_path": "/tmp/olp-canary", "content": "olp-canary-42"},
    "exec_command": {"cmd": _CANARY},
    "shell": {"command": ["sh", "-c", _CANARY]},
    "exec": {
        "input": "const r = await tools.exec_command({cmd: " + json.dumps(_CANARY) + "}); text(r)"
    },
    "apply_patch": {
        "input": "*** Begin Patch\n*** Add File: olp-canary\n+olp-canary-42\n*** End Patch\n"
    },
    "bash": {"command": _CANARY},
    "write_file": {"path": "/tmp/olp-canary", "content": "olp-canary-42"},
    "read_file": {"path": "/etc/passwd"},
    "edit": {"file_path": "olp-canary", "old_string": "a", "new_string": "b"},
    "run_typescript": {
        "code": "async function main() { return await tools.file_system.bash("
        + json.dumps({"command": _CANARY})
        + ") }"
    },
    "skill": {"name": "olp-canary"},
}


@dataclass(frozen=True)
class Scenario:
    """One order to a vendor: what to do, and with which argument."""

    name: str = "OK"
    arg: str | None = None

    def number(self, default: float) -> float:
        try:
            return float(self.arg) if self.arg is not None else default
        except ValueError:
            return default


@dataclass(frozen=True)
class Ask:
    """What a vendor needs to know about a request, whatever its wire format."""

    user_text: str
    tool_results: str | None = None  # text of the results that came back after the user's text
    structured_tool: str | None = None  # tool through which structured output must be given


@dataclass(frozen=True)
class Call:
    name: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the model says, before it is put into a vendor's wire format."""

    pieces: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    finish: str = "stop"  # stop | length | tool

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass
class Override:
    """A scenario set from outside; it wins over markers until it has been used up."""

    scenario: Scenario
    times: int | None = None


@dataclass
class Quota:
    five_hour: float = 0.42
    seven_day: float = 0.17
    resets_in: float = 3600


@dataclass
class Usage:
    input_tokens: int = 25
    output_tokens: int = 15


@dataclass
class Recorded:
    """One request as it arrived, and how its answer went."""

    vendor: str
    method: str
    path: str
    headers: dict[str, str]
    body: str
    body_bytes: int
    received_at: float
    completed: bool = False
    closed_at: float | None = None  # when the client left before the answer was whole


@dataclass
class State:
    """Everything a test may set or read; one per running mock."""

    overrides: dict[str, Override] = field(default_factory=dict)
    quota: Quota = field(default_factory=Quota)
    usage: Usage = field(default_factory=Usage)
    requests: list[Recorded] = field(default_factory=list)

    def reset(self) -> None:
        self.overrides.clear()
        self.requests.clear()
        self.quota = Quota()
        self.usage = Usage()

    def choose(self, vendor: str, user_text: str) -> Scenario:
        """The override for this vendor if one is left, else the marker in the text, else OK."""
        override = self.overrides.get(vendor)
        if override is None:
            return marked(user_text)
        if override.times is not None:
            override.times -= 1
            if override.times <= 0:
                del self.overrides[vendor]
        return override.scenario


def marked(text: str) -> Scenario:
    """The last marker in a text; OK when there is none."""
    found = list(_MARKER.finditer(text))
    return Scenario(found[-1][1], found[-1][2]) if found else Scenario()


def evil_call(arg: str | None) -> Call:
    """``tool`` or ``tool:{json}`` as a tool call; the defaults leave or print a canary."""
    name, _, raw = (arg or "Bash").partition(":")
    if raw:
        return Call(name, dict(json.loads(raw)))
    return Call(name, EVIL_ARGS.get(name, {"command": _CANARY}))


def plan(scenario: Scenario, ask: Ask) -> Answer:
    """The answer of a scenario in which the model does answer."""
    name, arg = scenario.name, scenario.arg
    if name in ("EVIL", "CALL"):
        if ask.tool_results is None:
            return Answer(calls=(evil_call(arg),), finish="tool")
        return Answer(pieces=(ask.tool_results,))
    if name == "SAY":
        return Answer(pieces=(arg or "",))
    if name == "ECHO":
        return Answer(pieces=(ask.user_text,))
    if name == "JSON":
        return _structured(arg or '{"answer": 42}', ask)
    if name == "THINK":
        return Answer(pieces=words(), thinking=("let me ", "think about ", "this"))
    if name == "LEN":
        return Answer(pieces=words(), finish="length")
    if name == "LONG":
        return Answer(pieces=words(int(scenario.number(400))))
    if name == "HANG_AT":
        return Answer(pieces=words(max(WORDS, int(scenario.number(3)) + 1)))
    return Answer(pieces=words())


def words(count: int = WORDS) -> tuple[str, ...]:
    return tuple(f"word{n} " for n in range(count))


def _structured(text: str, ask: Ask) -> Answer:
    if ask.structured_tool is None:
        return Answer(pieces=(text,))
    if ask.tool_results is not None:
        return Answer(pieces=("done",))
    return Answer(calls=(Call(ask.structured_tool, dict(json.loads(text))),), finish="tool")
