"""Who may hold a connection, and for how long without saying anything.

The HTTP library waits for ever for the rest of a request's head, and takes as many connections as
the system has descriptors for. Three hundred sockets that each send half a line would be the end of
a server. So a connection has some seconds for its first head, and there are limits on how many
there may be, from one address and in all.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from collections import Counter
from collections.abc import Callable
from typing import cast

from aiohttp import web

HEAD_S = 20.0
"""Seconds from the connection to the end of its first request's head."""

ALL_LIMIT = 1024
"""Connections at one time; fewer where the system has few descriptors, of which CLIs need some."""

SHARE = 4
"""One address may have this part of them: a fourth. This machine itself may have all."""

_END = b"\r\n\r\n"


class Doors:
    """The connections of one server."""

    def __init__(self, limit: int | None = None, head_s: float = HEAD_S) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.limit = limit or min(ALL_LIMIT, max(16, soft // 2))
        self.head_s = head_s
        self.count = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Whether one more connection from `address` is let in; if so, it is counted."""
        if self.count >= self.limit:
            return False
        if not _is_here(address) and self._by_address[address] >= self.limit // SHARE:
            return False
        self.count += 1
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """A connection that was let in is over."""
        self.count -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def around(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """What makes the protocols of connections, with a door before each."""
        return lambda: _Door(self, make())


class _Door(asyncio.Protocol):
    """One connection: everything goes to the protocol behind it, once it is let in."""

    def __init__(self, doors: Doors, inner: asyncio.Protocol) -> None:
        self._doors = doors
        self._inner = inner
        self._address: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        address = _network(transport.get_extra_info("peername"))
        stream = cast("asyncio.Transport", transport)
        if not self._doors.enter(address):
            stream.abort()
            return
        self._address = address
        self._timer = asyncio.get_running_loop().call_later(self._doors.head_s, stream.abort)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._address is None:
            return
        if self._timer is not None and _END in self._tail + data:
            self._timer.cancel()
            self._timer = None
        self._tail = (self._tail + data)[-len(_END) + 1 :] if self._timer else b""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._address is not None else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._address is not None:
            self._doors.leave(self._address)
            self._inner.connection_lost(exc)


class GuardedRunner(web.AppRunner):
    """An application's runner whose connections come through doors."""

    doors: Doors

    @property
    def server(self) -> web.Server | None:
        """What a site makes its connections with."""
        inner = super().server
        if inner is None:
            return None
        return cast("web.Server", self.doors.around(inner))


def _network(peer: object) -> str:
    """The address that counts for a connection: of IPv6, the network that one household has."""
    text = str(peer[0]) if isinstance(peer, tuple) and peer else "local"
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if address.version == 4:
        return text
    return str(ipaddress.ip_network(f"{address.compressed.partition('%')[0]}/64", strict=False))


def _is_here(address: str) -> bool:
    try:
        return ipaddress.ip_network(address).is_loopback
    except ValueError:
        return True
