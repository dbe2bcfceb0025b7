"""The three vendor APIs in one loopback app, with a log and a control desk.

One app for all three, because a proxy test often needs two vendors in one breath (fall back from
one to the other) and one place to ask who was called with what. Every request is recorded with how
it ended: that a stopped client really hangs up on the vendor is something tests must be able to
see.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from . import anthropic, mistral, openai
from .scenario import VENDORS, Override, Recorded, Scenario, State
from .stream import Cut, Reset, reset

STATE: web.AppKey[State] = web.AppKey("state", State)
LOG: web.AppKey[Path | None] = web.AppKey("log", Path)
MAX_BODY = 1 << 30

VendorHandler = Callable[[web.Request, State], Awaitable[web.StreamResponse]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(state: State | None = None, log: Path | None = None) -> web.Application:
    """The whole mock; ``log`` gets one JSON line per finished request."""
    app = web.Application(middlewares=[_record], client_max_size=MAX_BODY)
    app[STATE] = state or State()
    app[LOG] = log
    router = app.router
    router.add_post("/v1/messages", _served(anthropic.messages))
    router.add_post("/v1/messages/count_tokens", _served(anthropic.count_tokens))
    router.add_post("/v1/responses", _served(openai.responses))
    router.add_post("/v1/chat/completions", _served(mistral.chat))
    router.add_post("/_mock/scenario", _set_scenario)
    router.add_post("/_mock/quota", _set_quota)
    router.add_post("/_mock/usage", _set_usage)
    router.add_post("/_mock/reset", _reset)
    router.add_get("/_mock/requests", _requests)
    router.add_route("*", "/{path:.*}", _unknown)
    return app


@asynccontextmanager
async def serve(app: web.Application, port: int = 0) -> AsyncIterator[str]:
    """Run the mock on loopback in this event loop; yields its base URL."""
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def vendor_of(path: str) -> str:
    if path.startswith("/v1/messages"):
        return "anthropic"
    if path.startswith("/v1/chat/"):
        return "mistral"
    return "openai" if path.startswith("/v1/responses") else "other"


def _served(handler: VendorHandler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(request, request.app[STATE])

    return handle


@web.middleware
async def _record(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path.startswith("/_mock/"):
        return await handler(request)
    body = await request.read()
    record = Recorded(
        vendor=vendor_of(request.path),
        method=request.method,
        path=str(request.rel_url),
        headers=dict(request.headers),
        body=body.decode("utf-8", "replace"),
        body_bytes=len(body),
        received_at=time.time(),
    )
    request.app[STATE].requests.append(record)
    try:
        response = await handler(request)
        record.completed = True
        return response
    except Cut:
        if request.transport is not None:
            request.transport.close()
        return web.Response()  # reaches nobody; aiohttp notices and moves on
    except Reset:
        reset(request)
        return web.Response()
    finally:
        if not record.completed:
            record.closed_at = time.time()
        _write_log(request.app[LOG], record)


def _write_log(log: Path | None, record: Recorded) -> None:
    if log is not None:
        with log.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(record)) + "\n")


async def _set_scenario(request: web.Request) -> web.Response:
    """{"vendor": …|null for all, "name": …|null to clear, "arg": …, "times": N|null for ever}"""
    order: dict[str, Any] = await request.json()
    overrides = request.app[STATE].overrides
    for vendor in [order["vendor"]] if order.get("vendor") else VENDORS:
        overrides.pop(vendor, None)
        if order.get("name"):
            scenario = Scenario(order["name"], order.get("arg"))
            overrides[vendor] = Override(scenario, order.get("times"))
    return web.json_response({"ok": True})


async def _set_quota(request: web.Request) -> web.Response:
    return _assign(request.app[STATE].quota, await request.json())


async def _set_usage(request: web.Request) -> web.Response:
    return _assign(request.app[STATE].usage, await request.json())


def _assign(target: object, values: dict[str, Any]) -> web.Response:
    for name, value in values.items():
        if not hasattr(target, name):
            return web.json_response({"error": f"unknown field {name}"}, status=400)
        setattr(target, name, value)
    return web.json_response({"ok": True})


async def _reset(request: web.Request) -> web.Response:
    request.app[STATE].reset()
    return web.json_response({"ok": True})


async def _requests(request: web.Request) -> web.Response:
    vendor = request.query.get("vendor")
    kept = [r for r in request.app[STATE].requests if vendor in (None, "", r.vendor)]
    return web.json_response([asdict(r) for r in kept])


async def _unknown(request: web.Request) -> web.Response:
    error = {"type": "not_found_error", "message": f"mock: no such route {request.path}"}
    return web.json_response({"type": "error", "error": error}, status=404)
