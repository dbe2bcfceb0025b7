"""Numbers with their nouns, as people write them."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 request`, `1,200 requests`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
