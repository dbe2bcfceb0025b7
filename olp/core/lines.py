"""Splits a byte stream into lines of text, for lines of any length and chunks of any border."""

from __future__ import annotations

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one line. A CLI repeats whole answers in a line, but nothing honest is longer."""


class LineTooLong(Exception):
    """A line went beyond the limit; the stream cannot be read any further."""


class LineSplitter:
    """Feed it chunks; it gives whole lines, each decoded as a whole so that a character cut
    between two chunks is not lost. Bytes that are not UTF-8 become U+FFFD."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes, without their line ends."""
        *whole, rest = chunk.split(b"\n")
        lines = [self._take(piece) for piece in whole]
        self._keep(rest)
        return lines

    def flush(self) -> list[str]:
        """The last line, if the stream ended without a line end."""
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
