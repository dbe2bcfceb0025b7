"""Finds the JSON in an answer while it comes.

A model may put a Markdown fence around it, or a line of prose before it. What is handed on piece by
piece is the same as what is made of the whole answer, since both are made here. The value itself
goes out as it is: whether it is proper JSON, and the right one, can only be said at its end.
"""

from __future__ import annotations

import re
from typing import Any

from olp.model import JsonFormat

_BEGIN = re.compile(
    r"""(?P<fence>```[\w+-]*+\s*+)?          # perhaps behind a fence,
        (?:(?P<object>\{)\s*+["}]           # an object with a name or nothing in it,
          |(?P<array>\[)\s*+[]"{[\dtfn-])   # or an array with a value or nothing in it
    """,
    re.VERBOSE,
)
"""How a value begins, at the beginning of a line."""

_UNDECIDED = re.compile(r"(?:`{0,2}|```[\w+-]*+\s*+(?:[{[]\s*+)?|[{[]\s*+)\Z")
"""The end of a text that may yet become such a beginning."""

MAX_BEGIN = 256
"""Characters of such a beginning."""

_BLANKS = re.compile(r"\s*+")
_FENCE = re.compile(r"\A```[\w+-]*[ \t]*\n(?P<body>.*?)\n?```\Z", re.DOTALL)
_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


class JsonText:
    """The JSON of one answer. What has no braces or brackets is only known when it is whole."""

    def __init__(self, wanted: JsonFormat) -> None:
        self._kinds = _kinds(wanted)
        self._before: list[str] = []
        self._held = ""
        self._line_begins = True
        self._fenced = self._foreign = False
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._rest: list[str] | None = None
        self.code: str | None = None

    @property
    def begun(self) -> bool:
        """Whether there is a value, or the beginning of one."""
        return self._depth > 0 or self.complete

    @property
    def complete(self) -> bool:
        """Whether the value is whole."""
        return self._rest is not None

    def feed(self, piece: str) -> str:
        """What of the JSON is new with the next piece of the answer."""
        if self._rest is not None:
            self._rest.append(piece)
            return ""
        if self._depth:
            return self._value(piece)
        if self._foreign:
            self._before.append(piece)
            return ""
        self._held += piece
        return self._value(self._held) if self._begin() else ""

    def end(self) -> str:
        """What is still to be handed on when no more comes; `problem` then says what is wrong with
        what stands around the JSON."""
        if self._rest is not None:
            self.code = self._behind("".join(self._rest).strip())
        if self.begun:
            return ""
        body = "".join([*self._before, self._held]).strip()
        fenced = _FENCE.match(body)
        return fenced["body"].strip() if fenced else body

    def _begin(self) -> bool:
        """Whether the value begins: it is then what is held. One of another kind is not the one
        that is wanted, and neither is what stands inside of it."""
        at, found = 0, False
        while at < len(self._held) and not (found or self._foreign):
            if self._line_begins:
                at = _BLANKS.match(self._held, at).end()  # type: ignore[union-attr]
                begin = _BEGIN.match(self._held, at, at + MAX_BEGIN)
                if begin is not None:
                    kind = "object" if begin["object"] else "array"
                    self._fenced = bool(begin["fence"])
                    self._foreign = kind not in self._kinds
                    at = len(self._held) if self._foreign else begin.start(kind)
                    found = not self._foreign
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

    def _behind(self, rest: str) -> str | None:
        """What is wrong with the text behind the value: prose may only follow its fence."""
        inside, fence, after = rest.partition("```") if self._fenced else (rest, "", "")
        if inside.strip():
            return "not JSON alone: there is text behind it"
        return "not JSON alone: there are several blocks" if fence and "```" in after else None


def _kinds(wanted: JsonFormat) -> frozenset[str]:
    """What the value can begin as, of an object and an array."""
    both = frozenset({"object", "array"})
    if wanted.schema is None:
        return frozenset({"object"})
    told: Any = wanted.schema.get("type")
    names = {told} if isinstance(told, str) else set(told) if isinstance(told, list | tuple) else ()
    return frozenset(both.intersection(names)) if names else both
