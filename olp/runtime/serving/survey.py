"""Queries the CLIs for their models and the remaining quota of each plan. Costs no quota.

The first survey runs shortly after the start, so that it does not delay it. Providers whose plan
has a threshold are surveyed again every few minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from olp.core.scrub import scrub
from olp.events import Done, ErrorCode, Event, Failed, Keep, Listed, Quota, Window
from olp.runtime.process.fleet import Fleet
from olp.runtime.process.worker import Worker
from olp.runtime.tasks import together

TIME_LIMIT_S = 20.0
"""Timeout in seconds for the survey of one CLI."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The result for one CLI. `contexts` are (model, tokens) pairs; `problem` is the error, if the
    survey failed."""

    models: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    problem: str | None = None
    contexts: tuple[tuple[str, int], ...] = ()


async def survey(fleet: Fleet, provider: str, clock: Callable[[], float]) -> Surveyed:
    """Run every survey that the provider supports."""
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
                    case Quota(surveyed):
                        windows += surveyed
                    case Keep(name, data):
                        fleet.keep(provider, name, data)
                    case Failed(detail=detail):
                        problem = scrub(detail)
    return Surveyed(models, windows, problem, contexts)


async def _events(worker: Worker, until: float) -> list[Event]:
    """All events up to the final one, or to a failure at `until` (monotonic seconds)."""
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
    """Survey several CLIs at once. `over` is called with each name when its survey ends, whatever
    the result, unless it is cancelled."""

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

    surveyed = await together([ask(name) for name in providers])
    return dict(zip(providers, surveyed, strict=True))
