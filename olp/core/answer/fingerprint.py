"""Canonical bytes of requests and turns, for hashing."""

from __future__ import annotations

import msgspec


def stamp(*values: object, media: bool = False) -> bytes:
    """Bytes that equal values have in common and others do not. They are of dataclasses, tuples,
    mappings and plain values; with `media`, of whose images only the digest goes in."""
    if not media:
        try:
            return msgspec.json.encode(values)
        except (ValueError, TypeError, OverflowError):
            pass  # half a surrogate pair, a number of 30 digits
    return repr(values).encode("utf-8", "replace")
