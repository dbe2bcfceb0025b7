"""Server-sent events with faults: the part of a streaming answer that is alike at all vendors.

Slow, stalled, broken and cut streams are what a proxy must survive, and each has to strike at a
known delta. Keeping the pacing here leaves only wire formats in the vendor modules.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiohttp import web

from .scenario import CUT_AFTER, Scenario

FOREVER = 24 * 3600.0
CUT_PAUSE = 0.2  # so that the client has read the deltas; a reset can overtake them


class MidStreamError(Exception):
    """The scenario wants the vendor's error event now."""


class Cut(Exception):
    """The scenario wants the connection dropped now."""


class Sse:
    """One event stream to one client."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse()

    async def open(self, headers: Mapping[str, str]) -> None:
        self._response.headers.update({"content-type": "text/event-stream", **headers})
        await self._response.prepare(self._request)

    async def send(self, data: Mapping[str, Any] | str, event: str | None = None) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        head = f"event: {event}\n" if event else ""
        await self._response.write(f"{head}data: {text}\n\n".encode())

    async def close(self) -> web.StreamResponse:
        await self._response.write_eof()
        return self._response


async def paced(scenario: Scenario, pieces: tuple[str, ...]) -> AsyncIterator[str]:
    """Hand out the deltas, striking where the scenario says."""
    stall_at = int(scenario.number(3)) if scenario.name == "HANG_AT" else None
    for count, piece in enumerate(pieces):
        if count == stall_at:
            await asyncio.sleep(FOREVER)
        if count == CUT_AFTER and scenario.name == "MIDERR":
            raise MidStreamError
        if count == CUT_AFTER and scenario.name == "DROP":
            await asyncio.sleep(CUT_PAUSE)
            raise Cut
        yield piece
        if scenario.name == "SLOW":
            await asyncio.sleep(scenario.number(0.5))


async def linger(scenario: Scenario) -> None:
    """TAIL: all is said, and the stream's end takes its time."""
    await asyncio.sleep(scenario.tail_s)


async def hang_if(scenario: Scenario) -> None:
    """HANG: the headers are out, and then nothing ever comes."""
    if scenario.name == "HANG":
        await asyncio.sleep(FOREVER)
