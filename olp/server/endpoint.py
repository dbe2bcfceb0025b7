"""An answer of a chain in any dialect, from the request body to the last byte."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from aiohttp import web
from aiohttp.http import HttpVersion11

from olp.config import Config
from olp.dialects.base import Bounds, Dialect, Encoder, Order
from olp.errors import RequestError
from olp.events import Answering, Done, Failed, Output, Refused
from olp.model import Request
from olp.runtime.serving.fetch import Fetcher
from olp.runtime.serving.request_plan import RequestContext
from olp.runtime.serving.service import Service
from olp.runtime.serving.shared_answer import BrokenOff, Reader
from olp.runtime.usage.request_log import RequestEntry
from olp.server import headers
from olp.server.auth import Caller, Gatekeeper, refuse_key_in
from olp.server.connection import GO_ON, STALLED_S, unsupported_encoding
from olp.server.reply import JSON, REPLY, Reply

READERS = 2
"""Threads that decode slow requests."""

LARGE = 256 * 1024
"""Bytes of a body above which it is decoded in a thread."""

ENCODINGS = frozenset({"", "identity", "gzip", "deflate", "br", "zstd"})
"""Content encodings that aiohttp decodes. It rejects those for which a module is missing."""


class AnswerEndpoint:
    """Answers requests over one service. `in_flight` maps caller ids to counts."""

    def __init__(
        self, service: Service, gatekeeper: Gatekeeper, config: Config, in_flight: dict[str, int]
    ) -> None:
        self._service = service
        self._gatekeeper = gatekeeper
        self._config = config
        self._fetcher = Fetcher(config.images)
        # A pool of its own, so that slow client input cannot delay the killing of processes.
        self._readers = ThreadPoolExecutor(READERS, "read-request")
        self._in_flight = in_flight

    async def post(self, http: web.Request) -> web.StreamResponse:
        """Handle one request from authorization to the end of the answer."""
        reply = http[REPLY]
        dialect = reply.dialect
        caller = await self._gatekeeper.check(http)
        entry = self._service.request_log.entry(reply.id, caller, dialect.name)
        with entry, self._in_flight_slot(caller):
            body = await self.body(http)
            entry.bytes_in = len(body)
            asked = dialect.model_in(body)
            refuse_key_in(asked, "`model`")
            reply.model = entry.asked = asked
            order = await self._decode(dialect, body, http.match_info)
            plan = self._service.plan(_with_header_options(order.request, http), caller)
            log = self._service.log.bind(
                request_id=reply.id, caller=caller.name, background=plan.background
            )
            admitted = self._service.people.admitted(caller, plan.background, plan.request)
            async with admitted as reservation:
                request = await self._fetcher.filled(plan.request)
                context = RequestContext(reply.id, caller, plan.background, log)
                arguments = (request, plan.chain, context, entry, reservation)
                with self._service.join(*arguments) as reader:
                    answer = _Answer(self, http, reply, order, caller, reader, entry)
                    return await (answer.stream() if order.request.stream else answer.whole())

    async def body(self, http: web.Request) -> bytes:
        """The request body, within the limits of size and time; RequestError 4xx."""
        if http.headers.get("Content-Encoding", "identity").lower() not in ENCODINGS:
            raise unsupported_encoding()
        if http.content.is_eof():
            return await http.read()
        most = self._config.server.max_body_mb * 1024 * 1024
        if (http.content_length or 0) > most:
            raise web.HTTPRequestEntityTooLarge(most, http.content_length or 0)
        if "Expect" in http.headers and http.version >= HttpVersion11 and http.transport:
            http.transport.write(GO_ON)
        limit = self._config.server.body_timeout_s
        try:
            async with asyncio.timeout(limit):
                return await http.read()
        except TimeoutError:
            raise RequestError(
                f"the request was not sent within {limit:g} s", status=408, code="request_timeout"
            ) from None

    async def _decode(self, dialect: Dialect, body: bytes, variables: Mapping[str, str]) -> Order:
        server, images = self._config.server, self._config.images
        bounds = Bounds(server.max_messages, images.max_count, links=images.fetch)
        decode = partial(dialect.decode, body, bounds, dict(variables))
        # Checking a schema and decoding images may take a second, during which the event loop
        # must not block. `\u`: a property name may be written with an escape.
        slow = len(body) > LARGE or b"schema" in body or b"parameters" in body or b"\\u" in body
        if not slow:
            return decode()
        return await asyncio.get_running_loop().run_in_executor(self._readers, decode)

    @contextmanager
    def _in_flight_slot(self, caller: Caller) -> Iterator[None]:
        """Count a request of the caller's while it is in flight. Raises RequestError (429) at the
        limit.
        """
        count = self._in_flight.get(caller.id, 0)
        if count >= self._config.server.max_requests:
            raise RequestError(
                f"{count} requests of yours are being answered; wait for one of them to end",
                status=429,
                code="too_many_requests",
                headers=(("Retry-After", "2"),),
            )
        self._in_flight[caller.id] = count + 1
        try:
            yield
        finally:
            self._in_flight[caller.id] -= 1

    def shows_detail(self, caller: Caller) -> bool:
        """Whether the caller may see what happened at each hop."""
        policy = self._config.routing.fallback_detail
        return policy == "all" or (policy == "owner_only" and caller.owner)

    @property
    def keepalive_s(self) -> float | None:
        """Seconds of silence after which a stream gets a keep-alive comment; None to send none."""
        return self._config.server.keepalive_s or None


class _Answer:
    """Writes one answer to the client."""

    def __init__(
        self,
        endpoint: AnswerEndpoint,
        http: web.Request,
        reply: Reply,
        order: Order,
        caller: Caller,
        reader: Reader,
        entry: RequestEntry,
    ) -> None:
        self._endpoint = endpoint
        self._http = http
        self._reply = reply
        self._order = order
        self._detail = endpoint.shows_detail(caller)
        self._reader = reader
        self._entry = entry
        self._created = int(time.time())
        self._dialect = reply.dialect

    async def whole(self) -> web.Response:
        """The complete answer as one JSON body."""
        outputs: list[Output] = []
        while not (outputs and isinstance(outputs[-1], Done | Failed | Refused)):
            try:
                outputs += await self._read()
            except BrokenOff as error:
                raise _broken_off_error(error) from error
        if isinstance(outputs[-1], Refused):
            return self._refusal(outputs[-1])
        head = outputs[0]
        assert isinstance(head, Answering)
        body = self._dialect.whole(self._order, outputs, id=self._reply.id, created=self._created)
        self._entry.bytes_out = len(body)
        return web.Response(body=body, content_type=JSON, headers=self._headers(head, outputs))

    async def stream(self) -> web.StreamResponse:
        """The answer as server-sent events, or a JSON error if nothing was sent yet."""
        try:
            outputs = await self._read()
        except BrokenOff as error:
            raise _broken_off_error(error) from error
        head = outputs[0]
        if isinstance(head, Refused):
            return self._refusal(head)
        assert isinstance(head, Answering)
        encoder = self._dialect.encoder(self._order, id=self._reply.id, created=self._created)
        response = web.StreamResponse(headers=self._headers(head, outputs))
        response.content_type = encoder.media_type
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Accel-Buffering"] = "no"
        await response.prepare(self._http)
        try:
            await self._write(response, encoder, outputs)
            while not isinstance(outputs[-1], Done | Failed):
                outputs = await self._next(response, encoder)
                await self._write(response, encoder, outputs)
        except BrokenOff as error:
            self._entry.error = _broken_off_error(error)
            await self._send(response, encoder.error(self._entry.error))
        async with asyncio.timeout(STALLED_S):
            await response.write_eof()
        return response

    async def _next(self, response: web.StreamResponse, encoder: Encoder) -> Sequence[Output]:
        while True:
            try:
                async with asyncio.timeout(self._endpoint.keepalive_s):
                    return await self._read()
            except TimeoutError:
                await self._send(response, encoder.keep_alive)

    async def _read(self) -> Sequence[Output]:
        outputs = await self._reader.read()
        self._entry.told(outputs, time.monotonic())
        return outputs

    async def _write(
        self,
        response: web.StreamResponse,
        encoder: Encoder,
        outputs: Sequence[Output],
    ) -> None:
        data = b"".join(map(encoder.event, outputs))
        if data:
            await self._send(response, data)
        # A client may disconnect after the last event, before its handler has finished.
        self._entry.all_sent = isinstance(outputs[-1], Done | Failed)

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        """Write to the client. Raises TimeoutError if it reads nothing for `STALLED_S` seconds."""
        async with asyncio.timeout(STALLED_S):
            await response.write(data)
        self._entry.bytes_out += len(data)

    def _headers(self, head: Answering, outputs: Sequence[Output]) -> dict[str, str]:
        """The response headers known so far; for a stream, with its first piece."""
        more = {**headers.ignored(self._order.request.ignored), **headers.mismatch(outputs)}
        return headers.answered(head, show_detail=self._detail) | more

    def _refusal(self, end: Refused) -> web.Response:
        more = headers.refused(end, show_detail=self._detail)
        more |= headers.ignored(self._order.request.ignored)
        body = self._dialect.refused(end)
        self._entry.bytes_out = len(body)
        return web.Response(
            body=body,
            status=end.status,
            content_type=JSON,
            headers=more,
        )


def _broken_off_error(error: BrokenOff) -> RequestError:
    """The error for an answer that OLP itself aborted."""
    if error.stopped:
        return RequestError(
            "OLP is being stopped; ask again in a moment", status=503, code="server_stopping"
        )
    return RequestError(
        "internal error in OLP; see the server's log",
        status=500,
        code="internal_error",
        headers=(("x-should-retry", "false"),),
    )


def _with_header_options(request: Request, http: web.Request) -> Request:
    """`request` with the options from its headers."""
    substitution = http.headers.get("X-OLP-Substitution", "").strip().lower()
    if substitution not in ("", "allow", "forbid"):
        raise RequestError(
            "X-OLP-Substitution is either 'allow' or 'forbid'", param="X-OLP-Substitution"
        )
    no_cache = "no-cache" in http.headers.get("Cache-Control", "").lower()
    forbid = substitution == "forbid"
    if not (forbid or no_cache):
        return request
    return dataclasses.replace(request, forbid_substitution=forbid, no_cache=no_cache)
