"""Delays answers to wrong keys, by client address.

A correct key is checked first and never delayed, so nobody is locked out by others behind the same
address. Delays for wrong keys grow. Both the addresses remembered and the answers held back are
limited in number.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from olp.errors import RequestError

FREE = 5
"""Wrong keys that are not delayed: a client with an old key retries a few times."""

FIRST_S, LONGEST_S = 0.1, 3.0
"""Seconds of the first delay, doubled each time, and the longest."""

FORGOTTEN_S = 600.0
"""Seconds without a wrong key after which an address is forgotten."""

ADDRESSES = 1024
"""The most addresses remembered."""

HELD_PER_ADDRESS, HELD = 16, 256
"""The most answers held back at a time; beyond that the answer is an immediate 429."""


@dataclass(slots=True)
class _Guesses:
    wrong: int = 0
    last_at: float = 0.0
    held: int = 0


class Throttle:
    """Counts wrong keys per address. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, _Guesses] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self._known)

    def wrong(self, address: str) -> int:
        """Record a wrong key from `address`; returns their number."""
        guesses = self._guesses(_network(address))
        if self._clock() - guesses.last_at > FORGOTTEN_S:
            guesses.wrong = 0
        guesses.wrong += 1
        guesses.last_at = self._clock()
        return guesses.wrong

    def delay(self, address: str) -> float:
        """Seconds that the answer to the last wrong key is to be delayed."""
        over = self._guesses(_network(address)).wrong - FREE
        return min(FIRST_S * 2.0 ** min(over - 1, 30), LONGEST_S) if over > 0 else 0.0

    async def hold(self, address: str) -> None:
        """Sleep for `delay(address)`. Raises RequestError (429) if too many wait already."""
        seconds = self.delay(address)
        if not seconds:
            return
        guesses = self._guesses(_network(address))
        if guesses.held >= HELD_PER_ADDRESS or self._held >= HELD:
            raise RequestError(
                "Too many wrong keys came from this address.",
                status=429,
                code="too_many_attempts",
                headers=(("Retry-After", str(round(LONGEST_S))), ("x-should-retry", "false")),
            )
        guesses.held += 1
        self._held += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            guesses.held -= 1
            self._held -= 1

    def _guesses(self, network: str) -> _Guesses:
        guesses = self._known.setdefault(network, _Guesses())
        self._known.move_to_end(network)
        while len(self._known) > ADDRESSES:
            self._known.popitem(last=False)
        return guesses


def _network(address: str) -> str:
    """The /64 network of an IPv6 address, since one host has all of it."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return address
