"""Response state of one HTTP request: its id, its start time, and common headers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from olp.dialects.base import Dialect
from olp.errors import RequestError
from olp.server import headers

JSON = "application/json"


class Reply:
    """State shared by all responses to one HTTP request.

    `dialect` formats its errors; `model` is the requested one, once known; `begun` says that a
    response is about to be sent.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        # need not be secret, and this avoids a system call
        self.id = f"{random.getrandbits(64):016x}"
        self.model = ""
        self.begun = False
        self._started_at = asyncio.get_running_loop().time()

    def stamp(self, response: web.StreamResponse) -> None:
        """Add the headers that every response has, where they are missing."""
        self.begun = True
        for name, value in headers.early(self.model).items():
            response.headers.setdefault(name, value)
        spent = asyncio.get_running_loop().time() - self._started_at
        response.headers[headers.LATENCY] = str(round(spent * 1000))
        response.headers[headers.REQUEST_ID] = self.id
        response.headers[headers.VENDORS_REQUEST_ID] = self.id

    def error(self, error: RequestError) -> web.Response:
        """The response for a request that was not sent to any provider."""
        body = self.dialect.error(error)
        response = web.Response(body=body, status=error.status, content_type=JSON)
        response.headers.update(dict(error.headers))
        return response


REPLY = web.RequestKey("reply", Reply)


def json_response(
    data: Any, status: int = 200, more: Mapping[str, str] | None = None
) -> web.Response:
    """`data` as a JSON response."""
    return web.Response(
        body=msgspec.json.encode(data), status=status, content_type=JSON, headers=more
    )
