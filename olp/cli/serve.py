"""`olp serve`: the server, from the configuration to the last child's end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from aiohttp import web

from olp import __version__
from olp.cli import house
from olp.config import Config
from olp.errors import StartError
from olp.runtime.log import LEVELS, Libraries, Log
from olp.runtime.place import RunPlace
from olp.runtime.service import Service
from olp.server.app import Server

EXAMPLE = '{"model":"auto","stream":true,"messages":[{"role":"user","content":"hi"}]}'


@click.command("serve")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=int, help="TCP port (default 4567; 0 takes a free one).")
@click.option("--demo", is_flag=True, help="Use the built-in stand-in CLI: needs no subscription.")
@click.option("--allow-anonymous", is_flag=True, help="Listen beyond this machine without keys.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def command(
    config_file: str | None,
    host: str | None,
    port: int | None,
    demo: bool,
    allow_anonymous: bool,
    log_level: str,
) -> None:
    """Start the server. Ctrl-C lets running answers end (10 s); a second one ends at once."""
    given = {"host": host, "port": port, "allow_anonymous": allow_anonymous or None}
    flags: Mapping[tuple[str, ...], Any] = {
        ("server", name): value for name, value in given.items() if value is not None
    }
    config = house.read_config(config_file, flags).config
    if demo:
        config = house.with_demo(config)
    _check_exposure(config)
    found = house.find_providers(config, demo=demo)
    if not any(item.enabled for item in found.values()):
        raise StartError(_nothing_found(found))
    log = Log(level=log_level)
    logging.getLogger().addHandler(Libraries(log))
    place = RunPlace(Path(config.server.state_dir) if config.server.state_dir else None)
    swept = place.open()
    try:
        if swept:
            log.warn("swept", processes=swept)
        asyncio.run(_serve(config, found, place, log))
    finally:
        place.close()


def _check_exposure(config: Config) -> None:
    host = config.server.host
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback and not config.server.allow_anonymous:
        raise StartError(
            f"listening on {host} would let everybody on your network use your subscriptions; "
            "listen on 127.0.0.1, or say --allow-anonymous if that is what you want"
        )


def _nothing_found(found: Mapping[str, house.Found]) -> str:
    lines = ["no CLI was found on PATH. Install one of them:"]
    lines += [
        f"  {item.provider.facts.title:14} {item.provider.facts.install}"
        for item in found.values()
        if item.provider.facts.rank
    ]
    return "\n".join([*lines, "or see it work without any: olp serve --demo"])


@dataclass(frozen=True, slots=True)
class Running:
    """A server that listens. `url` is its address, with the port it really got."""

    url: str
    service: Service
    runner: web.AppRunner


@asynccontextmanager
async def running(
    config: Config, found: Mapping[str, house.Found], place: RunPlace, log: Log
) -> AsyncIterator[Running]:
    """The server over an opened `place`; leaving the block ends every answer and closes it.

    StartError if the address cannot be had. Tests start the server here too, so that they see
    what production does.
    """
    service = house.build(config, found, place, log)
    # A handler whose client has left must be cancelled, or the CLI would go on for nobody.
    runner = web.AppRunner(
        Server(service, config).application(),
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=0.1,
    )
    await runner.setup()
    try:
        url = await _listen(runner, config)
        service.open()
        yield Running(url, service, runner)
    finally:
        await service.close()
        await runner.cleanup()


async def _serve(
    config: Config, found: Mapping[str, house.Found], place: RunPlace, log: Log
) -> None:
    stop = _Stop()
    async with running(config, found, place, log) as server:
        _greet(server.url, found, server.service, config)
        log.info("serving", url=server.url, version=__version__)
        await stop.first.wait()
        seconds, in_flight = config.server.drain_s, server.service.in_flight
        log.info("draining", seconds=seconds, in_flight=in_flight)
        await _drain(server.runner, server.service, stop, seconds)
    log.info("stopped")


async def _listen(runner: web.AppRunner, config: Config) -> str:
    host, port = config.server.host, config.server.port
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise StartError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    actual = runner.addresses[0][1]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{actual}"


async def _drain(runner: web.AppRunner, service: Service, stop: _Stop, seconds: float) -> None:
    for site in list(runner.sites):
        await site.stop()
    drained = asyncio.ensure_future(service.drain(seconds))
    hurried = asyncio.ensure_future(stop.second.wait())
    await asyncio.wait({drained, hurried}, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    drained.cancel()


class _Stop:
    """The two stop signals: the first asks, the second insists."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self.first.is_set():
            self.second.set()
        self.first.set()


def _greet(url: str, found: Mapping[str, house.Found], service: Service, config: Config) -> None:
    lines = [f"OLP {__version__} listens on {url}/v1", "", "CLIs"]
    for name, item in found.items():
        if item.provider.facts.rank or item.enabled:
            lines.append(f"  {name:9} {_described(item)}")
    lines += ["", "Chains"]
    for name, chain in service.catalogue.chains.items():
        lines.append(f"  {name:9} {' > '.join(map(str, chain.hops))}")
    lines += ["", "Try it", f"  curl -N {url}/v1/chat/completions -d '{EXAMPLE}'", ""]
    if config.server.allow_anonymous:
        lines.append("WARNING: everybody who reaches this address can use your subscriptions.\n")
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _described(item: house.Found) -> str:
    if not item.enabled and item.command is not None:
        return "switched off"
    if item.command is None:
        return f"not found; install it with: {item.provider.facts.install}"
    return " ".join(item.command) if item.provider.facts.rank else "built in"
