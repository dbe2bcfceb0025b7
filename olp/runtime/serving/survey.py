"""Asks the CLIs about themselves: their models, and what is left of each plan. It costs no quota.

The first survey runs a moment after the server has started, so that it never delays it. Where a
threshold looks at a plan's windows, the plan is asked again every few minutes while it is in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from olp.events import Done, ErrorCode, Event, Failed, Keep, Listed, Quota, Window
from olp.runtime.process.fleet import Fleet
from olp.runtime.process.worker import Worker
from olp.runtime.tasks import together

TIME_LIMIT_S = 20.0
"""Seconds that a CLI may take to tell about itself."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one CLI told; `contexts` are the tokens that its models can read. `problem` is why it
    told nothing, if it did not."""

    models: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    problem: str | None = None
    contexts: tuple[tuple[str, int], ...] = ()


async def survey(fleet: Fleet, provider: str, clock: Callable[[], float]) -> Surveyed:
    """Ask one CLI all that it can be asked."""
    models: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    contexts: tuple[tuple[str, int], ...] = ()
    problem = None
    for surveyor in fleet.surveyors(provider):
        async with surveyor as worker:
            for event in await _events(worker, clock() + TIME_LIMIT_S):
                match event:
                    case Listed(names, reads):
                        models += names
                        contexts += reads
                    case Quota(told):
                        windows += told
                    case Keep(name, data):
                        fleet.keep(provider, name, data)
                    case Failed(detail=detail):
                        problem = detail
    return Surveyed(models, windows, problem, contexts)


async def _events(worker: Worker, until: float) -> list[Event]:
    """Everything that it tells, up to its last word or the time limit."""
    events: list[Event] = []
    while not (events and isinstance(events[-1], Done | Failed)):
        more = await worker.events(until)
        if not more:
            return [
                *events,
                Failed(ErrorCode.SPAWN_TIMEOUT, "it did not tell about itself in time"),
            ]
        events += more
    return events


async def survey_all(
    fleet: Fleet,
    providers: Sequence[str],
    clock: Callable[[], float],
    over: Callable[[str], None],
) -> Mapping[str, Surveyed]:
    """Ask several CLIs at the same time. `over` hears of each that was asked, whatever it said."""

    async def ask(name: str) -> Surveyed:
        called_off = False
        try:
            return await survey(fleet, name, clock)
        except asyncio.CancelledError:
            called_off = True
            raise
        finally:
            if not called_off:
                over(name)

    told = await together([ask(name) for name in providers])
    return dict(zip(providers, told, strict=True))
