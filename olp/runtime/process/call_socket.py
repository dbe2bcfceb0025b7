"""A unix socket on which a CLI asks: one question a connection, a line each way.

It lies in the private folder of the process, where nobody else can reach it. An answer may come
long after the question.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one question."""


class CallSocket:
    """One process's. `on_line` gets each question with the number of its connection."""

    def __init__(self, path: Path, on_line: Callable[[int, str], None]) -> None:
        self._path = path
        self._on_line = on_line
        self._server: asyncio.Server | None = None
        self._open: dict[int, asyncio.StreamWriter] = {}
        self._count = 0

    async def open(self) -> None:
        """Listen; OSError if that is not possible, as with too long a path."""
        self._server = await asyncio.start_unix_server(
            self._connected, str(self._path), limit=MAX_LINE
        )
        self._path.chmod(0o600)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        number = self._count
        self._open[number] = writer
        with contextlib.suppress(ConnectionError, ValueError):
            line = await reader.readline()
            if line.endswith(b"\n"):
                self._on_line(number, line.decode("utf-8", "replace"))
                await reader.read()  # until the other side hangs up
        self._open.pop(number, None)
        writer.close()

    def answer(self, number: int, data: bytes) -> None:
        """Answer a question, if it is still waited for."""
        writer = self._open.pop(number, None)
        if writer is not None and not writer.is_closing():
            writer.write(data)
            writer.write_eof()

    def close(self) -> None:
        """Hang up, and listen no more."""
        for writer in self._open.values():
            writer.close()
        self._open.clear()
        if self._server is not None:
            self._server.close()
