"""What tells two requests, or two turns of a conversation, from one another: bytes to be hashed."""

from __future__ import annotations

import msgspec


def stamp(*values: object) -> bytes:
    """Bytes that equal values have in common and others do not. They are of dataclasses, tuples,
    mappings and plain values, and hold all of an image's data: see `stamp_of_media`."""
    try:
        return msgspec.json.encode(values)
    except (ValueError, TypeError, OverflowError):  # half a surrogate pair, a number of 30 digits
        return stamp_of_media(*values)


def stamp_of_media(*values: object) -> bytes:
    """The same for values with images in them, of which only the digest goes in."""
    return repr(values).encode("utf-8", "replace")
