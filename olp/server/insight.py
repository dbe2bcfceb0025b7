"""Usage and metrics endpoints: owners see everything, members their own usage."""

from __future__ import annotations

from aiohttp import web

from olp.config import Config
from olp.runtime.serving.service import Service
from olp.server.auth import Gatekeeper, check_owner
from olp.server.reply import json_response


class Insight:
    """GET /olp/usage and GET /metrics, over one service."""

    def __init__(self, service: Service, gatekeeper: Gatekeeper, config: Config) -> None:
        self._service = service
        self._gatekeeper = gatekeeper
        self._config = config

    async def usage(self, request: web.Request) -> web.Response:
        """The usage report; parameters `by`, `since`, `until` and `person` as in `olp usage`."""
        caller = await self._gatekeeper.check(request)
        return json_response(await self._service.usage(caller, dict(request.query)))

    async def metrics(self, request: web.Request) -> web.Response:
        """Metrics for Prometheus; requires an owner's key."""
        check_owner(await self._gatekeeper.check(request))
        return self._exposition()

    async def open_metrics(self, request: web.Request) -> web.Response:
        """The same without a key, at the address that the owner configured for it."""
        self._gatekeeper.check_surroundings(request)
        return self._exposition()

    def _exposition(self) -> web.Response:
        # Imported on first use: servers without Prometheus need not load it.
        from olp.server.exposition import CONTENT_TYPE, exposition

        payload = exposition(
            self._service.health(),
            self._service.request_log.counters,
            people=self._config.metrics.people,
        )
        return web.Response(body=payload, headers={"Content-Type": CONTENT_TYPE})
