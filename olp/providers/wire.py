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
