"""Lines of JSON, as the CLIs write and read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec


def line_of(message: Mapping[str, Any]) -> bytes:
    """`message` as one line of JSON. U+2028 and U+2029, which Node treats as line ends, are
    escaped.
    """
    try:
        text = msgspec.json.encode(message)
    except (ValueError, OverflowError):  # a lone surrogate, or an integer of more than 64 bits
        text = json.dumps(message).encode()
    if b"\xe2\x80" in text:
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text + b"\n"


def whole(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD, as strict parsers reject them."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_line(line: str) -> dict[str, Any]:
    """A line of JSON as a dict; empty for anything else, which is no error: a CLI may print other
    lines between its events.
    """
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        value = _lenient(line)
    return value if isinstance(value, dict) else {}


def _lenient(line: str) -> Any:
    """Parse what msgspec rejects, such as lone surrogates and NaN."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


# --- fields written by a CLI: neither type nor range can be relied on
# ---------------------------

_MOST = 10**12
"""Larger than any real count, price or percentage, and small enough for the usage store to keep and
sum.
"""

_YEAR_3000 = 32_503_680_000


def count(value: object) -> int:
    """A number of tokens or the like; 0 for anything else (another type, a fraction, negative, too
    large).
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= _MOST and value == int(value) else 0


def number(value: object) -> float | None:
    """A finite number of plausible size; None for anything else, including strings and booleans."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_MOST <= value <= _MOST else None


def moment(value: object) -> float | None:
    """A time in epoch seconds up to the year 3000; None for anything else."""
    at = number(value)
    return at if at is not None and 0 < at < _YEAR_3000 else None


def text(value: object) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def table(value: object) -> dict[str, Any]:
    """A dict; empty for anything else."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[dict[str, Any]]:
    """The dicts in a list; empty for anything else."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


# --- JSON written by a model
# ---------------------------------------------------------------------


def is_json(text: str) -> bool:
    """Whether `text` is JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_cut(text: str) -> bool:
    """Whether `text` is the beginning of a JSON document that was cut off."""
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        return fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated string")
    except RecursionError:
        return False
    return False
