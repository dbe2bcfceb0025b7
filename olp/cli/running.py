"""A server that runs: from a configuration to a port, through changes of it, to the last child."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from msgspec import structs

from olp.cli import compose as house
from olp.cli.metrics_site import MetricsSite
from olp.config import Config
from olp.errors import OLPError, StartError
from olp.host import lan
from olp.host.mdns import announce
from olp.host.systemd import Supervisor
from olp.host.tls import Identity, Shown, identity
from olp.runtime.access.local_server import LocalToken
from olp.runtime.log import Log
from olp.runtime.process.run_folder import RunFolder
from olp.runtime.serving.service import Service
from olp.runtime.tasks import Tasks
from olp.server.app import Server
from olp.server.door import Doors, GuardedRunner

Read = Callable[[], tuple[Config, Mapping[str, house.Found]]]
"""Reads the configuration, and looks for the CLIs; OLPError if it cannot be used."""

FIXED = ("host", "port", "state_dir", "max_body_mb", "announce")
"""Keys of [server] that only a new start can change."""


class Running:
    """A server that listens. `url` is its address, with the port it really got."""

    def __init__(
        self,
        config: Config,
        service: Service,
        folders: RunFolder,
        log: Log,
        shown: Identity | None,
    ) -> None:
        self.config = config
        self.service = service
        self.url = ""
        self._place = folders
        self._log = log
        self._shown = Shown(shown) if shown else None
        self._tasks = Tasks(log)
        self._server = Server(service, config)
        self._metrics = MetricsSite(self._server.metrics_application(), self._tasks)
        # A handler whose client has left must be cancelled, or the CLI would go on for nobody.
        self._local: LocalToken | None = None
        self.runner = GuardedRunner(
            self._server.application(),
            Doors(),
            self._tasks,
            self._shown.context if self._shown else None,
            handler_cancellation=True,
        )

    async def listen(self) -> None:
        """Take the port; StartError if it cannot be had."""
        await self.runner.setup()
        host, port = self.config.server.host, self.config.server.port
        try:
            await web.TCPSite(self.runner, host, port).start()
        except OSError as error:
            raise StartError(f"cannot listen on {host} port {port}: {error.strerror}") from None
        actual = self.runner.addresses[0][1]
        scheme = "https" if self._shown else "http"
        self.url = f"{scheme}://{lan.url_host(host)}:{actual}"
        self._let_owner_in(actual)
        if self.config.metrics.listen:
            await self._metrics.listen(self.config.metrics.listen)
            self._log.info("serving_metrics", url=self._metrics.url)
        self.service.open()
        if self.config.server.announce:
            told = announce(host, actual, tls=self._shown is not None, log=self._log)
            self._tasks.spawn(told, "announcement")

    def _let_owner_in(self, port: int) -> None:
        """Let the owner's commands on this machine ask without a key."""
        try:
            own = lan.url_host(lan.reached_at(self.config.server.host))
            url = f"{'https' if self._shown else 'http'}://{own}:{port}"
            self._local = LocalToken(self._place.state, port, url, self.config.server.tls_cert)
        except OSError as error:
            self._log.warn("no_local_token", reason=error.strerror)
            return
        self.service.people.accept_local(self._local.token)

    async def close(self) -> None:
        """End every answer, and give the port back."""
        await self._tasks.cancel_all()
        await self.service.close()
        await self.runner.cleanup()
        await self._metrics.close()
        # The last requests are only now over for their clients, and so for the book.
        self.service.close_record()
        if self._local is not None:
            self._local.close()

    def change(self, config: Config, found: Mapping[str, house.Found]) -> list[str]:
        """Go by another configuration from the next request on; which keys need a new start.

        Answers under way keep their chain, and what is known of the providers is kept. OLPError
        leaves everything as it was.
        """
        config, late = _with_fixed(self.config, config)
        shown = shown_by(config)
        old = self.service
        self.service = house.build(config, found, self._place, self._log, before=old)
        self.config = config
        if self._shown is not None and shown is not None:
            self._shown.identity = shown
        self._server.use(self.service, config)
        self.service.open()
        # Awaited by whoever waits for the new service, so that no old answer is lost at a stop.
        self.service.tasks.spawn(old.hand_over(), "the configuration before")
        return late

    def reload(self, read: Read) -> str:
        """Read the configuration again and go by it; a mistake in it is logged, and the old one
        stays. What came of it, in a few words."""
        try:
            late = self.change(*read())
        except (OLPError, OSError) as error:
            self._log.error("reload_failed", error=str(error))
            return f"the configuration was not changed: {error}"
        if late:
            self._log.warn("reload_needs_restart", keys=late)
        self._log.info("reloaded", chains=len(self.service.catalogue.chains))
        return "reloaded" + (f"; a new start is needed for {', '.join(late)}" if late else "")

    async def drain(self, stop: Stop) -> None:
        """Take no more requests, and let the answers under way end: for so long as the
        configuration says, or until a second signal."""
        for site in list(self.runner.sites):
            await site.stop()
        drained = asyncio.ensure_future(self.service.drain(self.config.server.drain_s))
        hurried = asyncio.ensure_future(stop.second.wait())
        await asyncio.wait({drained, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        drained.cancel()


def _with_fixed(old: Config, new: Config) -> tuple[Config, list[str]]:
    """`new` with what cannot change while the server runs, and which keys that left as they are."""
    kept = {name: getattr(old.server, name) for name in FIXED}
    late = [name for name, value in kept.items() if getattr(new.server, name) != value]
    if bool(old.server.tls_cert) != bool(new.server.tls_cert):
        kept |= {"tls_cert": old.server.tls_cert, "tls_key": old.server.tls_key}
        late += ["tls_cert", "tls_key"]
    metrics = structs.replace(new.metrics, listen=old.metrics.listen)
    if metrics != new.metrics:
        late.append("metrics.listen")
    return structs.replace(new, server=structs.replace(new.server, **kept), metrics=metrics), late


def shown_by(config: Config) -> Identity | None:
    """The certificate that the server shows, if it has one; StartError if it cannot be used."""
    server = config.server
    return identity(server.tls_cert, server.tls_key) if server.tls_cert else None


@asynccontextmanager
async def running(
    config: Config, found: Mapping[str, house.Found], folders: RunFolder, log: Log
) -> AsyncIterator[Running]:
    """The server over an opened `place`; leaving the block ends every answer and closes it.

    StartError if the address cannot be had. Tests start the server here too, so that they see
    what production does.
    """
    shown = shown_by(config)
    if shown is not None and shown.expires_soon:
        log.warn("certificate_expires_soon", file=config.server.tls_cert, fix="olp cert")
    server = Running(config, house.build(config, found, folders, log), folders, log, shown)
    try:
        await server.listen()
        yield server
    finally:
        await server.close()


async def run(server: Running, read: Read, supervisor: Supervisor, log: Log) -> None:
    """Serve until a signal says to stop; SIGHUP reads the configuration again."""
    stop = Stop()
    in_terminal = os.isatty(2)

    def reload() -> None:
        if in_terminal and not os.isatty(2):
            stop.signalled()  # the terminal was closed, and nobody asked for anything
        elif not stop.first.is_set():
            supervisor.reloading()
            supervisor.ready(server.reload(read))

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    supervisor.ready(f"serving on {server.url}")
    supervisor.watch()
    try:
        await stop.first.wait()
        supervisor.stopping()
        seconds, in_flight = server.config.server.drain_s, server.service.in_flight
        log.info("draining", seconds=seconds, in_flight=in_flight)
        await server.drain(stop)
    finally:
        supervisor.unwatch()


class Stop:
    """The two stop signals: the first asks, the second insists."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.signalled)

    def signalled(self) -> None:
        """One of them came."""
        if self.first.is_set():
            self.second.set()
        self.first.set()
