"""Inserts lines into a YAML file, keeping comments and order.

This is not a YAML parser: only the plain block style that these files use is supported, and a file
with anything else is left alone.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence

from olp.connect.base import CannotMerge

Value = str | bool | int | Sequence[str] | Mapping[str, int]

_COMMENT = re.compile(r"\s*(#.*)?$")
_ODD = re.compile(r"[|>&*!{\[@`%]")
"""Matches the beginning of a value that is not a plain scalar on one line."""


def scalar(value: Value) -> str:
    """A value on one line, as JSON, which is valid YAML with simpler quoting."""
    return json.dumps(value, ensure_ascii=False)


def item(fields: Mapping[str, Value], indent: str = "") -> list[str]:
    """One list element, as lines."""
    lines = [f"{indent}  {name}: {scalar(value)}" for name, value in fields.items()]
    return [f"{indent}- {lines[0].strip()}", *lines[1:]]


class _File:
    """The lines of a file, with its line ending and byte order mark."""

    def __init__(self, text: str) -> None:
        self._mark = "\ufeff" if text.startswith("\ufeff") else ""
        self._end = "\r\n" if "\r\n" in text else "\n"
        body = text.removeprefix("\ufeff")
        if self._end == "\r\n" and body.count("\n") != body.count("\r\n"):
            raise CannotMerge("its lines end in two different ways")
        self.lines = body.replace("\r\n", "\n").split("\n")
        while self.lines and not self.lines[-1].strip():
            self.lines.pop()
        self._check()

    def _check(self) -> None:
        documents = sum(line.startswith("---") for line in self.lines)
        ended = any(line.startswith("...") for line in self.lines)
        first = next((line for line in self.lines if not _COMMENT.match(line)), "")
        if ended or documents > 1 or (documents and not first.startswith("---")):
            raise CannotMerge("it holds more than one document")
        if any("\t" in line[: len(line) - len(line.lstrip())] for line in self.lines):
            raise CannotMerge("it is indented with tabs")
        if _ODD.match(next(iter(self.content()), "")):
            raise CannotMerge("it is not written in lines of `key: value`")

    def content(self) -> list[str]:
        """The lines that are not blank, comments or document markers."""
        visible = (line for line in self.lines if not _COMMENT.match(line))
        return [line for line in visible if not line.startswith("---")]

    def text(self) -> str:
        """The text of the file."""
        return self._mark + self._end.join([*self.lines, ""])


def set_keys(
    text: str, fields: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> str:
    """`text`, a mapping, with these top-level keys; `defaults` are only set if missing."""
    file = _File(text)
    if any(line.startswith("-") for line in file.content()):
        raise CannotMerge("it is a list, and not the mapping that it should be")
    for name, value in {**(defaults or {}), **fields}.items():
        found = [n for n, line in enumerate(file.lines) if re.match(rf"{name}[ ]*:(\s|$)", line)]
        if len(found) > 1:
            raise CannotMerge(f"{name!r} stands in it twice")
        if found and name not in fields:
            continue
        if found:
            file.lines[found[0]] = _replaced(file.lines, found[0], name, value)
        else:
            file.lines.append(f"{name}: {scalar(value)}")
    return file.text()


def _replaced(lines: Sequence[str], at: int, name: str, value: str) -> str:
    """The line with a new value; its comment is kept."""
    old = lines[at].partition(":")[2].strip()
    below = next((line for line in lines[at + 1 :] if not _COMMENT.match(line)), "")
    if _ODD.match(old) or below.startswith((" ", "- ")):
        raise CannotMerge(f"the value of {name!r} is more than one line or word")
    comment = re.search(r"(?:^|\s)(#.*)$", re.sub(r'"[^"]*"|' + "'[^']*'", _hidden, old))
    kept = f"  {comment[1]}" if comment else ""
    return f"{name}: {scalar(value)}{kept}"


def _hidden(found: re.Match[str]) -> str:
    """A replacement of the same length that contains no comment marker."""
    return "x" * len(found[0])


def put_item(
    text: str, fields: Mapping[str, Value], *, under: str | None, head: Sequence[str] = ()
) -> str:
    """`text` with one element in its list: the one under the key `under`, or the whole file.

    The first of `fields` identifies the element: one with the same value is replaced. `head` are
    the initial lines of an empty file.
    """
    file = _File(text)
    if not file.content():
        file.lines += head
    begin, end = _range(file, under)
    starts = [n for n in range(begin, end) if re.match(r" *-(\s|$)", file.lines[n])]
    visible = (line for line in file.lines[begin:end] if not _COMMENT.match(line))
    if not next(visible, "-").lstrip().startswith("-"):
        raise CannotMerge("the list in it is not written as `- ` lines")
    indent = min((len(_indent(file.lines[n])) for n in starts), default=2 if under else 0)
    starts = [n for n in starts if len(_indent(file.lines[n])) == indent]
    new = item(fields, " " * indent)
    name, value = next(iter(fields.items()))
    for start, stop in itertools.pairwise([*starts, end]):
        if _names(file.lines[start:stop], indent, name, str(value)):
            file.lines[start : _last(file.lines, start, stop)] = new
            return file.text()
    at = _last(file.lines, starts[-1], end) if starts else begin
    file.lines[at:at] = new
    return file.text()


def _range(file: _File, under: str | None) -> tuple[int, int]:
    """The line range of the list."""
    if under is None:
        if any(not line.startswith(("-", " ")) for line in file.content()):
            raise CannotMerge("it is not the list that it should be")
        return (0 if file.content() else len(file.lines)), len(file.lines)
    if any(line.startswith("-") for line in file.content()[:1]):
        raise CannotMerge("it is a list, and not the mapping that it should be")
    found = [n for n, line in enumerate(file.lines) if re.match(rf"{under}[ ]*:(\s|$)", line)]
    if len(found) > 1:
        raise CannotMerge(f"{under!r} stands in it twice")
    if not found:
        file.lines.append(f"{under}:")
        return len(file.lines), len(file.lines)
    value = re.sub(r"\s*#.*$", "", file.lines[found[0]].partition(":")[2].strip())
    if value == "[]":
        file.lines[found[0]] = f"{under}:"
    elif value:
        raise CannotMerge(f"the list {under!r} is not written in lines of its own")
    begin = found[0] + 1
    for end in range(begin, len(file.lines)):
        line = file.lines[end]
        if not _COMMENT.match(line) and not line.startswith((" ", "-")):
            return begin, _last(file.lines, begin, end)
    return begin, len(file.lines)


def _last(lines: Sequence[str], start: int, stop: int) -> int:
    """The end of the content: trailing blank lines and comments belong to what follows."""
    while stop > start and _COMMENT.match(lines[stop - 1]):
        stop -= 1
    return stop


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _names(lines: Sequence[str], indent: int, name: str, value: str) -> bool:
    """Whether an element has `value` for `name`."""
    prefix = rf"(?: {{{indent}}}- +| {{{indent + 2}}})"
    wanted = re.compile(rf"""{prefix}{name} *: *(["']?){re.escape(value)}\1 *(#.*)?$""")
    return any(wanted.match(line) for line in lines)
