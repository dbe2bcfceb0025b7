"""The HTTP application: its routes, and what all responses share."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from aiohttp import web

from olp import __version__
from olp.config import Config
from olp.dialects import all_dialects, dialect_at
from olp.dialects.base import Dialect, Route, Serves
from olp.errors import RequestError
from olp.runtime.log import described
from olp.runtime.serving.service import Service
from olp.server import headers
from olp.server.auth import Gatekeeper, check_owner
from olp.server.connect import ConnectPage
from olp.server.endpoint import AnswerEndpoint
from olp.server.insight import Insight
from olp.server.reply import REPLY, Reply, json_response
from olp.server.throttle import Throttle

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """The routes. The service behind them can be replaced while the server runs."""

    def __init__(self, service: Service, config: Config) -> None:
        self._dialects = all_dialects()
        self._in_flight: dict[str, int] = {}
        self._throttle = Throttle()
        self._max_body = int(config.server.max_body_mb * 1024 * 1024)
        self.use(service, config)

    def use(self, service: Service, config: Config) -> None:
        """Use `service` and `config` from the next request on; answers in progress keep the old
        ones.
        """
        self._service = service
        self._gatekeeper = Gatekeeper(config.server, service.people, self._throttle, service.log)
        self._answers = AnswerEndpoint(service, self._gatekeeper, config, self._in_flight)
        self._insight = Insight(service, self._gatekeeper, config)
        self._page = ConnectPage(service, self._gatekeeper)

    def application(self) -> web.Application:
        """The application. Run it with `handler_cancellation=True`: the handler must be cancelled
        when its client disconnects, so that its CLI process is killed.
        """
        app = web.Application(middlewares=[self._frame], client_max_size=self._max_body)
        app.on_response_prepare.append(self._stamp)
        routes: Sequence[tuple[str, str, Handler]] = (
            *(self._route(one, route) for one in self._dialects for route in one.routes),
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
                app.router.add_route(one, path, handler, expect_handler=_defer_continue)
        app.router.add_route("*", ANYWHERE, self._not_found, expect_handler=_defer_continue)
        return app

    def _route(self, dialect: Dialect, route: Route) -> tuple[str, str, Handler]:
        """A dialect's route. The dialect formats its errors, whatever its path."""
        handlers: dict[Serves, Handler] = {
            Serves.ANSWER: self._answer,
            Serves.MODELS: self._models,
            Serves.MODEL: self._model,
            Serves.LOCAL: partial(self._local, route),
        }

        async def handle(request: web.Request) -> web.StreamResponse:
            request[REPLY].dialect = dialect
            return await handlers[route.serves](request)

        return route.method, route.path, handle

    def metrics_application(self) -> web.Application:
        """An application with only /metrics, without a key, for a separate address
        (`metrics.listen`).
        """
        app = web.Application(middlewares=[self._frame])
        app.router.add_get("/metrics", self._open_metrics)
        return app

    # --- around every handler ------------------------------------------------------------------

    @web.middleware
    async def _frame(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Attach a `Reply` to the request, and turn exceptions into errors of its API."""
        reply = request[REPLY] = Reply(dialect_at(request.path, self._dialects))
        try:
            _check_expectation(request)
            if request.method == "OPTIONS":
                return await self._options(request)
            return await handler(request)
        except RequestError as error:
            return reply.error(error)
        except (web.HTTPException, web.RequestPayloadError) as error:
            return reply.error(_as_request_error(error, self._max_body))
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            self._service.log.error("unexpected", request_id=reply.id, error=described(error))
            if reply.begun:
                # Part of the answer was sent; only an aborted connection shows the client that
                # it is incomplete.
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
        """Answer a CORS preflight or any other OPTIONS request."""
        self._gatekeeper.check_surroundings(request)
        methods = await _methods_at(request)
        if not methods:
            raise _path_not_found(request.path, _paths(request), self._dialects)
        response = web.Response(status=204, headers={"Allow": methods})
        if "Origin" in request.headers:
            wanted = request.headers.get("Access-Control-Request-Headers", "*")
            response.headers["Access-Control-Allow-Methods"] = methods
            response.headers["Access-Control-Allow-Headers"] = headers.safe(wanted, 1024)
            response.headers["Access-Control-Max-Age"] = "600"
        return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        return await self._answers.post(request)

    async def _local(self, route: Route, request: web.Request) -> web.StreamResponse:
        await self._gatekeeper.check(request)
        body = await self._answers.body(request)
        assert route.local is not None
        return json_response(route.local(dict(request.match_info), body))

    async def _connect(self, request: web.Request) -> web.Response:
        return await self._page.get(request)

    async def _usage(self, request: web.Request) -> web.StreamResponse:
        return await self._insight.usage(request)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._insight.metrics(request)

    async def _open_metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._insight.open_metrics(request)

    # --- the small routes ----------------------------------------------------------------------

    async def _models(self, request: web.Request) -> web.StreamResponse:
        caller = await self._gatekeeper.check(request)
        return json_response(request[REPLY].dialect.models(self._service.models(caller)))

    async def _model(self, request: web.Request) -> web.StreamResponse:
        caller = await self._gatekeeper.check(request)
        request[REPLY].model = request.match_info["id"]
        caller.check_model(request.match_info["id"])
        entry = self._service.model(request.match_info["id"])
        return json_response(request[REPLY].dialect.model(entry))

    async def _healthz(self, request: web.Request) -> web.Response:
        return json_response({"status": "alive"})

    async def _health(self, request: web.Request) -> web.Response:
        caller = await self._gatekeeper.check(request)
        report = self._service.health() if caller.owner else self._service.health_for(caller)
        return json_response({"version": __version__, **report})

    async def _quota_refresh(self, request: web.Request) -> web.Response:
        check_owner(await self._gatekeeper.check(request))
        results = await self._service.refresh()
        return json_response({name: {"problem": one.problem} for name, one in results.items()})

    async def _quota_clear(self, request: web.Request) -> web.Response:
        check_owner(await self._gatekeeper.check(request))
        provider = request.query.get("provider")
        return json_response({"cleared": self._service.clear_holds(provider)})

    async def _root(self, request: web.Request) -> web.Response:
        await self._gatekeeper.check(request)
        return json_response(
            {"name": "olp", "version": __version__, **dict(one.base for one in self._dialects)}
        )

    async def _not_found(self, request: web.Request) -> web.Response:
        await self._gatekeeper.check(request)
        if methods := await _methods_at(request):
            raise _method_not_allowed(request.method, methods)
        raise _path_not_found(request.path, _paths(request), self._dialects)


def _check_expectation(request: web.Request) -> None:
    expected = request.headers.get("Expect", "100-continue")
    if expected.lower() != "100-continue":
        message = f"{headers.safe(expected, 40)!r} cannot be expected of OLP; leave out Expect"
        raise RequestError(message, status=417, code="expectation_failed")


async def _defer_continue(request: web.Request) -> None:
    """Do not send 100 Continue yet; the handler sends it when it reads the body."""


async def _methods_at(request: web.Request) -> str:
    """The methods allowed at the path of `request`; empty for an unknown path."""
    found: set[str] = set()
    for resource in _resources(request):
        match, others = await resource.resolve(request)
        found |= others | ({request.method} if match else set())
    if request.path == "*":  # the server as a whole
        found |= {"GET", "HEAD", "POST"}
    return ", ".join(sorted(found | {"OPTIONS"})) if found else ""


ANYWHERE = "/{path:(?s:.*)}"
"""Catch-all route for unknown paths."""


def _resources(request: web.Request) -> list[web.AbstractResource]:
    return [one for one in request.app.router.resources() if one.canonical != "/{path}"]


def _paths(request: web.Request) -> list[str]:
    return [resource.canonical for resource in _resources(request)]


def _path_not_found(path: str, known: Sequence[str], dialects: Sequence[Dialect]) -> RequestError:
    """The 404 error for `path`. `known` are the existing paths."""
    if told := next(filter(None, (one.absent(path) for one in dialects)), None):
        return RequestError(f"{told}.", status=404, code="unsupported_endpoint")
    bases = [one.base[1] for one in dialects]
    tried = [path.lower(), *(f"{base}{path.lower()}" for base in bases)]
    near = [n for one in tried for n in difflib.get_close_matches(one[:256], known, 1, 0.6)]
    hint = f"did you mean {near[0]}?" if near else f"the API is under {' or '.join(bases)}"
    told = f"there is nothing at {headers.safe(path, 80)}; {hint}"
    return RequestError(told, status=404, code="not_found")


def _as_request_error(
    error: web.HTTPException | web.RequestPayloadError, max_body: int
) -> RequestError:
    """A rejection by aiohttp as an error of this API. `max_body` is in bytes."""
    match error:
        case web.HTTPMethodNotAllowed():
            return _method_not_allowed(error.method, ", ".join(sorted(error.allowed_methods)))
        case web.HTTPRequestEntityTooLarge():
            limit = max_body / 1024 / 1024
            return RequestError(
                f"the body is larger than {limit:g} MiB", status=413, code="request_too_large"
            )
        case web.HTTPNotFound():
            return RequestError("there is nothing here", status=404, code="not_found")
        case web.HTTPException():
            # aiohttp's own text, e.g. for a path that no route can match.
            return RequestError(error.reason, status=error.status, code="bad_request")
    return RequestError("the body cannot be decoded", code="invalid_body")


def _method_not_allowed(method: str, allowed: str) -> RequestError:
    useful = [name for name in allowed.split(", ") if name not in ("HEAD", "OPTIONS")]
    return RequestError(
        f"{headers.safe(method, 20)} is not possible here; use {' or '.join(useful)}",
        status=405,
        code="method_not_allowed",
        headers=(("Allow", allowed),),
    )
