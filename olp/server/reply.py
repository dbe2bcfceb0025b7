"""One response being made: its request id, its clock, and its headers."""

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
    """What all responses to one HTTP request share. `dialect` words its errors; `model` is the one
    asked for, once known; `begun` says that the first byte of a response is about to go out."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.id = f"{random.getrandbits(64):016x}"  # no secret, and no call of the system
        self.model = ""
        self.begun = False
        self._began = asyncio.get_running_loop().time()

    def stamp(self, response: web.StreamResponse) -> None:
        """Put on the headers that every response has, as far as it lacks them."""
        self.begun = True
        for name, value in headers.early(self.model).items():
            response.headers.setdefault(name, value)
        spent = asyncio.get_running_loop().time() - self._began
        response.headers[headers.LATENCY] = str(round(spent * 1000))
        response.headers[headers.REQUEST_ID] = self.id
        response.headers[headers.VENDORS_REQUEST_ID] = self.id

    def error(self, error: RequestError) -> web.Response:
        """The response for a request that asks no provider."""
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
