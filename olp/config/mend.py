"""Parses TOML tolerantly, with error messages for users.

tomllib stops at the first error and describes it in terms of its grammar. Here each error is looked
at together with its line: likely intended texts are tried, and if parsing gets further with one,
the message suggests it and parsing continues. So all errors are reported at once, and the valid
rest of the file can be used.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from olp.config.guesses import guesses, open_lists
from olp.config.lines import lines_of
from olp.config.problem import shown

MAX_FAULTS = 50
"""The most errors reported for one text."""

_AGAIN = "olp-again-"
"""Prefix of the names under which a repeated table is parsed."""

_KEY = re.compile(r"^\s*([\w.\"-]+)\s*=")


@dataclass(slots=True)
class Mended:
    """The parsed tree. `faults` are pairs of a line number (from 1) and a message."""

    tree: dict[str, Any]
    faults: list[tuple[int, str]] = field(default_factory=list)


def mended(text: str) -> Mended:
    """Parse everything that can be parsed of `text`."""
    lines = lines_of(text)
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return Mended({}, [(1, "this looks like JSON, and the file is TOML: see olp.toml")])
    out = Mended({})
    while len(out.faults) < MAX_FAULTS:
        tree, fault = _parsed(lines)
        if fault is None:
            out.tree = _joined(tree)
            return out
        at, message, repaired = _repair(lines, *fault)
        out.faults.append((at, message))
        if repaired is None:
            break
        lines = repaired
    last = out.faults[-1][0]
    out.tree = _joined(_parsed(lines[: last - 1])[0])
    return out


def _parsed(lines: list[str]) -> tuple[dict[str, Any], tuple[int, str] | None]:
    """The tree; or an empty one, with the line (from 1) and the message of the parser's error."""
    try:
        return tomllib.loads("\n".join(lines) + "\n"), None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        at = min(int(found[1]), len(lines)) if found else len(lines)
        return {}, (max(at, 1), re.sub(r" \(at .*\)$", "", str(error)))
    except RecursionError:
        return {}, (1, "it is nested without end")


# --- a single error ----------------------------------------------------------------------------


def _repair(lines: list[str], at: int, error: str) -> tuple[int, str, list[str] | None]:
    """The line of the error, a message, and repaired lines with which to continue, or None."""
    if found := _unclosed(lines, at, error):
        return found
    if found := _braces(lines, at):
        return found
    line = lines[at - 1]
    for fixed, message in () if error.startswith("Cannot") else guesses(line):
        changed = [*lines[: at - 1], fixed, *lines[at:]]
        if _gets_past(changed, at):
            return at, message if fixed[:1] == "," else shown(message, fixed), changed
    message, instead = _plain(line, error)
    changed = [*lines[: at - 1], instead.format(at), *lines[at:]]
    return at, message, changed if _gets_past(changed, at) else None


def _gets_past(lines: list[str], at: int) -> bool:
    _, fault = _parsed(lines)
    return fault is None or fault[0] > at


def _unclosed(lines: list[str], at: int, error: str) -> tuple[int, str, list[str] | None] | None:
    """A list that was not closed, which the parser notices a line or a file later."""
    begin = next((n for n in range(at, 0, -1) if _KEY.match(lines[n - 1])), 0)
    above = next((n for n in range(at - 1, 0, -1) if _KEY.match(lines[n - 1])), 0)
    for first in (begin, above):
        last = next((n for n in range(at, first, -1) if lines[n - 1].strip()), first)
        if not first or open_lists(lines[first - 1]) <= 0:
            continue
        if _KEY.match(lines[last - 1]) or lines[last - 1].lstrip().startswith("["):
            last = max(last - 1, first) if last > first else first
        fixed = _before_comment(lines[last - 1], "]")
        changed = [*lines[: last - 1], fixed, *lines[last:]]
        if _gets_past(changed, max(at - 1, last)):
            what = "the list that starts here has no ] at its end"
            return first, what, changed
    return None


def _braces(lines: list[str], at: int) -> tuple[int, str, list[str] | None] | None:
    """An inline table that spans several lines."""
    first = next((n for n in range(at, 0, -1) if _KEY.match(lines[n - 1])), at)
    if not re.search(r"=\s*\{[^}]*$", lines[first - 1]):
        return None
    last = next((n for n in range(first, len(lines) + 1) if "}" in lines[n - 1]), first)
    whole = " ".join(line.strip() for line in lines[first - 1 : last])
    whole += "" if last > first else " }"
    changed = [*lines[: first - 1], whole, *([""] * (last - first)), *lines[last:]]
    message = "a table in braces must be on one line: { … }"
    return (first, message, changed) if _gets_past(changed, last) else None


def _before_comment(line: str, more: str) -> str:
    quoted = re.match(r"^((?:\"[^\"]*\"|'[^']*'|[^\"'#])*?)(\s*#.*)?$", line)
    return f"{quoted[1].rstrip()}{more}{quoted[2] or ''}" if quoted else line.rstrip() + more


# --- errors without a fix ----------------------------------------------------------------------


def _plain(line: str, error: str) -> tuple[str, str]:
    """A message, and a line to parse in place of this one."""
    key = _KEY.match(line)
    if error.startswith("Cannot declare"):
        name = line.split("#")[0].strip()
        path = re.sub(r"[\[\]\s]", "", name)
        return f"{name} appears twice: put all its keys under the first one", (
            f'["{_AGAIN}{{}}".{path}]'
        )
    if error.startswith(("Cannot overwrite", "Cannot mutate")) and key:
        return f"{key[1]} is set twice", "#"
    if key and not line.partition("=")[2].split("#")[0].strip():
        return f"{key[1]} has no value", "#"
    if not key and "=" not in line and not line.lstrip().startswith(("[", '"')):
        return "this is neither KEY = VALUE nor the name of a table in brackets", "#"
    if header := re.match(r"\s*(\[[\w.-]+\])\s*[\w\"]", line):
        return f"a key needs a line of its own, below {header[1]}", header[1]
    if error.startswith("Illegal character"):
        return "an invisible character is in this line; type it again", "#"
    message = _IN_OUR_WORDS.get(error.partition(" (")[0], error[:1].lower() + error[1:])
    return message, "#"


_IN_OUR_WORDS = {
    "Invalid value": "this value cannot be read; text needs quotes",
    "Unterminated string": "the quotes are not closed",
    "Unclosed array": "the list is not closed: a ] is missing",
    "Unclosed inline table": "the braces are not closed: a } is missing",
    "Expected newline or end of document after a statement": "nothing may follow a value",
    "Expected '=' after a key in a key/value pair": "use = between a key and its value",
    "Expected ']' at the end of a table declaration": "the name of a table needs brackets: [NAME]",
    "Invalid statement": "this is neither KEY = VALUE nor the name of a table in brackets",
    "Invalid initial character for a key part": "this cannot be a key",
}
"""The parser's messages and their replacements."""


def _joined(tree: dict[str, Any]) -> dict[str, Any]:
    """Merge repeated tables into the first one."""
    again = [tree.pop(name) for name in list(tree) if name.startswith(_AGAIN)]
    for other in again:
        _merge(tree, other)
    return tree


def _merge(tree: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        there = tree.setdefault(key, value)
        if there is not value and isinstance(there, dict) and isinstance(value, dict):
            _merge(there, value)
