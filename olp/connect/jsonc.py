"""Sets one value in a JSON file with comments, leaving all other characters unchanged.

Editors allow comments and trailing commas in their settings, and users write them. The text is
scanned for positions, one piece is inserted, and the result is parsed again: if it is not exactly
the intended value, the file is not changed.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from olp.connect.base import CannotMerge

MAX_DEPTH = 100
"""The deepest nesting that is parsed."""

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.S)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*)?(?=\n|$)")


@dataclass(slots=True)
class _Node:
    """A value and its position in the text."""

    start: int
    end: int = 0
    value: Any = None
    members: dict[str, _Node] | None = None
    repeated: set[str] = field(default_factory=set)
    comma: int | None = None
    """Position of the comma after the last member, if there is one."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> _Node:
        """Parse the whole text as one value."""
        node = self.node(0)
        self.skip()
        if self.at != len(self.text):
            raise self.problem("there is something after its end")
        return node

    def problem(self, what: str) -> CannotMerge:
        """An exception with the current line number."""
        return CannotMerge(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def took(self, mark: str) -> bool:
        self.skip()
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def node(self, depth: int) -> _Node:
        self.skip()
        if depth > MAX_DEPTH:
            raise self.problem("it is nested too deeply")
        node = _Node(self.at)
        if self.took("{"):
            self.object(node, depth)
        elif self.took("["):
            self.array(node, depth)
        else:
            node.value = self.scalar()
        node.end = self.at
        return node

    def object(self, node: _Node, depth: int) -> None:
        node.members, node.value = {}, {}
        while not self.took("}"):
            if node.members and node.comma is None:
                raise self.problem("a comma is missing")
            name = self.string()
            if not self.took(":"):
                raise self.problem("a colon is missing")
            if name in node.members:
                node.repeated.add(name)
            inner = node.members[name] = self.node(depth + 1)
            node.value[name] = inner.value
            node.comma = self.at if self.took(",") else None
            if node.comma is not None:
                node.comma = self.at - 1

    def array(self, node: _Node, depth: int) -> None:
        node.value = []
        more = True
        while not self.took("]"):
            if not more:
                raise self.problem("a comma is missing")
            node.value.append(self.node(depth + 1).value)
            more = self.took(",")

    def string(self) -> str:
        self.skip()
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self.problem("a name in quotation marks is missing")
        return str(self.take(found))

    def scalar(self) -> Any:
        found = _STRING.match(self.text, self.at) or _PLAIN.match(self.text, self.at)
        if found is None:
            raise self.problem("this is no JSON value")
        return self.take(found)

    def take(self, found: re.Match[str]) -> Any:
        try:
            value = json.loads(found[0])
        except ValueError:
            raise self.problem("this is no JSON value") from None
        self.at = found.end()
        return value


def parse(text: str) -> Any:
    """Parse JSON with or without comments. Raises CannotMerge if the text is invalid."""
    return _Scanner(text).document().value


def set_in(text: str, path: Sequence[str], value: Any) -> str:
    """`text` with `value` at `path`; missing objects on the way are created."""
    if not text[_blank(text) :]:
        return text + dumps(_nested(path, value), "  ") + "\n"
    root = _Scanner(text).document()
    wanted = _expected(root.value, path, value)
    new = _edited(text, root, path, value)
    if parse(new) != wanted:
        raise CannotMerge("it is written in a way that cannot be changed safely")
    return new


def set_default(text: str, path: Sequence[str], value: Any) -> str:
    """`text` with `value` at `path`, if nothing is set there."""
    here = parse(text)
    for name in path:
        if not isinstance(here, dict) or name not in here:
            return set_in(text, path, value)
        here = here[name]
    return text


def _blank(text: str) -> int:
    found = _SPACE.match(text)
    assert found is not None
    return found.end()


def dumps(value: Any, indent: str, level: int = 0) -> str:
    """Format JSON; lines after the first are indented for `level`."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text.replace("\n", "\n" + indent * level)


def _nested(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _expected(tree: Any, path: Sequence[str], value: Any) -> Any:
    wanted = copy.deepcopy(tree)
    here = wanted
    for name in path[:-1]:
        if not isinstance(here, dict):
            break
        here = here.setdefault(name, {})
    if not isinstance(here, dict):
        raise CannotMerge(f"{'.'.join(path[:-1]) or 'it'} is there, but is no object")
    here[path[-1]] = value
    return wanted


def _edited(text: str, root: _Node, path: Sequence[str], value: Any) -> str:
    node, indent = root, _indent(text, root)
    for level, name in enumerate(path):
        assert node.members is not None
        if name in node.repeated:
            raise CannotMerge(f"{name!r} stands in it twice")
        if name not in node.members:
            return _with_member(text, node, name, _nested(path[level + 1 :], value), indent, level)
        node = node.members[name]
    return text[: node.start] + dumps(value, indent, len(path)) + text[node.end :]


def _indent(text: str, root: _Node) -> str:
    found = re.compile(r'\{[^\n"]*\n([ \t]+)"').search(text, root.start)
    return found[1] if found else "  "


def _with_member(text: str, node: _Node, name: str, value: Any, indent: str, level: int) -> str:
    """`text` with a member appended to an object."""
    inner, outer = indent * (level + 1), indent * level
    member = f"{json.dumps(name)}: {dumps(value, indent, level + 1)}"
    members: Mapping[str, _Node] = node.members or {}
    if not members:
        return f"{text[: node.start]}{{\n{inner}{member}\n{outer}}}{text[node.end :]}"
    last = max(inner_node.end for inner_node in members.values())
    after = last if node.comma is None else node.comma + 1
    rest = _REST_OF_LINE.match(text, after)
    line_end = rest.end() if rest else after
    comma = "," if node.comma is None else ""
    trailing = "," if node.comma is not None else ""
    new_line = f"\n{inner}" if "\n" in text[node.start : node.end] else " "
    return (
        f"{text[:after]}{comma}{text[after:line_end]}{new_line}{member}{trailing}{text[line_end:]}"
    )
