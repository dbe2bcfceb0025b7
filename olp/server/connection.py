"""One connection of a client, around the HTTP library's own.

The library waits for ever for the rest of a request's head, and for the next request; it ends a
request whose client has said all that it has to say, and closed that direction; and what it cannot
read it answers in words of its own. It tells nobody of a head that it has read: that is seen by its
count of requests.
"""

from __future__ import annotations

import asyncio
import re
from typing import Protocol

from aiohttp import http_exceptions, web
from aiohttp.http import HttpVersion11

from olp.errors import RequestError
from olp.server.reply import Reply

GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
"""What may come before any answer, and means nothing to a client that does not wait for it."""

STALLED_S = 120.0
"""A client that takes no byte for so many seconds is gone, whatever its connection says."""

FIRST_LOOK_S, LAST_LOOK_S = 0.02, 15.0
"""Seconds between the first two looks whether a client that says no more still listens; each
further wait is twice as long, up to the second."""


class Doors(Protocol):
    """Where connections are counted."""

    head_s: float
    idle_s: float

    def enter(self, guest: Connection, peer: object) -> bool:
        """Whether it is let in."""

    def waits(self, guest: Connection) -> None:
        """It is the client's turn again."""

    def leave(self, guest: Connection) -> None:
        """It is over."""


class Connection(web.RequestHandler):
    """One connection of `server`, if `doors` let it in."""

    def __init__(self, server: web.Server, doors: Doors, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop=loop, access_log=None)  # type: ignore[arg-type]
        self._doors = doors
        self._let_in = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle = False
        self._answered = 0
        self._said_all = False

    # --- whose turn it is ----------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: no request is here, or not all of its body."""
        request = self._current_request
        return not self._owes or (request is not None and not request.content.is_eof())

    @property
    def _owes(self) -> bool:
        """Whether there is a request that has no whole answer yet."""
        return self._request_count > self._answered

    def turn_out(self) -> None:
        """End it at once."""
        if self.transport is not None:
            self.transport.abort()

    def _wait(self, seconds: float, *, idle: bool) -> None:
        """It has so long for the head of its next request."""
        self._stop_waiting()
        self._idle = idle
        self._timer = self._loop.call_later(seconds, self.turn_out)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- what comes ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._let_in = self._doors.enter(self, transport.get_extra_info("peername"))
        if not self._let_in:
            assert isinstance(transport, asyncio.WriteTransport)
            transport.abort()
            return
        super().connection_made(transport)
        self._wait(self._doors.head_s, idle=False)

    def data_received(self, data: bytes) -> None:
        if not self._let_in:
            return
        super().data_received(data)
        if self._owes:
            self._stop_waiting()
        elif self._idle:
            self._wait(self._doors.head_s, idle=False)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """The client says no more. It may have left, or it may still wait for its answer: which of
        them, a word shows that is sent to it. TLS has no such end of one direction."""
        transport, request = self.transport, self._current_request
        begun = request is not None and request.writer.output_size
        if begun or not self._owes or transport is None or transport.get_extra_info("sslcontext"):
            return None
        self._said_all = True
        self._look(0.0)
        return True

    def _look(self, seconds: float) -> None:
        """Send a word that means nothing, as long as no answer has begun. To one who has left it
        comes back as an error, with the next one."""
        request = self._current_request
        if not self._owes or self.transport is None:
            return
        if request is not None:
            if not request.content.is_eof():
                request.content.feed_eof()
            if request.writer.output_size:
                return
            if request.version < HttpVersion11:  # it does not know that word
                self.turn_out()
                return
            self.transport.write(GO_ON)
        wait = min(max(seconds * 2, FIRST_LOOK_S), LAST_LOOK_S)
        self._loop.call_later(wait, self._look, wait)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        self._doors.leave(self)
        if self._let_in:
            super().connection_lost(exc)

    # --- what goes out -------------------------------------------------------------------------

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the rest of an answer. Then it is the client's turn."""
        self._wait(STALLED_S, idle=False)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._answered += 1
            if self._said_all and not self._owes:
                self.close()
            if self.transport is not None:
                self._doors.waits(self)
                self._wait(self._doors.idle_s, idle=True)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no request that can be read, in the shape of the API."""
        if request.writer.output_size:
            raise ConnectionError("half an answer is out")
        if not isinstance(exc, http_exceptions.HttpProcessingError):
            self.log_exception("unexpected", exc_info=exc)
        reply = Reply()
        response = reply.error(_told(exc))
        reply.stamp(response)
        response.headers["Server"] = "olp"
        response.force_close()
        return response


_REASON = re.compile(r"[A-Za-z][A-Za-z0-9 '-]{2,60}")


def _told(error: BaseException | None) -> RequestError:
    """What the library cannot read, in OLP's words."""
    match error:
        case http_exceptions.LineTooLong():
            told = "the address or a header is longer than 8 kB"
            return RequestError(told, status=431, code="headers_too_large")
        case http_exceptions.ContentEncodingError():
            return unsupported_encoding()
        case http_exceptions.BadHttpMethod() if "HTTPS" in str(error):
            told = "this port speaks http, and the client spoke https"
            return RequestError(told, code="bad_request")
        case http_exceptions.BadHttpMethod():
            told = "there is no such method; use GET or POST"
            return RequestError(told, status=501, code="unknown_method")
        case http_exceptions.HttpProcessingError(message=message):
            if message.startswith("Too many headers"):
                return RequestError(
                    "there are too many headers", status=431, code="headers_too_large"
                )
            # Only the library's own words: what comes after them is the client's.
            reason = _REASON.match(message)
            why = f": {reason[0].strip().lower()}" if reason else ""
            return RequestError(
                f"this is no HTTP request that can be read{why}", code="bad_request"
            )
    return RequestError("internal error in OLP", status=500, code="internal_error")


def unsupported_encoding() -> RequestError:
    """The refusal of a body that is packed in a way which is not known here."""
    return RequestError(
        "the body is packed in a way that is not known here; send it plain, or with gzip",
        status=415,
        code="unsupported_encoding",
        headers=(("Accept-Encoding", "gzip, deflate"),),
    )
