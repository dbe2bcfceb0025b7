"""The answers a model can be ordered to give, before they are put into a vendor's wire format.

In ``[[NAME:argument]]``, by name:

- ``SAY:text``, ``ECHO``, ``LONG:words``, ``LEN`` (cut by the token limit), ``THINK``
- ``CALL:name:{json}`` calls the offered tool of that name, with or without a prefix of the CLI's
  (``mcp__client__name``); none offered: the name as it stands. The arguments go out letter for
  letter, valid JSON or not; without any they are ``{}``.
- ``CALLS:[{"name":"a","args":{}},{"name":"b","args":{},"id":"x"}]`` calls several in one answer;
  ``id`` forces an id.
- ``CUTCALL:name:{js`` calls too, and is cut by the token limit in the arguments
- ``SAYCALL:text|name:{json}`` speaks first
- ``STEPS:[{"name":"a","args":{}},{"name":"b","args":{}}]`` calls one after the other, each when the
  result of the one before is there; where the first is not offered it says so in words
- ``LOOP:N:name`` calls with ``{"step": 1}``, ``{"step": 2}``, … until N results have come back
- ``EVIL:name:{json}`` calls exactly that, offered or not; the default arguments leave a canary
- ``JSON:{json}``, ``FORCED:{json}`` answer in the structured way if one is asked for, else in text
- ``SEE`` tells the images and files of the user's message
- ``REFUSE:text`` refuses in the vendor's way

Faults of a stream (``stream``) strike at a delta, or after so many seconds, in an answer of so many
words that are called so; all fields may be left out:

- ``HANG_AT:delta:words:name``, ``DROP:…``, ``MIDERR:…``, ``GARBAGE:…``, ``LATE:seconds:words:name``
- ``LONG:words:name`` is such an answer without a fault, ``NODONE:words:name`` lacks its last event
- ``ENDS`` thinks, and then its stream ends in good order without another word

After CALL, CALLS, SAYCALL and EVIL the results are echoed, unless the text ends with
``[[THEN:NAME:argument]]``, whose answer or failure comes instead (after STEPS and
LOOP, when they are done).
``[[TAIL:seconds]]`` behind an order holds back the stream's end when all is said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .reading import Offered
from .scenario import WORDS, Ask, Scenario

REFUSAL = "I'm sorry, but I can't help with that."
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
class Call:
    """A tool call; ``arguments`` is the text that a model would have written."""

    name: str
    arguments: str = "{}"
    id: str = ""  # "" lets the vendor number it
    namespace: str = ""
    custom: bool = False

    @property
    def args(self) -> dict[str, Any]:
        try:
            loaded = json.loads(self.arguments)
        except ValueError:
            return {}
        return loaded if isinstance(loaded, dict) else {}

    def fragments(self, count: int = 3) -> list[str]:
        """The arguments as deltas: as many, if they are long enough."""
        size = max(1, -(-len(self.arguments) // count))
        return [self.arguments[n : n + size] for n in range(0, len(self.arguments), size)]


@dataclass(frozen=True)
class Answer:
    """What the model says, before it is put into a vendor's wire format."""

    pieces: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    finish: str = "stop"  # stop | length | tool | refusal

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def plan(scenario: Scenario, ask: Ask) -> Answer:
    """The answer of a scenario in which the model does answer."""
    return _PLANS.get(scenario.name, _words)(scenario, ask)


def words(count: int = WORDS, name: str = "word") -> tuple[str, ...]:
    return tuple(f"{name}{n} " for n in range(count))


def _words(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=words())


def _say(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=(scenario.arg or "",))


def _echo(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=(ask.user_text,))


def _think(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=words(), thinking=("let me ", "think about ", "this"))


def _cut_off(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=words(), finish="length")


def _long(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=words(int(scenario.number(400)), scenario.word(1)))


def _faulty(scenario: Scenario, ask: Ask) -> Answer:
    enough = max(WORDS, int(scenario.number(3)) + 1)
    return Answer(pieces=words(int(scenario.number(enough, 1)), scenario.word(2)))


def _ends(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(thinking=("let me ", "think about ", "this"))


def _see(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=("; ".join(str(media) for media in ask.media) or "nothing",))


def _refuse(scenario: Scenario, ask: Ask) -> Answer:
    return Answer(pieces=(scenario.arg,) if scenario.arg else (), finish="refusal")


def _structured(scenario: Scenario, ask: Ask) -> Answer:
    text = scenario.arg or '{"answer": 42}'
    if ask.structured_tool is None:
        return Answer(pieces=tuple(re.findall(r"(?s).{1,7}", text)))
    if ask.structured_tool in ask.called:
        return Answer(pieces=("done",))
    return Answer(calls=(Call(ask.structured_tool, text),), finish="tool")


def _evil(scenario: Scenario, ask: Ask) -> Answer:
    name, _, raw = (scenario.arg or "Bash").partition(":")
    arguments = raw or json.dumps(EVIL_ARGS.get(name, {"command": _CANARY}))
    custom = any(tool.plain == name and tool.custom for tool in ask.offered)
    return _calling(ask, Call(name, arguments, custom=custom))


def _call(scenario: Scenario, ask: Ask) -> Answer:
    name, _, raw = (scenario.arg or "").partition(":")
    return _calling(ask, _offered_call(ask, name, raw or "{}"))


def _cut_call(scenario: Scenario, ask: Ask) -> Answer:
    return replace(_call(scenario, ask), finish="length")


def _calls(scenario: Scenario, ask: Ask) -> Answer:
    wanted = json.loads(scenario.arg or "[]")
    calls = [
        _offered_call(ask, one["name"], json.dumps(one.get("args", {})), one.get("id", ""))
        for one in wanted
    ]
    return _calling(ask, *calls)


def _say_call(scenario: Scenario, ask: Ask) -> Answer:
    text, _, call = (scenario.arg or "").partition("|")
    name, _, raw = call.partition(":")
    spoken = tuple(re.findall(r"\S+\s*|\s+", text))
    return _calling(ask, _offered_call(ask, name, raw or "{}"), pieces=spoken)


def _loop(scenario: Scenario, ask: Ask) -> Answer:
    count, _, name = (scenario.arg or "1:f").partition(":")
    if len(ask.results) >= int(count):
        return Answer(pieces=(f"done after {len(ask.results)}",))
    step = json.dumps({"step": len(ask.results) + 1})
    return Answer(calls=(_offered_call(ask, name, step),), finish="tool")


def _steps(scenario: Scenario, ask: Ask) -> Answer:
    """Of two tools of a name the client's is meant, not the CLI's own. A program asks for a title
    with the same words and without tools: that is told in words."""
    steps, done = json.loads(scenario.arg or "[]"), len(ask.results)
    if done >= len(steps):
        return _calling(ask)
    name, arguments = steps[done]["name"], json.dumps(steps[done].get("args", {}))
    if find(ask.offered, name) is None:
        return Answer(pieces=(f"there is no {name} here",))
    renamed = find(ask.offered, f"client_{name}")
    call = _offered_call(ask, renamed.name if renamed else name, arguments)
    return Answer(calls=(call,), finish="tool")


def _calling(ask: Ask, *calls: Call, pieces: tuple[str, ...] = ()) -> Answer:
    """The calls, or the echo of what they gave."""
    if ask.tool_results is not None:
        return Answer(pieces=(ask.tool_results,))
    return Answer(pieces=pieces, calls=calls, finish="tool")


def _offered_call(ask: Ask, name: str, arguments: str, ident: str = "") -> Call:
    tool = find(ask.offered, name)
    if tool is None:
        return Call(name, arguments, ident)
    return Call(tool.plain, arguments, ident, tool.namespace, tool.custom)


def find(offered: tuple[Offered, ...], name: str) -> Offered | None:
    """The tool that a CLI offers for a client's ``name``: that name, else the shortest that ends
    with it behind two underlines, else (``vibe``) behind one."""
    exact = [tool for tool in offered if tool.name == name]
    behind_two = [tool for tool in offered if tool.name.endswith(f"__{name}")]
    behind_one = [tool for tool in offered if tool.name.endswith(f"_{name}")]
    fits = exact or behind_two or behind_one
    return min(fits, key=lambda tool: len(tool.name)) if fits else None


_PLANS: dict[str, Callable[[Scenario, Ask], Answer]] = {
    "SAY": _say,
    "ECHO": _echo,
    "THINK": _think,
    "LEN": _cut_off,
    "LONG": _long,
    "NODONE": _long,
    "FRESH": _long,
    "ENDS": _ends,
    "HANG_AT": _faulty,
    "DROP": _faulty,
    "MIDERR": _faulty,
    "GARBAGE": _faulty,
    "LATE": _faulty,
    "SEE": _see,
    "REFUSE": _refuse,
    "JSON": _structured,
    "FORCED": _structured,
    "EVIL": _evil,
    "CALL": _call,
    "CUTCALL": _cut_call,
    "CALLS": _calls,
    "SAYCALL": _say_call,
    "STEPS": _steps,
    "LOOP": _loop,
}
