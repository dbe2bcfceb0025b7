"""Connection limits.

aiohttp accepts as many connections as the system has file descriptors; three hundred sockets that
each send half a request line could take a server down. So the number of connections is limited, per
address and in total; at the limit the one that has waited longest for its client is closed. The
timeouts are enforced in `connection.py`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol, cast

from aiohttp import web

from olp.dialects import all_dialects
from olp.runtime.tasks import Tasks
from olp.server.connection import Connection

HEAD_S = 20.0
"""Seconds for a request head, and for a TLS handshake."""

IDLE_S = 75.0
"""Seconds that a connection may wait for its next request."""

ALL_LIMIT = 1024
"""Maximum number of connections; lower if the system has few descriptors, which CLIs need as well.
"""

SHARE = 4
"""One address may use one fourth (1/SHARE) of the connections."""


class Guest(Protocol):
    """What `Doors` needs of a connection."""

    @property
    def waits(self) -> bool:
        """Whether the client has to send something."""

    def turn_out(self) -> None:
        """Abort the connection."""


class Doors:
    """The connections of one server. `limit` is their maximum number; timeouts are in seconds."""

    def __init__(
        self, limit: int | None = None, head_s: float = HEAD_S, idle_s: float = IDLE_S
    ) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.limit = limit or min(ALL_LIMIT, max(16, soft // 2))
        self.head_s = head_s
        self.idle_s = idle_s
        self.dialect = all_dialects()[0]  # formats the errors of what no route was found for
        self._connections: dict[Guest, str] = {}
        self._by_address: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def enter(self, guest: Guest, peer: object) -> bool:
        """Whether the connection `guest` from the address `peer` is accepted; counts it if so."""
        address = network(peer)
        if self._at_share(address):
            self._make_room(address)
        elif self.count >= self.limit:
            self._make_room()
        if self._at_share(address) or self.count >= self.limit:
            return False
        self._connections[guest] = address
        self._by_address[address] += 1
        return True

    def _at_share(self, address: str) -> bool:
        return self._by_address[address] >= max(1, self.limit // SHARE)

    def _make_room(self, address: str | None = None) -> None:
        """Close the connection that has waited longest for its client, of `address` if given."""
        for guest, other in self._connections.items():
            if guest.waits and address in (None, other):
                self.leave(guest)
                guest.turn_out()
                return

    def waits(self, guest: Guest) -> None:
        """The connection waits for its client from now on."""
        if (address := self._connections.pop(guest, None)) is not None:
            self._connections[guest] = address

    def leave(self, guest: Guest) -> None:
        """A connection was closed; ignored if it was not accepted."""
        address = self._connections.pop(guest, None)
        if address is not None:
            self._by_address -= Counter((address,))


class _Handshake(asyncio.Protocol):
    """A connection during its TLS handshake. Data that arrives right after it is passed on."""

    waits = True

    def __init__(
        self, doors: Doors, context: ssl.SSLContext, make: Callable[[], Connection], tasks: Tasks
    ) -> None:
        self._doors = doors
        self._context = context
        self._make = make
        self._tasks = tasks
        self._transport: asyncio.Transport | None = None
        self._buffered: list[bytes] = []

    def turn_out(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = self._transport = cast("asyncio.Transport", transport)
        stream.pause_reading()  # until start_tls has installed its protocol
        if self._doors.enter(self, stream.get_extra_info("peername")):
            self._tasks.spawn(self._handshake(stream), "handshake")
        else:
            stream.abort()

    async def _handshake(self, stream: asyncio.Transport) -> None:
        try:
            upgraded = await asyncio.get_running_loop().start_tls(
                stream,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._doors.head_s,
            )
        except OSError:  # includes TLS errors and timeouts
            return
        finally:
            self._doors.leave(self)
        if upgraded is None or stream.is_closing():
            return
        connection = self._make()
        upgraded.set_protocol(connection)
        connection.connection_made(upgraded)
        for data in self._buffered:
            connection.data_received(data)

    def data_received(self, data: bytes) -> None:
        self._buffered.append(data)


class GuardedRunner(web.AppRunner):
    """An AppRunner whose connections are limited by `doors`, with TLS if `context` is given."""

    def __init__(
        self,
        app: web.Application,
        doors: Doors,
        tasks: Tasks,
        context: ssl.SSLContext | None = None,
        **more: Any,
    ) -> None:
        super().__init__(app, access_log=None, shutdown_timeout=0.1, **more)
        self.doors = doors
        self._tasks = tasks
        self._context = context

    @property
    def server(self) -> web.Server | None:
        """The protocol factory for the sites."""
        inner = super().server
        if inner is None:
            return None
        loop = asyncio.get_running_loop()

        def plain() -> asyncio.Protocol:
            return Connection(inner, self.doors, loop)

        def tls() -> asyncio.Protocol:
            assert self._context is not None
            make = cast("Callable[[], Connection]", plain)
            return _Handshake(self.doors, self._context, make, self._tasks)

        return cast("web.Server", tls if self._context else plain)


def network(peer: object) -> str:
    """The address that limits apply to: the /64 network for IPv6."""
    text = str(peer[0]) if isinstance(peer, tuple) and peer else "local"
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if address.version == 4:
        return text
    return str(ipaddress.ip_network(f"{address.compressed.partition('%')[0]}/64", strict=False))
