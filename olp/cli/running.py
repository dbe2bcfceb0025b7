"""A running server: listening, reloading the configuration, and shutting down."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from msgspec import structs

from olp.cli import compose
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

Read = Callable[[], tuple[Config, Mapping[str, compose.Found]]]
"""Reads the configuration and finds the CLIs; raises OLPError if it cannot be used."""

FIXED = ("host", "port", "state_dir", "max_body_mb", "announce")
"""Keys of [server] that only a restart can change."""


class Running:
    """A server that listens. `url` is its address, with the actual port."""

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
        self._folders = folders
        self._log = log
        self._shown = Shown(shown) if shown else None
        self._tasks = Tasks(log)
        self._server = Server(service, config)
        self._metrics = MetricsSite(self._server.metrics_application(), self._tasks)
        self._local: LocalToken | None = None
        # handler_cancellation: when a client disconnects, its CLI process must be killed.
        self.runner = GuardedRunner(
            self._server.application(),
            Doors(),
            self._tasks,
            self._shown.context if self._shown else None,
            handler_cancellation=True,
        )

    async def listen(self) -> None:
        """Start listening. Raises StartError if the address is not available."""
        await self.runner.setup()
        host, port = self.config.server.host, self.config.server.port
        try:
            await web.TCPSite(self.runner, host, port).start()
        except OSError as error:
            raise StartError(f"cannot listen on {host} port {port}: {error.strerror}") from None
        actual = self.runner.addresses[0][1]
        self.url = lan.url(host, actual, tls=self._shown is not None)
        self._write_local_token(actual)
        if self.config.metrics.listen:
            await self._metrics.listen(self.config.metrics.listen)
            self._log.info("serving_metrics", url=self._metrics.url)
        self.service.open()
        if self.config.server.announce:
            announcement = announce(host, actual, tls=self._shown is not None, log=self._log)
            self._tasks.spawn(announcement, "announcement")

    def _write_local_token(self, port: int) -> None:
        """Create the token with which the owner's commands on this machine authenticate."""
        try:
            own = lan.reached_at(self.config.server.host)
            url = lan.url(own, port, tls=self._shown is not None)
            self._local = LocalToken(self._folders.state, port, url, self.config.server.tls_cert)
        except OSError as error:
            self._log.warn("no_local_token", reason=error.strerror)
            return
        self.service.people.accept_local(self._local.token)

    async def close(self) -> None:
        """End all answers and close the port."""
        await self._tasks.cancel_all()
        await self.service.close()
        await self.runner.cleanup()
        await self._metrics.close()
        # The last requests have only ended now, and are written to the usage store.
        self.service.close_record()
        if self._local is not None:
            self._local.close()

    def change(self, config: Config, found: Mapping[str, compose.Found]) -> list[str]:
        """Apply another configuration from the next request on; returns the keys that need a
        restart.

        Answers in progress keep their chain, and the state of the providers is kept. On OLPError
        nothing is changed.
        """
        config, late = _with_fixed(self.config, config)
        shown = shown_by(config)
        old = self.service
        self.service = compose.build(config, found, self._folders, self._log, before=old)
        self.config = config
        if self._shown is not None and shown is not None:
            self._shown.identity = shown
        self._server.use(self.service, config)
        self.service.open()
        # The new service awaits this task when it closes, so that a stop loses no old answer.
        self.service.tasks.spawn(old.hand_over(), "the configuration before")
        return late

    def reload(self, read: Read) -> str:
        """Read and apply the configuration; errors are logged and the old one stays in force.
        Returns a short summary.
        """
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
        """Stop accepting requests and wait for the answers in progress, up to `drain_s` seconds or
        until a second signal.
        """
        for site in list(self.runner.sites):
            await site.stop()
        drained = asyncio.ensure_future(self.service.drain(self.config.server.drain_s))
        hurried = asyncio.ensure_future(stop.second.wait())
        await asyncio.wait({drained, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        drained.cancel()


def _with_fixed(old: Config, new: Config) -> tuple[Config, list[str]]:
    """`new` with the keys that need a restart reset, and the names of those that differ."""
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
    """The server's certificate, if configured. Raises StartError if it cannot be used."""
    server = config.server
    return identity(server.tls_cert, server.tls_key) if server.tls_cert else None


@asynccontextmanager
async def running(
    config: Config, found: Mapping[str, compose.Found], folders: RunFolder, log: Log
) -> AsyncIterator[Running]:
    """Run a server over opened `folders`; leaving the block ends every answer and closes it.

    Raises StartError if the address is not available. Tests start the server here too.
    """
    shown = shown_by(config)
    if shown is not None and shown.expires_soon:
        log.warn("certificate_expires_soon", file=config.server.tls_cert, fix="olp cert")
    server = Running(config, compose.build(config, found, folders, log), folders, log, shown)
    try:
        await server.listen()
        yield server
    finally:
        await server.close()


async def run(server: Running, read: Read, supervisor: Supervisor, log: Log) -> None:
    """Serve until a stop signal; SIGHUP reloads the configuration."""
    stop = Stop()
    in_terminal = os.isatty(2)

    def reload() -> None:
        if in_terminal and not os.isatty(2):
            stop.signalled()  # SIGHUP because the terminal was closed
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
    """The stop signals: the first starts the drain, the second ends it."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.signalled)

    def signalled(self) -> None:
        """A stop signal arrived."""
        if self.first.is_set():
            self.second.set()
        self.first.set()
