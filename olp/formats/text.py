"""Extracts the JSON from a streamed answer.

A model may wrap it in a Markdown fence, or put a line of prose before it. Streamed and complete
answers use the same code, so both give the same text. The value is passed on unchanged; it can only
be validated at its end.
"""

from __future__ import annotations

import re
from typing import Any

from olp.model import JsonFormat

_BEGIN = re.compile(
    r"""(?P<fence>```[\w+-]*+\s*+)?          # an optional fence,
        (?:(?P<object>\{)\s*+["}]           # an object, empty or with a key,
          |(?P<array>\[)\s*+[]"{[\dtfn-])   # or an array, empty or with a value
    """,
    re.VERBOSE,
)
"""The start of a value, at the start of a line."""

_UNDECIDED = re.compile(r"(?:`{0,2}|```[\w+-]*+\s*+(?:[{[]\s*+)?|[{[]\s*+)\Z")
"""The end of a text that may still become the start of a value."""

MAX_BEGIN = 256
"""Maximum characters of the start of a value."""

_BLANKS = re.compile(r"\s*+")
_FENCE = re.compile(r"\A```[\w+-]*[ \t]*\n(?P<body>.*?)\n?```\Z", re.DOTALL)
_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


class JsonText:
    """The JSON of one answer. A value other than an object or array is only found at the end."""

    def __init__(self, wanted: JsonFormat) -> None:
        self._kinds = _kinds(wanted)
        self._before: list[str] = []
        self._held = ""
        self._line_begins = True
        self._fenced = self._unwanted = False
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._rest: list[str] | None = None
        self.code: str | None = None

    @property
    def begun(self) -> bool:
        """Whether the value has started."""
        return self._depth > 0 or self.complete

    @property
    def complete(self) -> bool:
        """Whether the value is complete."""
        return self._rest is not None

    def feed(self, piece: str) -> str:
        """Take the next piece of the answer; returns the new JSON text."""
        if self._rest is not None:
            self._rest.append(piece)
            return ""
        if self._depth:
            return self._value(piece)
        if self._unwanted:
            self._before.append(piece)
            return ""
        self._held += piece
        return self._value(self._held) if self._begin() else ""

    def end(self) -> str:
        """Return the remaining JSON text. Afterwards `code` is the problem with the text around the
        JSON, if any."""
        if self._rest is not None:
            self.code = self._problem_after("".join(self._rest).strip())
        if self.begun:
            return ""
        body = "".join([*self._before, self._held]).strip()
        fenced = _FENCE.match(body)
        return fenced["body"].strip() if fenced else body

    def _begin(self) -> bool:
        """Look for the start of the value; if True, it is at the start of `_held`. A value of an
        unwanted kind is skipped with everything inside it."""
        at, found = 0, False
        while at < len(self._held) and not (found or self._unwanted):
            if self._line_begins:
                at = _BLANKS.match(self._held, at).end()  # type: ignore[union-attr]
                begin = _BEGIN.match(self._held, at, at + MAX_BEGIN)
                if begin is not None:
                    kind = "object" if begin["object"] else "array"
                    self._fenced = bool(begin["fence"])
                    self._unwanted = kind not in self._kinds
                    at = len(self._held) if self._unwanted else begin.start(kind)
                    found = not self._unwanted
                    continue
                if len(self._held) - at <= MAX_BEGIN and _UNDECIDED.match(self._held, at):
                    break
            end = self._held.find("\n", at) + 1
            self._line_begins = end > 0
            at = end or len(self._held)
        self._before.append(self._held[:at])
        self._held = self._held[at:]
        return found

    def _value(self, piece: str) -> str:
        """The part of `piece` that belongs to the value."""
        at = 0
        while at < len(piece):
            if self._escaped:
                self._escaped, at = False, at + 1
                continue
            found = (_INSIDE if self._in_string else _OUTSIDE).search(piece, at)
            if found is None:
                break
            at = found.end()
            match found[0]:
                case '"':
                    self._in_string = not self._in_string
                case "\\":
                    self._escaped = True
                case "{" | "[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if self._depth == 0:
                        self._rest = [piece[at:]]
                        return piece[:at]
        return piece

    def _problem_after(self, rest: str) -> str | None:
        """Return the problem with the text after the value: prose is only allowed after a fence."""
        inside, fence, after = rest.partition("```") if self._fenced else (rest, "", "")
        if inside.strip():
            return "not JSON alone: there is text behind it"
        return "not JSON alone: there are several blocks" if fence and "```" in after else None


def _kinds(wanted: JsonFormat) -> frozenset[str]:
    """The allowed kinds of the value, of `object` and `array`."""
    both = frozenset({"object", "array"})
    if wanted.schema is None:
        return frozenset({"object"})
    told: Any = wanted.schema.get("type")
    names = {told} if isinstance(told, str) else set(told) if isinstance(told, list | tuple) else ()
    return frozenset(both.intersection(names)) if names else both
