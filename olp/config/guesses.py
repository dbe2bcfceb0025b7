"""Guesses what was meant by a line that is not valid TOML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_CURLY = str.maketrans({**dict.fromkeys("“”„‟«»″＂", '"'), **dict.fromkeys("‘’‚‛′＇`´", "'")})
_ODD_SPACES = re.compile(
    "[\u00a0\u00ad\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]"
)
_KEY_IS = r"^(\s*[\w.\"-]+\s*=\s*)"
"""A key and its equals sign at the beginning of a line."""

_WORDS = re.compile(_KEY_IS + r"(true|false)(\s*(?:#.*)?)$", re.I)
_SWITCH = re.compile(_KEY_IS + r"(yes|no|on|off)(\s*(?:#.*)?)$", re.I)
_NUMBER = re.compile(_KEY_IS + r"([+-]?\d+(?:\.\d+)?)\s*(%|[A-Za-zµ]+)(\s*(?:#.*)?)$")
_COMMA = re.compile(r"^(\s*[\w.\"-]+\s*=\s*\d+),(\d+)(\s*(?:#.*)?)$")
_ZEROS = re.compile(_KEY_IS + r"0+(\d+)(\s*(?:#.*)?)$")
_END = re.compile(r"^(\s*[\w.\"-]+\s*=.*?)\s*[,;]+(\s*(?:#.*)?)$")
_COLON = re.compile(r"^(\s*[\w.\"-]+)\s*:\s*(\S.*)$")
_TITLE = re.compile(r"^\s*([\w.-]+)\s*:\s*(#.*)?$")
_BARE = re.compile(_KEY_IS + r"([^\s\"'“”„‘’\[{#=,][^\"'#\[\]{}]*?)(\s*(?:#.*)?)$")
_LIST = re.compile(_KEY_IS + r"((?:\"[^\"]*\"|'[^']*')\s*(?:[,>]\s*(?:\"[^\"]*\"|'[^']*')\s*)+)$")
_ITEMS = re.compile(r"^(\s*(?:[\w.\"-]+\s*=\s*\[|\[)?)([^\[\]#{}=]*?)(\s*,?\s*\]?\s*(?:#.*)?)$")
_PAIR = re.compile(r"(\"[^\"]*\"|'[^']*')(\s+)(?=[\"'])")
_ESCAPE = re.compile(r"\"([^\"']*\\[^\"']*)\"")
_APOSTROPHE = re.compile(_KEY_IS + r"'([^\"]*'[^\"]*)'(\s*(?:#.*)?)$")
_HEADER = re.compile(r"^\s*[\[({<]*\s*([\w-]+(?:\s*[./ ]\s*[\w-]+)*)\s*[\])}>]*\s*:?\s*(#.*)?$")
_BEHIND = re.compile(r"^(\s*[^\"'#=]+=\s*(?:\"[^\"]*\"|'[^']*'|[^\"'#;\s]+))\s+(?:;|//|--)\s*(.*)$")
_REMARK = re.compile(r"^(\s*)(//|;|--|/\*|!|REM )(.*)$")

Fix = Callable[[str], tuple[str, str] | None]
"""Returns the probably intended line and a message, or None if the fix does not apply."""


def guesses(line: str) -> Iterator[tuple[str, str]]:
    """Candidate fixes for a line: each one alone, then all of them combined."""
    for fix in _FIXES:
        if found := fix(line):
            yield found
    together, messages = line, list[str]()
    for fix in _FIXES:
        if (found := fix(together)) and found[0] != together:
            together = found[0]
            messages.append(found[1])
            yield together, "; ".join(messages)


def _curly(line: str) -> tuple[str, str] | None:
    fixed = line.translate(_CURLY)
    return (fixed, "curly quotes cannot be read, use straight ones") if fixed != line else None


def _spaces(line: str) -> tuple[str, str] | None:
    found = _ODD_SPACES.search(line)
    message = "an invisible character (U+{:04X}) is in this line; type it again"
    return (_ODD_SPACES.sub(" ", line), message.format(ord(found[0]))) if found else None


def _truth(line: str) -> tuple[str, str] | None:
    if found := _WORDS.match(line):
        fixed = found[1] + found[2].lower() + found[3]
        return fixed, "write true and false in lower case"
    if found := _SWITCH.match(line):
        value = "true" if found[2].lower() in ("yes", "on") else "false"
        return found[1] + value + found[3], "write true or false"
    return None


def _number(line: str) -> tuple[str, str] | None:
    if found := _NUMBER.match(line):
        return found[1] + found[2] + found[4], f"write the number alone, without {found[3]}"
    if found := _COMMA.match(line):
        return f"{found[1]}.{found[2]}{found[3]}", "write the fraction with a point"
    if found := _ZEROS.match(line):
        return found[1] + found[2] + found[3], "a number cannot start with 0"
    return None


def _colon(line: str) -> tuple[str, str] | None:
    if found := _TITLE.match(line):
        return f"[{found[1]}]", "the name of a table needs brackets"
    if re.match(r"\s*[\w.\"-]+\s*(?:==|=>|:=)", line):
        return re.sub(r"==|=>|:=", "=", line, count=1), "use = between a key and its value"
    found = _COLON.match(line)
    return (f"{found[1]} = {found[2]}", "use = between a key and its value") if found else None


def _end(line: str) -> tuple[str, str] | None:
    found = _END.match(line)
    return (found[1] + found[2], "nothing may follow a value") if found else None


def _list(line: str) -> tuple[str, str] | None:
    found = _LIST.match(line)
    if not found:
        return None
    return f"{found[1]}[{found[2].strip().replace('>', ',')}]", "a list needs brackets"


def _bare(line: str) -> tuple[str, str] | None:
    found = _BARE.match(line)
    return (f'{found[1]}"{found[2]}"{found[3]}', "text needs quotes") if found else None


def _items(line: str) -> tuple[str, str] | None:
    found = _ITEMS.match(line)
    if not found or not found[2].strip():
        return None
    parts = [part.strip() for part in found[2].split(",")]
    quoted = ", ".join(part if re.match(r"[\"']|$", part) else f'"{part}"' for part in parts)
    return found[1] + quoted + found[3], "each text in a list needs quotes"


def _comma(line: str) -> tuple[str, str] | None:
    if _PAIR.search(line):
        return _PAIR.sub(r"\1, ", line), "a comma is missing between two entries of the list"
    if re.match(r"\s*[\"'].*[\"']\s*,?\s*\]?\s*$", line):
        return f", {line.lstrip()}", "a comma is missing before this entry of the list"
    return None


def _quote(line: str) -> tuple[str, str] | None:
    if found := _APOSTROPHE.match(line):
        return f'{found[1]}"{found[2]}"{found[3]}', "text with ' in it needs double quotes"
    for mark in "\"'":
        if line.count(mark) % 2:
            closed = re.sub(r"(\s*[\],]*\s*)$", rf"{mark}\1", line, count=1)
            closed += "]" * max(0, open_lists(closed))
            return closed, "the quotes are not closed"
    return None


def _backslash(line: str) -> tuple[str, str] | None:
    fixed = _ESCAPE.sub(r"'\1'", line)
    return (fixed, "text with a \\ needs single quotes") if fixed != line else None


def _header(line: str) -> tuple[str, str] | None:
    found = _HEADER.match(line)
    if not found or not re.search(r"[\[\](){}<>]", line):
        return None
    return (
        f"[{'.'.join(re.split(r'[./ ]+', found[1]))}]",
        "the name of a table needs brackets, and dots between its parts",
    )


def _remark(line: str) -> tuple[str, str] | None:
    if behind := _BEHIND.match(line):
        return f"{behind[1]} # {behind[2]}", "a comment starts with #"
    found = _REMARK.match(line)
    return (f"{found[1]}#{found[3]}", "a comment starts with #") if found else None


_FIXES: tuple[Fix, ...] = (
    *(_spaces, _curly, _remark, _header, _truth, _number, _colon, _end, _list),
    *(_bare, _items, _comma, _quote, _backslash),
)
"""In order of precedence: the most reliable fixes come first."""


def open_lists(line: str) -> int:
    """How many lists `line` opens without closing them."""
    bare = re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", line)
    return bare.count("[") - bare.count("]")
