"""`olp serve`: run the server in this process, and print its start message."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from olp import __version__
from olp.cli import compose
from olp.cli.checkup import odd_here
from olp.cli.running import Read, run, running
from olp.config import Config, Problem
from olp.errors import StartError
from olp.host import lan
from olp.host.systemd import Supervisor
from olp.runtime.access.keyring import Keyring, Ring
from olp.runtime.log import LEVELS, Libraries, Log
from olp.runtime.process.run_folder import RunFolder
from olp.runtime.serving.service import Service

EXAMPLE = '{"model":"auto","stream":true,"messages":[{"role":"user","content":"hi"}]}'

DEMO = ["This is the demo: no subscription is used, and its requests are not in your own records."]


@click.command("serve")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=int, help="TCP port (default 4567; 0 picks a free one).")
@click.option("--demo", is_flag=True, help="Use the built-in mock CLI; needs no subscription.")
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
    """Start the server. Ctrl-C drains requests in flight (10 s); a second one stops immediately."""
    given = {"host": host, "port": port, "allow_anonymous": allow_anonymous or None}
    flags: Mapping[tuple[str, ...], Any] = {
        ("server", name): value for name, value in given.items() if value is not None
    }

    log = Log(level=log_level)
    notes = Notes(log, demo=demo)

    def read() -> tuple[Config, Mapping[str, compose.Found]]:
        return _read(config_file, flags, notes)

    config, found = read()
    logging.getLogger().addHandler(Libraries(log))
    folders = RunFolder(_state(config, demo=demo), compose.state_of(config) if demo else None)
    swept = folders.open()
    try:
        if not demo:
            folders.serve()
        if swept:
            log.warn("swept", processes=swept)
        _watch_by_descriptor()
        gc.freeze()  # modules live as long as the server; exclude them from garbage collection
        asyncio.run(_serve(config, found, folders, log, read, notes))
    finally:
        folders.close()


def _watch_by_descriptor() -> None:
    """Let Python 3.11 watch child processes through pidfds, as later versions do, where supported:
    it avoids one thread per child.
    """
    if sys.version_info < (3, 12) and sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.close(os.pidfd_open(os.getpid()))
            asyncio.set_child_watcher(asyncio.PidfdChildWatcher())


class Notes:
    """Warnings about the configuration: printed at the start, and logged after a reload."""

    def __init__(self, log: Log, *, demo: bool) -> None:
        self.demo = demo
        self._log = log
        self._greeted = False
        self.first: Sequence[Problem] = ()

    def take(self, problems: Iterable[Problem]) -> None:
        """Add the warnings of one reading of the configuration."""
        if not self._greeted:
            self.first = tuple(problems)
        for problem in problems if self._greeted else ():
            self._log.warn("configuration_odd", where=problem.where, told=problem.message)

    def greeted(self) -> Sequence[str]:
        """The initial warnings, as lines for the start message."""
        self._greeted = True
        return [f"WARNING: {problem}" for problem in self.first]


def _state(config: Config, *, demo: bool) -> Path:
    """The state folder; the demo has one of its own, so that its requests are not in the usage
    store.
    """
    state = compose.state_of(config)
    return compose.demo_state(state) if demo else state


def _read(
    file: str | None, flags: Mapping[tuple[str, ...], Any], notes: Notes
) -> tuple[Config, Mapping[str, compose.Found]]:
    """The configuration and the CLIs found. Raises StartError if no CLI was found or the exposure
    check fails.
    """
    demo = notes.demo
    loaded = compose.read_config(file, flags)
    config = compose.with_demo(loaded.config) if demo else loaded.config
    _check_exposure(config, Keyring(_state(config, demo=demo)).look())
    found = compose.find_providers(config, demo=demo)
    if not any(item.enabled for item in found.values()):
        raise StartError(_nothing_found(found))
    notes.take([*loaded.odd, *([] if demo else odd_here(loaded, found))])
    return config, found


def _check_exposure(config: Config, ring: Ring) -> None:
    """Listening beyond loopback requires keys or `allow_anonymous`. Raises StartError otherwise."""
    host = config.server.host
    if not (lan.is_loopback(host) or ring.on or config.server.allow_anonymous):
        raise StartError(
            f"listening on {host} would let everyone on your network use your subscriptions; "
            "create a key first: olp keys add NAME --owner (or listen on 127.0.0.1, or pass "
            "--allow-anonymous if that is what you want)"
        )


def _nothing_found(found: Mapping[str, compose.Found]) -> str:
    lines = ["no CLI was found on PATH. Install one of them:"]
    lines += [
        f"  {item.provider.info.title:14} {item.provider.info.install}"
        for item in found.values()
        if item.provider.info.rank
    ]
    return "\n".join([*lines, "or try it without any: olp serve --demo"])


async def _serve(
    config: Config,
    found: Mapping[str, compose.Found],
    folders: RunFolder,
    log: Log,
    read: Read,
    notes: Notes,
) -> None:
    async with running(config, found, folders, log) as server:
        _greet(server.url, found, server.service, config, notes)
        log.info("serving", url=server.url, version=__version__)
        if not (lan.is_loopback(config.server.host) or server.service.people.ring.on):
            log.warn("anonymous_access", host=config.server.host)
        await run(server, read, Supervisor(os.environ), log)
    log.close()
    log.info("stopped")


def _greet(
    url: str,
    found: Mapping[str, compose.Found],
    service: Service,
    config: Config,
    notes: Notes,
) -> None:
    lines = [f"OLP {__version__} listens on {url}/v1", "", "CLIs"]
    for name, item in found.items():
        if item.provider.info.rank or item.enabled:
            lines.append(f"  {name:9} {_described(item)}")
    lines += ["", "Chains"]
    for name, chain in service.catalogue.chains.items():
        lines.append(f"  {name:9} {' > '.join(map(str, chain.hops))}")
    with_key = " -H 'Authorization: Bearer olp_…'" if service.people.ring.on else ""
    lines += ["", "Try it", f"  curl -N {url}/v1/chat/completions{with_key} -d '{EXAMPLE}'", ""]
    about = DEMO if notes.demo else _about_keys(service.people.ring, config)
    lines += [*about, "", *notes.greeted()]
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _about_keys(ring: Ring, config: Config) -> list[str]:
    if ring.problem:
        return [
            "WARNING: every request is rejected, because the keys cannot be read:",
            f"  {ring.problem}",
        ]
    if ring.on:
        active = sum(key.state(time.time()) == "active" for key in ring.keys)
        lines = [f"Keys are on: each request needs one; {active} active (olp keys list)."]
        if config.server.allow_anonymous:
            lines.append("--allow-anonymous has no effect while keys exist.")
        return lines
    if lan.is_loopback(config.server.host):
        return ["No key is needed on this machine; `olp keys add NAME` enables keys."]
    return [
        "WARNING: anyone who reaches this address can use your subscriptions.",
        "`olp keys add NAME` enables keys immediately.",
    ]


def _described(item: compose.Found) -> str:
    if not item.enabled and item.command is not None:
        return "switched off"
    if item.command is None:
        return f"not found; to install it: {item.provider.info.install}"
    return " ".join(item.command) if item.provider.info.rank else "built in"
