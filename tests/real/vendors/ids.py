"""Ids of tool calls in the form each vendor gives them.

A client joins results to calls by these ids, so they must look real and differ within an answer;
a test must be able to say them beforehand, so they follow from where in the conversation the call
stands and from nothing else. Two conversations of equal length therefore get equal ids, which
nothing that serves many people may rely on being impossible.
"""

from __future__ import annotations

import string
from hashlib import sha256

_ALPHANUMERIC = string.digits + string.ascii_letters
_HEX = "0123456789abcdef"


def anthropic(length: int, number: int) -> str:
    return "toolu_01" + _token("toolu", length, number, 22)


def openai(length: int, number: int) -> str:
    return "call_" + _token("call", length, number, 24)


def openai_item(length: int, number: int) -> str:
    return "fc_" + _token("fc", length, number, 48, _HEX)


def mistral(length: int, number: int) -> str:
    """Nine letters or digits: Mistral takes no other form back."""
    return _token("mistral", length, number, 9)


def _token(kind: str, length: int, number: int, size: int, letters: str = _ALPHANUMERIC) -> str:
    """``size`` letters, for the ``number``-th call of an answer to so many turns."""
    value = int.from_bytes(sha256(f"{kind}:{length}:{number}".encode()).digest(), "big")
    found = []
    for _ in range(size):
        value, rest = divmod(value, len(letters))
        found.append(letters[rest])
    return "".join(found)
