"""Waits for a slot in turn, where the owner allows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from olp.core.books import Pass
from olp.core.queue import Queue
from olp.events import Failed, Trouble


async def in_turn(
    queue: Queue,
    provider: str,
    person: str,
    enter: Callable[[], Pass | Failed],
    seconds: float,
) -> Pass | Failed:
    """What `enter` gives as soon as it is this person's turn and a slot is free; its refusal after
    so many seconds. Whatever else it says ends the waiting. Whoever is cancelled gives up the
    place."""
    if not queue.waiting(provider):
        right = enter()
        if not _full(right):
            return right
    free = asyncio.Event()
    free.set()
    ticket = queue.join(provider, person, free.set)
    served = False
    try:
        async with asyncio.timeout(seconds):
            while True:
                await free.wait()
                free.clear()
                if queue.first(provider) is ticket and not _full(right := enter()):
                    served = isinstance(right, Pass)
                    return right
    except TimeoutError:
        full = f"no free slot after {seconds:g} s in line: providerName={provider}"
        return Failed(Trouble.CONCURRENCY_LIMIT, full)
    finally:
        # Nothing is waited for between the taking of a slot and this line, so that whoever is
        # cancelled has none.
        queue.leave(ticket, served=served)


def _full(right: Pass | Failed) -> bool:
    return isinstance(right, Failed) and right.trouble is Trouble.CONCURRENCY_LIMIT
