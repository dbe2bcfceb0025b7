"""The address that the owner may set apart for /metrics, where no key is asked for."""

from __future__ import annotations

from aiohttp import web

from olp.errors import StartError
from olp.runtime.tasks import Tasks
from olp.server.door import Doors, GuardedRunner


class MetricsSite:
    """One more port. `url` is its address once it listens."""

    def __init__(self, application: web.Application, tasks: Tasks) -> None:
        self._runner = GuardedRunner(application, Doors(64), tasks)
        self.url = ""

    async def listen(self, where: str) -> None:
        """Take the port; StartError if it cannot be had."""
        host, _, port = where.rpartition(":")
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host.strip("[]"), int(port)).start()
        except (OSError, OverflowError) as error:
            raise StartError(f"cannot listen on {where} for /metrics: {error}") from None
        self.url = f"http://{host}:{self._runner.addresses[0][1]}/metrics"

    async def close(self) -> None:
        """Give the port back."""
        await self._runner.cleanup()
