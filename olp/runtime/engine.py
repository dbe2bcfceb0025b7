"""The way of one request along its chain.

`serve` is the whole of it, and reads from top to bottom: the walk says which hop is next, the hop
needs a slot, the slot holds an attempt, and what the attempt brings goes through the shaper and
the walk to the reader. Everything that is decided is decided in `olp.core`; here it is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from olp.core.chains import Chain
from olp.core.shape import Shaper
from olp.core.slots import Slots
from olp.core.vitals import Vitals
from olp.core.walk import Walk
from olp.events import Event, Failed, Output
from olp.model import Hop, Request
from olp.runtime.fleet import Fleet
from olp.runtime.log import Log

Send = Callable[[Sequence[Output]], Awaitable[None]]
"""Takes the outputs of a request in order: an Answering and its events, or one Refused."""


class Engine:
    """Serves requests. `clock` is steady, `wall` is the time in epoch seconds."""

    def __init__(
        self,
        fleet: Fleet,
        slots: Slots,
        vitals: Vitals,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._fleet = fleet
        self.slots = slots
        self._vitals = vitals
        self._clock = clock
        self._wall = wall

    async def serve(self, request: Request, chain: Chain, send: Send, log: Log) -> None:
        """Answer `request` from the first hop of `chain` that can, and tell `send`."""
        walk = Walk(chain, streaming=request.stream, now=self._clock(), clocks=self._fleet.clocks)
        while (hop := walk.next(self._clock())) is not None:
            slot = self.slots.take(hop.provider)
            if isinstance(slot, Failed):
                walk.pass_on(slot, self._clock())
            else:
                with slot:
                    await self._attempt(walk, hop, request, send)
            self._keep_books(walk, log)
        if not walk.answered:
            await send([walk.verdict(self._wall())])
            self._keep_books(walk, log)

    async def _attempt(self, walk: Walk, hop: Hop, request: Request, send: Send) -> None:
        """One hop, once. When this returns, its process is gone."""
        shaper = Shaper(request, enforce_tokens=not self._fleet.keeps_max_tokens(hop))
        async with self._fleet.worker(hop, request) as worker:
            while walk.trying:
                events = await worker.events(until=walk.wake_at)
                out = self._pass_on(walk, shaper, events)
                if out:
                    await send(out)

    def _pass_on(self, walk: Walk, shaper: Shaper, events: Sequence[Event]) -> list[Output]:
        now = self._clock()
        out: list[Output] = []
        for event in events:
            for shaped in shaper.feed(event):
                out += walk.pass_on(shaped, now)
        if walk.trying:
            out += walk.expire(now)
        return out

    def _keep_books(self, walk: Walk, log: Log) -> None:
        for note in walk.notes:
            log.write(note.level, note.event, **note.fields)
        for hop, end in walk.ends:
            self._vitals.note(hop.provider, end, self._clock())
        walk.notes.clear()
        walk.ends.clear()
