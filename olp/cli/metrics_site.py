"""The separate address for /metrics, which requires no key."""

from __future__ import annotations

from aiohttp import web

from olp.errors import StartError
from olp.runtime.tasks import Tasks
from olp.server.door import Doors, GuardedRunner


class MetricsSite:
    """Serves /metrics on a second port. `url` is its address while it listens."""

    def __init__(self, application: web.Application, tasks: Tasks) -> None:
        self._runner = GuardedRunner(application, Doors(64), tasks)
        self.url = ""

    async def listen(self, where: str) -> None:
        """Start listening. Raises StartError if the address is not available."""
        host, _, port = where.rpartition(":")
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host.strip("[]"), int(port)).start()
        except (OSError, OverflowError) as error:
            raise StartError(f"cannot listen on {where} for /metrics: {error}") from None
        self.url = f"http://{host}:{self._runner.addresses[0][1]}/metrics"

    async def close(self) -> None:
        """Close the port."""
        await self._runner.cleanup()
