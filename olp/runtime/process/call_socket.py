"""A unix socket for tool calls of a CLI: one request per connection, one line each way.

It is in the private folder of the process, which only this user can access. The reply may come long
after the request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

MAX_LINE = 64 * 1024 * 1024
"""Maximum bytes of one request line."""


class CallSocket:
    """The socket of one process. `on_line` gets the connection number and each request line."""

    def __init__(self, path: Path, on_line: Callable[[int, str], None]) -> None:
        self._path = path
        self._on_line = on_line
        self._server: asyncio.Server | None = None
        self._open: dict[int, asyncio.StreamWriter] = {}
        self._count = 0

    async def open(self) -> None:
        """Listen. Raises OSError, e.g. for too long a path."""
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
                await reader.read()  # until the peer disconnects
        self._open.pop(number, None)
        writer.close()

    def answer(self, number: int, data: bytes) -> None:
        """Reply to a request, if its connection is still open."""
        writer = self._open.pop(number, None)
        if writer is not None and not writer.is_closing():
            writer.write(data)
            writer.write_eof()

    def close(self) -> None:
        """Close all connections and the listener."""
        for writer in self._open.values():
            writer.close()
        self._open.clear()
        if self._server is not None:
            self._server.close()
