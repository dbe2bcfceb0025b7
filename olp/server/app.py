"""The HTTP application: its routes, and what every response has in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from olp import __version__
from olp.config import Config
from olp.errors import RequestError
from olp.model import Capability
from olp.runtime.log import described
from olp.runtime.serving.service import ModelEntry, Service
from olp.server import headers
from olp.server.auth import Gatekeeper, check_owner
from olp.server.connect import ConnectPage
from olp.server.elsewhere import nothing_at
from olp.server.endpoint import ChatEndpoint
from olp.server.insight import Insight
from olp.server.reply import REPLY, Reply, json_response
from olp.server.throttle import Throttle

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CHAT = "/v1/chat/completions"


class Server:
    """The routes over one service at a time."""

    def __init__(self, service: Service, config: Config) -> None:
        self._in_flight: dict[str, int] = {}
        self._throttle = Throttle()
        self._max_body = int(config.server.max_body_mb * 1024 * 1024)
        self.use(service, config)

    def use(self, service: Service, config: Config) -> None:
        """From the next request on, ask `service` and go by `config`; answers under way keep what
        they began with."""
        self._service = service
        self._gatekeeper = Gatekeeper(config.server, service.people, self._throttle, service.log)
        self._chat = ChatEndpoint(service, self._gatekeeper, config, self._in_flight)
        self._insight = Insight(service, self._gatekeeper, config)
        self._page = ConnectPage(service, self._gatekeeper)

    def application(self) -> web.Application:
        """The application, to be run with `handler_cancellation=True`: a handler whose client has
        left must end, and its process with it."""
        app = web.Application(middlewares=[self._frame], client_max_size=self._max_body)
        app.on_response_prepare.append(self._stamp)
        routes: Sequence[tuple[str, str, Handler]] = (
            ("POST", CHAT, self._chat_completions),
            ("GET", "/v1/models", self._models),
            ("GET", "/v1/models/{id:.+}", self._model),
            ("GET", "/healthz", self._healthz),
            ("GET", "/health", self._health),
            ("GET", "/connect", self._connect),
            ("GET", "/", self._root),
            ("GET", "/metrics", self._metrics),
            ("GET", "/olp/usage", self._usage),
            ("POST", "/olp/quota/refresh", self._quota_refresh),
            ("POST", "/olp/quota/clear", self._quota_clear),
        )
        for method, path, handler in routes:
            for one in ("GET", "HEAD") if method == "GET" else (method,):
                app.router.add_route(one, path, handler, expect_handler=_later)
        app.router.add_route("*", ANYWHERE, self._nowhere, expect_handler=_later)
        return app

    def metrics_application(self) -> web.Application:
        """Only /metrics, and without a key: for an address that the owner sets apart for it."""
        app = web.Application(middlewares=[self._frame])
        app.router.add_get("/metrics", self._open_metrics)
        return app

    # --- around every handler ------------------------------------------------------------------

    @web.middleware
    async def _frame(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Give the request its reply, and turn whatever goes wrong into an error of this API."""
        reply = request[REPLY] = Reply()
        try:
            _check_expectation(request)
            if request.method == "OPTIONS":
                return await self._options(request)
            return await handler(request)
        except RequestError as error:
            return reply.error(error)
        except (web.HTTPException, web.RequestPayloadError) as error:
            return reply.error(_in_our_words(error, self._max_body))
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            self._service.log.error("unexpected", request_id=reply.id, error=described(error))
            if reply.begun:
                # Half an answer is out, and only a broken connection tells the client so.
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError from error
            return reply.error(
                RequestError(
                    f"internal error in OLP (request {reply.id}); see the server's log",
                    status=500,
                    code="internal_error",
                )
            )

    async def _stamp(self, request: web.Request, response: web.StreamResponse) -> None:
        reply = request.get(REPLY)
        if reply is not None:
            reply.stamp(response)
        origin = request.headers.get("Origin")
        if origin is not None and self._gatekeeper.allows(origin):
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = ", ".join(headers.ALL)
            response.headers["Vary"] = "Origin"
        response.headers["Server"] = "olp"

    async def _options(self, request: web.Request) -> web.Response:
        """What a browser asks before it sends a page's request."""
        self._gatekeeper.check_surroundings(request)
        methods = await _methods_at(request)
        if not methods:
            raise nothing_at(request.path, _paths(request))
        response = web.Response(status=204, headers={"Allow": methods})
        if "Origin" in request.headers:
            wanted = request.headers.get("Access-Control-Request-Headers", "*")
            response.headers["Access-Control-Allow-Methods"] = methods
            response.headers["Access-Control-Allow-Headers"] = headers.safe(wanted, 1024)
            response.headers["Access-Control-Max-Age"] = "600"
        return response

    async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
        return await self._chat.post(request)

    async def _connect(self, request: web.Request) -> web.Response:
        return await self._page.get(request)

    async def _usage(self, request: web.Request) -> web.StreamResponse:
        return await self._insight.usage(request)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._insight.metrics(request)

    async def _open_metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._insight.open_metrics(request)

    # --- the small routes ----------------------------------------------------------------------

    async def _models(self, request: web.Request) -> web.Response:
        caller = await self._gatekeeper.check(request)
        data = [_model(entry) for entry in self._service.models(caller)]
        return json_response({"object": "list", "data": data})

    async def _model(self, request: web.Request) -> web.Response:
        caller = await self._gatekeeper.check(request)
        request[REPLY].model = request.match_info["id"]
        caller.check_model(request.match_info["id"])
        return json_response(_model(self._service.model(request.match_info["id"])))

    async def _healthz(self, request: web.Request) -> web.Response:
        return json_response({"status": "alive"})

    async def _health(self, request: web.Request) -> web.Response:
        caller = await self._gatekeeper.check(request)
        told = self._service.health() if caller.owner else self._service.health_for(caller)
        return json_response({"version": __version__, **told})

    async def _quota_refresh(self, request: web.Request) -> web.Response:
        check_owner(await self._gatekeeper.check(request))
        told = await self._service.refresh()
        return json_response({name: {"problem": one.problem} for name, one in told.items()})

    async def _quota_clear(self, request: web.Request) -> web.Response:
        check_owner(await self._gatekeeper.check(request))
        provider = request.query.get("provider")
        return json_response({"cleared": self._service.clear_holds(provider)})

    async def _root(self, request: web.Request) -> web.Response:
        await self._gatekeeper.check(request)
        return json_response({"name": "olp", "version": __version__, "openai_base": "/v1"})

    async def _nowhere(self, request: web.Request) -> web.Response:
        await self._gatekeeper.check(request)
        if methods := await _methods_at(request):
            raise _not_possible(request.method, methods)
        raise nothing_at(request.path, _paths(request))


def _check_expectation(request: web.Request) -> None:
    expected = request.headers.get("Expect", "100-continue")
    if expected.lower() != "100-continue":
        told = f"{headers.safe(expected, 40)!r} cannot be expected of OLP; leave out Expect"
        raise RequestError(told, status=417, code="expectation_failed")


async def _later(request: web.Request) -> None:
    """Nothing: whoever reads a body says when it may come."""


async def _methods_at(request: web.Request) -> str:
    """The methods that the address of `request` has; none for one that is not there."""
    found: set[str] = set()
    for resource in _resources(request):
        match, others = await resource.resolve(request)
        found |= others | ({request.method} if match else set())
    if request.path == "*":  # the whole server is meant
        found |= {"GET", "HEAD", "POST"}
    return ", ".join(sorted(found | {"OPTIONS"})) if found else ""


ANYWHERE = "/{path:(?s:.*)}"
"""The address of what is not there."""


def _resources(request: web.Request) -> list[web.AbstractResource]:
    return [one for one in request.app.router.resources() if one.canonical != "/{path}"]


def _paths(request: web.Request) -> list[str]:
    return [resource.canonical for resource in _resources(request)]


def _model(entry: ModelEntry) -> dict[str, Any]:
    """One model as clients look for it. How much it reads has a name in each of them."""
    reads = ("context_length", "context_window", "max_model_len")
    return {
        "id": entry.id,
        "object": "model",
        "created": entry.created,
        "owned_by": entry.owned_by,
        **({} if entry.context is None else dict.fromkeys(reads, entry.context)),
        "capabilities": {ability.value: ability in entry.can for ability in Capability},
        "olp_hops": entry.hops,
    }


def _in_our_words(
    error: web.HTTPException | web.RequestPayloadError, max_body: int
) -> RequestError:
    """What aiohttp refuses by itself, as an error of this API. `max_body` is in bytes."""
    match error:
        case web.HTTPMethodNotAllowed():
            return _not_possible(error.method, ", ".join(sorted(error.allowed_methods)))
        case web.HTTPRequestEntityTooLarge():
            limit = max_body / 1024 / 1024
            return RequestError(
                f"the body is larger than {limit:g} MiB", status=413, code="request_too_large"
            )
        case web.HTTPNotFound():
            return RequestError("there is nothing here", status=404, code="not_found")
        case web.HTTPException():
            # aiohttp's own words for an address that no route can even match.
            return RequestError(error.reason, status=error.status, code="bad_request")
    return RequestError("the body cannot be decoded", code="invalid_body")


def _not_possible(method: str, allowed: str) -> RequestError:
    useful = [name for name in allowed.split(", ") if name not in ("HEAD", "OPTIONS")]
    return RequestError(
        f"{headers.safe(method, 20)} is not possible here; use {' or '.join(useful)}",
        status=405,
        code="method_not_allowed",
        headers=(("Allow", allowed),),
    )
