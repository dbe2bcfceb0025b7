"""One client connection, on top of aiohttp's request handler.

aiohttp waits without limit for the rest of a request head, and for the next request; it cancels a
request whose client has half-closed the connection; and it answers malformed requests with its own
error pages. It has no hook for a parsed head, so its request counter is used.
"""

from __future__ import annotations

import asyncio
import re
from typing import Protocol

from aiohttp import http_exceptions, web
from aiohttp.http import HttpVersion11

from olp.dialects.base import Dialect
from olp.errors import RequestError
from olp.server.reply import Reply

GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
"""An interim response, sent to probe the connection; clients that do not expect it ignore it."""

STALLED_S = 120.0
"""Seconds after which a client that reads nothing is disconnected."""

FIRST_LOOK_S, LAST_LOOK_S = 0.02, 15.0
"""Seconds between probes of a half-closed connection: the first interval, doubled each time up to
the second.
"""


class Doors(Protocol):
    """Limits on connections; implemented by `door.Doors`.

    `head_s` and `idle_s` are timeouts in seconds, for a request head and for the next request;
    `dialect` formats the errors of what is no HTTP request.
    """

    dialect: Dialect

    head_s: float
    idle_s: float

    def enter(self, guest: Connection, peer: object) -> bool:
        """Whether the connection is accepted; counts it if so."""

    def waits(self, guest: Connection) -> None:
        """The connection waits for its client."""

    def leave(self, guest: Connection) -> None:
        """The connection was closed."""


class Connection(web.RequestHandler):
    """One connection of `server`, if `doors` accepts it."""

    def __init__(self, server: web.Server, doors: Doors, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop=loop, access_log=None)  # type: ignore[arg-type]
        self._doors = doors
        self._accepted = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle = False
        self._responses_sent = 0
        self._half_closed = False

    # --- state and timeouts --------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether the client has to send something: a request, or the rest of its body."""
        request = self._current_request
        return not self._response_due or (request is not None and not request.content.is_eof())

    @property
    def _response_due(self) -> bool:
        """Whether a request has not been answered completely."""
        return self._request_count > self._responses_sent

    def turn_out(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            self.transport.abort()

    def _start_timer(self, seconds: float, *, idle: bool) -> None:
        """Abort the connection after `seconds`. `idle`: no byte of a request has arrived yet."""
        self._stop_timer()
        self._idle = idle
        self._timer = self._loop.call_later(seconds, self.turn_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- incoming ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted = self._doors.enter(self, transport.get_extra_info("peername"))
        if not self._accepted:
            assert isinstance(transport, asyncio.WriteTransport)
            transport.abort()
            return
        super().connection_made(transport)
        self._start_timer(self._doors.head_s, idle=False)

    def data_received(self, data: bytes) -> None:
        if not self._accepted:
            return
        super().data_received(data)
        if self._response_due:
            self._stop_timer()
        elif self._idle:
            self._start_timer(self._doors.head_s, idle=False)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """The client half-closed the connection.

        It may have gone or may still wait for its answer, which a probe shows. TLS has no
        half-close.
        """
        transport, request = self.transport, self._current_request
        begun = request is not None and request.writer.output_size
        if (
            begun
            or not self._response_due
            or transport is None
            or transport.get_extra_info("sslcontext")
        ):
            return None
        self._half_closed = True
        self._probe(0.0)
        return True

    def _probe(self, seconds: float) -> None:
        """Probe the client with 100 Continue until the answer starts. If it has gone, the probe is
        answered with a reset, which the next write reports as an error.
        """
        request = self._current_request
        if not self._response_due or self.transport is None:
            return
        if request is not None:
            if not request.content.is_eof():
                request.content.feed_eof()
            if request.writer.output_size:
                return
            if request.version < HttpVersion11:  # HTTP/1.0 has no interim responses
                self.turn_out()
                return
            self.transport.write(GO_ON)
        wait = min(max(seconds * 2, FIRST_LOOK_S), LAST_LOOK_S)
        self._loop.call_later(wait, self._probe, wait)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self._doors.leave(self)
        if self._accepted:
            super().connection_lost(exc)

    # --- outgoing ------------------------------------------------------------------------------

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the rest of an answer, then wait for the next request."""
        self._start_timer(STALLED_S, idle=False)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._responses_sent += 1
            if self._half_closed and not self._response_due:
                self.close()
            if self.transport is not None:
                self._doors.waits(self)
                self._start_timer(self._doors.idle_s, idle=True)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to a malformed request, as an error of this API."""
        if request.writer.output_size:
            raise ConnectionError("half an answer is out")
        if not isinstance(exc, http_exceptions.HttpProcessingError):
            self.log_exception("unexpected", exc_info=exc)
        reply = Reply(self._doors.dialect)
        response = reply.error(_parse_error(exc))
        reply.stamp(response)
        response.headers["Server"] = "olp"
        response.force_close()
        return response


_REASON = re.compile(r"[A-Za-z][A-Za-z0-9 '-]{2,60}")


def _parse_error(error: BaseException | None) -> RequestError:
    """The error for what aiohttp could not parse."""
    match error:
        case http_exceptions.LineTooLong():
            text = "the address or a header is longer than 8 kB"
            return RequestError(text, status=431, code="headers_too_large")
        case http_exceptions.ContentEncodingError():
            return unsupported_encoding()
        case http_exceptions.BadHttpMethod() if "HTTPS" in str(error):
            text = "this port speaks http, and the client spoke https"
            return RequestError(text, code="bad_request")
        case http_exceptions.BadHttpMethod():
            text = "there is no such method; use GET or POST"
            return RequestError(text, status=501, code="unknown_method")
        case http_exceptions.HttpProcessingError(message=message):
            if message.startswith("Too many headers"):
                return RequestError(
                    "there are too many headers", status=431, code="headers_too_large"
                )
            # Only the library's own text: what follows it is the client's input.
            reason = _REASON.match(message)
            why = f": {reason[0].strip().lower()}" if reason else ""
            return RequestError(
                f"this is no HTTP request that can be read{why}", code="bad_request"
            )
    return RequestError("internal error in OLP", status=500, code="internal_error")


def unsupported_encoding() -> RequestError:
    """The error for a body with an unknown Content-Encoding."""
    return RequestError(
        "the body is packed in a way that is not known here; send it plain, or with gzip",
        status=415,
        code="unsupported_encoding",
        headers=(("Accept-Encoding", "gzip, deflate"),),
    )
