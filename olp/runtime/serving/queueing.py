"""Waits in line for a slot where all that a request could ask is full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from olp.core.admission.admission import Permit
from olp.core.admission.queue import Queue
from olp.model import Hop


async def in_turn(
    queue: Queue,
    person: str,
    full: Callable[[], Sequence[Hop]],
    enter: Callable[[Hop], Permit | None],
    seconds: float,
) -> Permit | None:
    """The right to ask the first of the `full` hops that has a slot when it is this person's turn;
    None after so many seconds, or when none of them is to be waited for any more.

    `enter` gives the right, or None. `full` is looked at again after each try, since a hop may turn
    out to be held or broken. Whoever is cancelled gives up the place.
    """
    woken = asyncio.Event()
    woken.set()
    ticket = queue.join({hop.provider for hop in full()}, person, woken.set)
    right = None
    try:
        async with asyncio.timeout(seconds):
            while right is None and (hops := full()):
                queue.narrow(ticket, {hop.provider for hop in hops})
                await woken.wait()
                woken.clear()
                mine = (hop for hop in hops if queue.first(hop.provider) is ticket)
                right = next((found for hop in mine if (found := enter(hop))), None)
    except TimeoutError:
        pass
    finally:
        # Nothing is waited for between the taking of a slot and this line, so that whoever is
        # cancelled has none.
        queue.leave(ticket, served=right is not None)
    return right
