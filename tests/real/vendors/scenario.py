"""What the mock vendors are told to do, and what they remember.

The real CLIs cannot be given a fake answer directly: they only know a base URL. So the prompt
itself carries the order, as a marker such as ``[[QUOTA]]`` or ``[[SLOW:0.5]]`` in the last user
text that has any, and a test that must change a vendor's mood between two equal prompts does it
through the control endpoint, which ends up in the same ``State``. The orders that are answers are
listed in ``plan``. Everything here is vendor-neutral; wire formats live in the modules named after
the vendors, and in ``reading``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .reading import Media, Offered, Turn

VENDORS = ("anthropic", "openai", "mistral")
CUT_AFTER = 4  # deltas sent before MIDERR, DROP and GARBAGE strike, unless they say
WORDS = 6

_HEAD = re.compile(r"\[\[([A-Z][A-Z0-9_]*)(:|\]\](?![\]},]))")
# An argument ends at the first "]]" that cannot be the end of a JSON list inside it.
_END = re.compile(r"\]\](?![\]},])")
_BRACKET = re.compile(r"[\[{]|\]\]")
_JSON = json.JSONDecoder()


@dataclass(frozen=True)
class Scenario:
    """One order to a vendor: what to do, and with which argument."""

    name: str = "OK"
    arg: str | None = None
    then: Scenario | None = None  # what comes once the tools' results are there
    tail_s: float = 0.0  # from the last word or call to the end of the stream

    def number(self, default: float, place: int = 0) -> float:
        """The field of the argument at `place`, as a number."""
        try:
            return float(self._field(place))
        except ValueError:
            return default

    def word(self, place: int) -> str:
        """The field at `place`: what the words of an answer are called."""
        return self._field(place) or "word"

    def _field(self, place: int) -> str:
        fields = (self.arg or "").split(":")
        return fields[place] if place < len(fields) else ""


@dataclass(frozen=True)
class Ask:
    """What a vendor needs to know about a request, whatever its wire format."""

    user_text: str = ""  # of the user message that counts, its images told in it
    media: tuple[Media, ...] = ()  # what came with that message
    results: tuple[Turn, ...] = ()  # of tools, since then
    called: tuple[str, ...] = ()  # names of the tools called since then
    offered: tuple[Offered, ...] = ()
    structured_tool: str | None = None  # tool through which structured output must be given
    length: int = 0  # of the conversation, in turns

    @property
    def tool_results(self) -> str | None:
        return "\n".join(turn.shown for turn in self.results) if self.results else None


def ask_of(turns: Sequence[Turn], offered: Sequence[Offered], structured: str = "") -> Ask:
    """``structured`` names the vendor's tool for structured output, if it has such a thing."""
    spoken = [n for n, turn in enumerate(turns) if turn.kind == "user" and turn.text.strip()]
    ordered = [n for n in spoken if n > _answered(turns) and any(_markers(turns[n].text))]
    last = (ordered or spoken or [-1])[-1]
    since = turns[last + 1 :]
    return Ask(
        user_text=turns[last].shown if spoken else "",
        media=tuple(_beside(turns, last)) if spoken else (),
        results=tuple(turn for turn in since if turn.kind == "result"),
        called=tuple(turn.name for turn in since if turn.kind == "call"),
        offered=tuple(offered),
        structured_tool=structured if structured in [tool.name for tool in offered] else None,
        length=len(turns),
    )


def _answered(turns: Sequence[Turn]) -> int:
    """Where the model's last answer stands. An order holds until then, whatever a client says in
    the user's name beside the results; words before a call are no answer."""
    kinds = [turn.kind for turn in turns] + [""]
    found = [
        n for n, turn in enumerate(turns) if turn.kind == "assistant" and kinds[n + 1] != "call"
    ]
    return found[-1] if found else -1


def _beside(turns: Sequence[Turn], where: int) -> Iterator[Media]:
    """The media of a user turn; a CLI may give them as messages of their own right beside it."""
    first = last = where
    while first > 0 and turns[first - 1].kind == "user" and not turns[first - 1].text:
        first -= 1
    while last + 1 < len(turns) and turns[last + 1].kind == "user":
        last += 1
    for turn in turns[first : last + 1]:
        yield from turn.media


@dataclass
class Override:
    """A scenario set from outside; it wins over markers until it has been used up, and then
    another does, if there is one."""

    scenario: Scenario
    times: int | None = None
    then: Override | None = None


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
    pace_s: float = 0.0  # between two deltas
    requests: list[Recorded] = field(default_factory=list)
    answers: int = 0  # never reset: a CLI may outlive a test

    def new_id(self, prefix: str) -> str:
        """An id no other answer has; ``claude`` takes two answers of one id for one message."""
        self.answers += 1
        return f"{prefix}{self.answers:08d}"

    def reset(self) -> None:
        self.overrides.clear()
        self.requests.clear()
        self.quota = Quota()
        self.usage = Usage()
        self.pace_s = 0.0

    def choose(self, vendor: str, ask: Ask) -> Scenario:
        """The override for this vendor if one is left, else the marker in the text, else OK; what
        it becomes once results are there."""
        override = self.overrides.get(vendor)
        if override is None:
            return _now(marked(ask.user_text), ask)
        if override.times is not None:
            override.times -= 1
            if override.times <= 0:
                del self.overrides[vendor]
                if override.then is not None:
                    self.overrides[vendor] = override.then
        return override.scenario


def _now(scenario: Scenario, ask: Ask) -> Scenario:
    wanted = int(scenario.number(1)) if scenario.name == "LOOP" else 1
    if scenario.name == "STEPS":
        wanted = len(json.loads(scenario.arg or "[]"))
    return scenario.then if scenario.then and len(ask.results) >= wanted else scenario


def marked(text: str) -> Scenario:
    """The last marker in a text; OK when there is none. Two are no orders of their own but add to
    the one before: ``[[THEN:NAME:arg]]`` what comes after the results, and ``[[TAIL:seconds]]`` how
    long the stream's end is in coming."""
    return _last(list(_markers(text)))


def _last(found: Sequence[Scenario]) -> Scenario:
    if not found:
        return Scenario()
    *before, last = found
    if before and last.name == "TAIL":
        return replace(_last(before), tail_s=last.number(0))
    if before and last.name == "THEN":
        name, _, arg = (last.arg or "OK").partition(":")
        return replace(_last(before), then=Scenario(name, arg or None))
    return last


def _markers(text: str) -> Iterator[Scenario]:
    at = 0
    while head := _HEAD.search(text, at):
        at = head.end()
        if head[2] != ":":
            yield Scenario(head[1])
            continue
        end = _json_end(text, at)
        if end is None and (found := _END.search(text, at)):
            end = found.start()
        if end is not None:
            yield Scenario(head[1], text[at:end])
            at = end + 2


def _json_end(text: str, start: int) -> int | None:
    """Where an argument ends that closes with JSON: such JSON may hold any bracket in a string."""
    opening = _BRACKET.search(text, start)
    if opening is None or opening[0] == "]]":
        return None
    try:
        _, end = _JSON.raw_decode(text, opening.start())
    except ValueError:
        return None
    return end if text.startswith("]]", end) else None
