"""Lines of JSON, as the CLIs write and read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec


def line_of(message: Mapping[str, Any]) -> bytes:
    """`message` as one line. Node takes two more characters for the end of a line, so they are
    written as escapes."""
    try:
        text = msgspec.json.encode(message)
    except (ValueError, OverflowError):  # half a surrogate pair, a number of 30 digits
        text = json.dumps(message).encode()
    if b"\xe2\x80" in text:
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text + b"\n"


def whole(text: str) -> str:
    """`text` with U+FFFD for half a surrogate pair, which a stricter reader refuses."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_line(line: str) -> dict[str, Any]:
    """A line of JSON as an object; an empty one for anything else, which is no error: a CLI may
    print what it likes between its events."""
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        value = _lenient(line)
    return value if isinstance(value, dict) else {}


def _lenient(line: str) -> Any:
    """What the quicker reader refuses: half a surrogate pair, say, or a number like NaN."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


# --- fields that a CLI fills: its word is no promise of a type or a range ------------------------

_MOST = 10**12
"""Above every count, price and percentage that a CLI has reason to tell, and within what the book
can keep and add up."""

_YEAR_3000 = 32_503_680_000


def count(value: object) -> int:
    """A number of tokens or the like; 0 for what is none (another type, a fraction, below zero,
    beyond all bounds)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= _MOST and value == int(value) else 0


def number(value: object) -> float | None:
    """A finite number of a sensible size; None for anything else, text and truth values too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_MOST <= value <= _MOST else None


def moment(value: object) -> float | None:
    """A time in epoch seconds that a calendar can show; None for anything else."""
    at = number(value)
    return at if at is not None and 0 < at < _YEAR_3000 else None


def text(value: object) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def table(value: object) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[dict[str, Any]]:
    """The objects of a list; none for anything else."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


# --- JSON that a model writes --------------------------------------------------------------------


def is_json(text: str) -> bool:
    """Whether `text` is JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_cut(text: str) -> bool:
    """Whether `text` is JSON as far as it goes, and ends too early."""
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        return fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated string")
    except RecursionError:
        return False
    return False
