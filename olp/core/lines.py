"""Splits a byte stream into lines of text."""

from __future__ import annotations

MAX_LINE = 64 * 1024 * 1024
"""Maximum bytes of a line; a CLI may repeat a whole answer in one."""


class LineTooLong(Exception):
    """A line exceeded the limit; the rest of the stream cannot be read."""


class LineSplitter:
    """Splits chunks into lines. Whole lines are decoded, so a character may be split between
    chunks. Invalid UTF-8 becomes U+FFFD."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that `chunk` completes, without line ends."""
        *whole, rest = chunk.split(b"\n")
        lines = [self._take(piece) for piece in whole]
        self._keep(rest)
        return lines

    def flush(self) -> list[str]:
        """Return the last line, if the stream ended without a line end."""
        return [self._take(b"")] if self._size else []

    def _take(self, piece: bytes) -> str:
        self._keep(piece)
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        return data.removesuffix(b"\r").decode("utf-8", "replace")

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise LineTooLong(f"a line of more than {self._limit} bytes")
        if piece:
            self._parts.append(piece)
