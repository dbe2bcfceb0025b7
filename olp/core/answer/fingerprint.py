"""Canonical bytes of requests and turns, for hashing."""

from __future__ import annotations

import msgspec


def stamp(*values: object, media: bool = False) -> bytes:
    """Return bytes that are equal exactly for equal values: dataclasses, tuples, mappings and plain
    values. Set `media` if they contain images, of which only the digest is used."""
    if not media:
        try:
            return msgspec.json.encode(values)
        except (ValueError, TypeError, OverflowError):
            pass  # e.g. a lone surrogate, or a number of 30 digits
    return repr(values).encode("utf-8", "replace")
