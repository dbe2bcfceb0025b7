"""sd_notify: reports ready, reloading, stopping and watchdog pings to systemd.

One datagram of `NAME=VALUE` lines to NOTIFY_SOCKET; does nothing if that is not set.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Supervisor:
    """The notification socket in `environ`, if any."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._every_s = _watchdog_s(environ) / 2
        self._next: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """The server serves; `status` is shown by `systemctl status`."""
        self._notify("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """The configuration is being reloaded; call `ready` afterwards."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The server accepts no new requests."""
        self._notify("STOPPING=1", "STATUS=letting the running answers end")

    def watch(self) -> None:
        """Send watchdog pings from the event loop, so that systemd restarts a server whose loop
        hangs."""
        if self._every_s:
            self._notify("WATCHDOG=1")
            self._next = asyncio.get_running_loop().call_later(self._every_s, self.watch)

    def unwatch(self) -> None:
        """Stop the pings."""
        if self._next is not None:
            self._next.cancel()

    def _notify(self, *lines: str) -> None:
        if self._address[:1] not in ("/", "@"):
            return
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        # A missing receiver must not stop the server.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            sender.sendto("\n".join(lines).encode(), address)


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """The watchdog timeout in seconds; 0 if there is none for this process."""
    microseconds = environ.get("WATCHDOG_USEC", "")
    meant = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(microseconds) / 1e6 if microseconds.isdecimal() and meant else 0.0
