"""Asks the CLIs about themselves: their models, and what is left of each plan. It costs no quota.

The first survey runs a moment after the server has started, so that it never delays it. Where a
threshold looks at a plan's windows, the plan is asked again every few minutes while it is in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from olp.events import Failed, Listed, Quota, Window
from olp.runtime.fleet import Fleet

TIME_LIMIT_S = 20.0
"""Seconds that a CLI may take to tell about itself."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one CLI told. `trouble` is why it told nothing, if it did not."""

    models: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    trouble: str | None = None


async def survey(fleet: Fleet, provider: str, clock: Callable[[], float]) -> Surveyed | None:
    """Ask one CLI; None if it has no way of telling."""
    surveyor = fleet.surveyor(provider)
    if surveyor is None:
        return None
    models: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    until = clock() + TIME_LIMIT_S
    async with surveyor as worker:
        while events := await worker.events(until):
            for event in events:
                match event:
                    case Listed(names):
                        models = names
                    case Quota(told):
                        windows += told
                    case Failed(detail=detail):
                        return Surveyed(models, windows, detail)
                    case _:
                        return Surveyed(models, windows)
    return Surveyed(models, windows, f"no answer within {TIME_LIMIT_S:.0f} s")


async def survey_all(
    fleet: Fleet, providers: Sequence[str], clock: Callable[[], float]
) -> Mapping[str, Surveyed]:
    """Ask several CLIs at the same time; those that cannot tell are left out."""
    told = await asyncio.gather(*(survey(fleet, name, clock) for name in providers))
    return {name: one for name, one in zip(providers, told, strict=True) if one is not None}
