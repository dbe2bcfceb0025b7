"""Server-sent events with faults: the part of a streaming answer that is alike at all vendors.

Slow, stalled, broken and cut streams are what a proxy must survive, and each has to strike at a
known delta. Keeping the pacing here leaves only wire formats in the vendor modules.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiohttp import web

from .scenario import CUT_AFTER, Scenario

FOREVER = 24 * 3600.0
CUT_PAUSE = 0.2  # so that the client has read the deltas; a reset can overtake them

_GARBAGE = '{"id": "garbage", "choices": [{"delta": {"content": '
_BLOCK_PAGE = """\
<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title>
<meta http-equiv="refresh" content="360"></head><body><h2>Checking your browser</h2>
<noscript>Enable JavaScript and cookies to continue</noscript></body></html>
"""


class MidStreamError(Exception):
    """The scenario wants the vendor's error event now."""


class Cut(Exception):
    """The scenario wants the connection dropped now."""


class Reset(Exception):
    """The scenario wants the connection reset, without a byte of an answer."""


class Sse:
    """One event stream to one client."""

    def __init__(self, request: web.Request, pace_s: float = 0.0) -> None:
        self.pace_s = pace_s
        self._request = request
        self._response = web.StreamResponse()

    async def open(self, headers: Mapping[str, str]) -> None:
        self._response.headers.update({"content-type": "text/event-stream", **headers})
        await self._response.prepare(self._request)

    async def send(self, data: Mapping[str, Any] | str, event: str | None = None) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        head = f"event: {event}\n" if event else ""
        await self.write(f"{head}data: {text}\n\n")

    async def write(self, text: str) -> None:
        await self._response.write(text.encode())

    async def close(self) -> web.StreamResponse:
        await self._response.write_eof()
        return self._response


async def paced(
    sse: Sse, scenario: Scenario, pieces: tuple[str, ...], event: str | None = None
) -> AsyncIterator[str]:
    """Hand out the deltas, striking where the scenario says; `event` is what a delta is sent as."""
    at = int(scenario.number(3 if scenario.name == "HANG_AT" else CUT_AFTER))
    for count, piece in enumerate(pieces):
        if count == at:
            await _strike(sse, scenario, event)
        yield piece
        await asyncio.sleep(scenario.number(0.5) if scenario.name == "SLOW" else sse.pace_s)


async def _strike(sse: Sse, scenario: Scenario, event: str | None) -> None:
    if scenario.name == "HANG_AT":
        await asyncio.sleep(FOREVER)
    if scenario.name == "MIDERR":
        raise MidStreamError
    if scenario.name == "DROP":
        await asyncio.sleep(CUT_PAUSE)
        raise Cut
    if scenario.name == "GARBAGE":
        await sse.send(_GARBAGE, event)


async def linger(scenario: Scenario) -> None:
    """TAIL: all is said, and the stream's end takes its time."""
    await asyncio.sleep(scenario.tail_s)


async def hang_if(scenario: Scenario) -> None:
    """HANG, LATE: the head is out, and then nothing comes for ever, or for a while."""
    if scenario.name == "HANG":
        await asyncio.sleep(FOREVER)
    if scenario.name == "LATE":
        await asyncio.sleep(scenario.number(0))


async def before_head(request: web.Request, scenario: Scenario) -> web.Response | None:
    """What has no vendor's own form: RESET and SILENT never answer, EMPTY:status has no body, and
    BLOCKED:status is the page of something that stands before the vendor. FRESH:words:name:text is
    LONG:words:name, but rejects a request with that text in it."""
    if scenario.name == "SILENT":
        await asyncio.sleep(FOREVER)
    if scenario.name == "RESET":
        raise Reset
    if scenario.name == "EMPTY":
        return web.Response(status=int(scenario.number(504)))
    if scenario.name == "BLOCKED":
        status = int(scenario.number(403))
        return web.Response(status=status, text=_BLOCK_PAGE, content_type="text/html")
    if scenario.name == "FRESH" and scenario.word(2) in await request.text():
        error = {"type": "invalid_request_error", "message": "the answer may not be begun for me"}
        return web.json_response({"type": "error", "error": error}, status=400)
    return None


def reset(request: web.Request) -> None:
    """End the connection with a TCP reset."""
    if request.transport is not None:
        sock = request.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
