"""Who may hold a connection.

The HTTP library takes as many connections as the system has descriptors for. Three hundred sockets
that each send half a line would be the end of a server. So there are limits on how many there may
be, from one address and in all; where no more fit, the one goes from which nothing has come for
longest. How long each may say nothing is told in `connection.py`.
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

from olp.runtime.tasks import Tasks
from olp.server.connection import Connection

HEAD_S = 20.0
"""Seconds in which the head of a request has to come, and a handshake of TLS."""

IDLE_S = 75.0
"""Seconds that a connection may wait for its next request."""

ALL_LIMIT = 1024
"""Connections at one time; fewer where the system has few descriptors, of which CLIs need some."""

SHARE = 4
"""One address may have this part of them: a fourth."""


class Guest(Protocol):
    """A connection, as far as the doors look at it."""

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn to say something."""

    def turn_out(self) -> None:
        """End it at once."""


class Doors:
    """The connections of one server. `limit` bounds them; times are in seconds."""

    def __init__(
        self, limit: int | None = None, head_s: float = HEAD_S, idle_s: float = IDLE_S
    ) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.limit = limit or min(ALL_LIMIT, max(16, soft // 2))
        self.head_s = head_s
        self.idle_s = idle_s
        self._inside: dict[Guest, str] = {}
        self._by_address: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many are in."""
        return len(self._inside)

    def enter(self, guest: Guest, peer: object) -> bool:
        """Whether `guest`, who comes from `peer`, is let in; if so, it is counted."""
        address = network(peer)
        if self._has_its_share(address):
            self._make_room(address)
        elif self.count >= self.limit:
            self._make_room()
        if self._has_its_share(address) or self.count >= self.limit:
            return False
        self._inside[guest] = address
        self._by_address[address] += 1
        return True

    def _has_its_share(self, address: str) -> bool:
        return self._by_address[address] >= max(1, self.limit // SHARE)

    def _make_room(self, address: str | None = None) -> None:
        """Turn out who has said nothing for longest, of `address` if that is given."""
        for guest, whose in self._inside.items():
            if guest.waits and address in (None, whose):
                self.leave(guest)
                guest.turn_out()
                return

    def waits(self, guest: Guest) -> None:
        """It is the client's turn again from now on."""
        if (address := self._inside.pop(guest, None)) is not None:
            self._inside[guest] = address

    def leave(self, guest: Guest) -> None:
        """A connection is over; nothing if it was not in."""
        address = self._inside.pop(guest, None)
        if address is not None:
            self._by_address -= Counter((address,))


class _Handshake(asyncio.Protocol):
    """A connection before its TLS handshake is done. What comes right behind that is handed on."""

    waits = True

    def __init__(
        self, doors: Doors, context: ssl.SSLContext, make: Callable[[], Connection], tasks: Tasks
    ) -> None:
        self._doors = doors
        self._context = context
        self._make = make
        self._tasks = tasks
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def turn_out(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = self._transport = cast("asyncio.Transport", transport)
        stream.pause_reading()  # until it is known who reads
        if self._doors.enter(self, stream.get_extra_info("peername")):
            self._tasks.spawn(self._shake_hands(stream), "handshake")
        else:
            stream.abort()

    async def _shake_hands(self, stream: asyncio.Transport) -> None:
        try:
            upgraded = await asyncio.get_running_loop().start_tls(
                stream,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._doors.head_s,
            )
        except OSError:  # those of TLS are such, and the timeout
            return
        finally:
            self._doors.leave(self)
        if upgraded is None or stream.is_closing():
            return
        connection = self._make()
        upgraded.set_protocol(connection)
        connection.connection_made(upgraded)
        for data in self._early:
            connection.data_received(data)

    def data_received(self, data: bytes) -> None:
        self._early.append(data)


class GuardedRunner(web.AppRunner):
    """An application's runner whose connections come through `doors`. With `context` they speak
    TLS."""

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
        """What a site makes its connections with."""
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
    """The address that counts for a connection: of IPv6, the network that one household has."""
    text = str(peer[0]) if isinstance(peer, tuple) and peer else "local"
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if address.version == 4:
        return text
    return str(ipaddress.ip_network(f"{address.compressed.partition('%')[0]}/64", strict=False))
