"""Slows down whoever guesses keys, by the address they come from.

A right key is looked at first and never waits, so nobody is locked out by a neighbour behind the
same address. A wrong one is answered later and later. What is remembered is bounded: addresses, and
answers that are being held back.
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
"""Wrong keys that cost no time: a client with an old key tries a few times."""

FIRST_S, LONGEST_S = 0.1, 3.0
"""The wait after the first that is not free, doubled each time, and its end."""

FORGOTTEN_S = 600.0
"""Seconds without a wrong key after which an address has a clean sheet."""

ADDRESSES = 1024
"""Addresses that are remembered, the last ones."""

HELD_PER_ADDRESS, HELD = 16, 256
"""Answers held back at one time; whoever asks for more is answered at once, with a 429."""


@dataclass(slots=True)
class _Guesses:
    wrong: int = 0
    last_at: float = 0.0
    held: int = 0


class Throttle:
    """`clock` is steady, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, _Guesses] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self._known)

    def wrong(self, address: str) -> int:
        """One more wrong key came from `address`; how many that makes."""
        guesses = self._guesses(_network(address))
        if self._clock() - guesses.last_at > FORGOTTEN_S:
            guesses.wrong = 0
        guesses.wrong += 1
        guesses.last_at = self._clock()
        return guesses.wrong

    def delay(self, address: str) -> float:
        """Seconds that the answer to the last wrong key is held back."""
        over = self._guesses(_network(address)).wrong - FREE
        return min(FIRST_S * 2.0 ** min(over - 1, 30), LONGEST_S) if over > 0 else 0.0

    async def hold(self, address: str) -> None:
        """Wait as long as that; RequestError 429 at once if too many wait already."""
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
    """An IPv6 host has a whole /64 to come from."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return address
