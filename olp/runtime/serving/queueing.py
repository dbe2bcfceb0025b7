"""Waits in the queue for a slot when every hop that could answer is full."""

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
    """A permit for the first of the `full` hops with a free slot at this person's turn; None after
    `seconds`, or when `full` is empty.

    `enter` returns a permit or None. `full` is called again after each attempt, since a hop may
    turn out to be on hold or to have an open circuit. Cancellation leaves the queue.
    """
    woken = asyncio.Event()
    woken.set()
    ticket = queue.join({hop.provider for hop in full()}, person, woken.set)
    permit = None
    try:
        async with asyncio.timeout(seconds):
            while permit is None and (hops := full()):
                queue.narrow(ticket, {hop.provider for hop in hops})
                await woken.wait()
                woken.clear()
                mine = (hop for hop in hops if queue.first(hop.provider) is ticket)
                permit = next((found for hop in mine if (found := enter(hop))), None)
    except TimeoutError:
        pass
    finally:
        # No await between taking a slot and this line, so that cancellation cannot leak a slot.
        queue.leave(ticket, served=permit is not None)
    return permit
