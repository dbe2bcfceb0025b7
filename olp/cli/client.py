"""HTTP client of the running server, for commands that show or change its state."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

import click

from olp.cli import compose
from olp.config import Config
from olp.errors import OLPError
from olp.host import lan
from olp.host.tls import trusting
from olp.runtime.access.local_server import LocalServer, local_servers

Command = TypeVar("Command", bound=Callable[..., Any])

HERE = re.compile(r"https?://(localhost|127\.[0-9.]+|\[::1\])(:\d+)?$")


class NotRunning(OLPError):
    """No server answers at the given or any known address."""


class _NotOlp(Exception):
    """Not an OLP server, or nothing listens."""


class _NotOurs(Exception):
    """An OLP server that rejects our token."""


def which(command: Command) -> Command:
    """The options that say which server a command talks to: `port` and `url`."""
    port = click.option("--port", type=click.IntRange(1, 65535), help="Port of the server.")
    url = click.option("--url", metavar="URL", help="URL of the server.")
    return port(url(command))


def configured(given: str | None) -> Config:
    """The configuration for a command that works despite errors in the file; only `state_dir` must
    be valid. Prints a warning if there are errors.
    """
    loaded = compose.look_at_config(given)
    if any(problem.message.startswith("server.state_dir") for problem in loaded.wrong):
        loaded.checked()
    if count := len(loaded.wrong):
        mistakes = "a mistake" if count == 1 else f"{count} mistakes"
        warn(
            f"there {'is' if count == 1 else 'are'} {mistakes} in the configuration; "
            "`olp config check` names them. A running server keeps what it read before."
        )
    return loaded.config


class Link:
    """The server that a command talks to: the one at `port` or `url`, else the configured one, else
    any that runs on the state folder.
    """

    def __init__(self, config: Config, port: int | None = None, url: str | None = None) -> None:
        if port is not None and url is not None:
            raise click.UsageError("--port and --url exclude each other")
        self._state = compose.state_of(config)
        self._wanted = list(_candidates(config, self._state, port, url and _base(url)))

    def call(self, path: str, *, method: str = "GET", timeout: float = 30) -> Any:
        """Call `path` and return the parsed JSON; `timeout` is in seconds. Raises NotRunning if no
        server answers, OLPError for an error response.
        """
        refused: OLPError | None = None
        for server, state in self._wanted:
            try:
                found = _ask(server, path, method, timeout)
            except _NotOlp:
                continue
            except _NotOurs as error:  # another user's server; ours may be at another address
                refused = refused or OLPError(str(error))
                continue
            self._wanted = [(server, state)]
            return found
        raise refused or NotRunning(f"no OLP answers at {self.url}; is `olp serve` running?")

    @property
    def url(self) -> str:
        """The server's address; after a call, that of the server which answered."""
        return self._wanted[0][0].url

    @property
    def state(self) -> Path:
        """The state folder of that server, as far as it is known."""
        return self._wanted[0][1]


def _base(url: str) -> str:
    url = url if "://" in url else f"http://{url}"
    return re.sub(r"/v1/?$|/$", "", url)


def _candidates(
    config: Config, state: Path, port: int | None, url: str | None
) -> Iterator[tuple[LocalServer, Path]]:
    """The servers to try, each with its state folder; likely ones first."""
    demo = compose.demo_state(state)
    known = [*((s, state) for s in local_servers(state)), *((s, demo) for s in local_servers(demo))]
    own = config.server.port
    if url is not None:
        at = int(re.sub(r".*:", "", url)) if re.search(r":\d+$", url) else 0
        mine = (k for k in known if k[0].url == url or (HERE.match(url) and k[0].port == at))
        token, folder = next(((s.token, f) for s, f in mine), ("", state))
        yield LocalServer(at, token, url, config.server.tls_cert), folder
        return
    if port is not None:
        yield from (k for k in known if k[0].port == port)
        yield _configured(config, port), state
        return
    yield from (k for k in known if k[0].port == own)
    yield from (k for k in known if k[0].port != own)
    yield _configured(config, own), state


def _configured(config: Config, port: int) -> LocalServer:
    """The server at the configured address, with an unknown token."""
    cert = config.server.tls_cert
    url = lan.url(lan.reached_at(config.server.host), port, tls=bool(cert))
    return LocalServer(port, "", url, cert)


def _ask(server: LocalServer, path: str, method: str, timeout: float) -> Any:
    url = server.url + path
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if url.startswith("https:") and server.cert:
        handlers.append(urllib.request.HTTPSHandler(context=trusting(server.cert)))
    try:
        data = b"" if method == "POST" else None
        request = urllib.request.Request(url, method=method, data=data)
        if server.token:
            request.add_header("Authorization", f"Bearer {server.token}")
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.headers.get("Server") != "olp":
            raise _NotOlp from None
        kind = _NotOurs if error.code == 401 else OLPError
        raise kind(f"{url} answered {error.code}: {_message(error)}") from None
    except TimeoutError:
        raise OLPError(f"{url} did not answer within {timeout:g} s") from None
    except (OSError, ValueError, HTTPException):
        raise _NotOlp from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return error.reason


def warn(text: str) -> None:
    """Print a warning to standard error."""
    click.secho(f"olp: warning: {text}", fg="yellow", err=True, color=sys.stderr.isatty())
