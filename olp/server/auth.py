"""Authorization, checked before the body of a request is read.

Without keys everyone who can reach the port is an owner, which is why it listens on loopback by
default. Two attacks on this machine remain: a web page in the owner's browser, which may send
requests to any address, and a foreign host name that resolves to this machine (DNS rebinding). So
the origin of a page must be configured, and the Host header must name this machine. With keys the
second is harmless, since the page has no key.
"""

from __future__ import annotations

import ipaddress
import re
import socket

from aiohttp import web

from olp.config import ServerConfig
from olp.errors import RequestError
from olp.runtime.access.caller import Caller
from olp.runtime.access.keyring import Ring
from olp.runtime.access.people import People
from olp.runtime.log import Log
from olp.server.throttle import Throttle

__all__ = ["Caller", "Gatekeeper", "check_owner", "refuse_key_in"]

_LOCAL_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})

_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::\d{1,5})?", re.ASCII)
"""A valid Host header: a name or an address, with an optional port."""

_ORIGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://[\w.:-]+", re.ASCII)
_PAGES = frozenset({"http", "https", "ftp", "file", "content", "filesystem", "blob", "data"})
"""Schemes of origins that are web pages or documents, including local ones."""

_KEY = re.compile(r"olp_[A-Za-z0-9_-]{20,}")
"""Matches keys, and anything that looks like one."""


class Gatekeeper:
    """Checks the host, origin and key of each request."""

    def __init__(self, config: ServerConfig, people: People, throttle: Throttle, log: Log) -> None:
        here = socket.gethostname().lower()
        self._hosts = _LOCAL_NAMES | {here, here.partition(".")[0], config.host.lower()}
        self._hosts |= {name.lower() for name in config.allowed_hosts}
        self._origins = frozenset(origin.rstrip("/") for origin in config.cors_origins)
        self._people = people
        self._throttle = throttle
        self._log = log

    async def check(self, request: web.Request) -> Caller:
        """The caller of `request`. Raises RequestError with status 401 or 403 if it is not
        authorized, and 400 if the URL contains a key.
        """
        ring = self._people.ring
        self._check_surroundings(request, ring)
        refuse_key_in(request.path, "the address")
        refuse_key_in(request.query_string, "the address")
        try:
            return self._people.caller(_tokens(request), ring)
        except RequestError as error:
            if error.status == 401:
                await self._log_and_delay(request, error)
            raise

    async def _log_and_delay(self, request: web.Request, error: RequestError) -> None:
        address = request.remote or "unknown"
        if error.code != "invalid_api_key":
            level = "debug" if error.code == "missing_api_key" else "info"
            self._log.write(level, "key_refused", reason=error.code, remote=address)
            return
        wrong = self._throttle.wrong(address)
        if wrong & (wrong - 1) == 0:  # 1, 2, 4, 8, …: guessing keys cannot fill the log
            self._log.warn("key_refused", reason=error.code, remote=address, times=wrong)
        await self._throttle.hold(address)

    def check_surroundings(self, request: web.Request) -> None:
        """Check host and origin only. Raises RequestError (403) if they are not allowed."""
        self._check_surroundings(request, self._people.ring)

    def _check_surroundings(self, request: web.Request, ring: Ring) -> None:
        if not ring.on:
            self._check_host(request.host)
        origin = request.headers.get("Origin")
        if origin is not None and not self.allows(origin):
            raise RequestError(
                "Web pages of this origin may not call OLP. "
                "The owner can allow it with `cors_origins` in [server].",
                status=403,
                code="origin_not_allowed",
            )

    def allows(self, origin: str) -> bool:
        """Whether `origin` may call. Apps with an origin scheme of their own (`app://`,
        `vscode-webview://`) are not web pages and are allowed.
        """
        if origin in self._origins or "*" in self._origins:
            return True
        app = _ORIGIN.fullmatch(origin)
        return app is not None and app["scheme"].lower() not in _PAGES

    def _check_host(self, host: str) -> None:
        found = _HOST.fullmatch(host)
        name = (found["address"] or found["name"]).lower().rstrip(".") if found else ""
        if name in self._hosts or name.endswith((".local", ".localhost")) or _is_address(name):
            return
        raise RequestError(
            "This machine is not known by the name in your address. "
            "The owner can allow it with `allowed_hosts` in [server].",
            status=403,
            code="host_not_allowed",
        )


def check_owner(caller: Caller) -> None:
    """Raise RequestError (403) unless `caller` is an owner."""
    if not caller.owner:
        raise RequestError("this is for the owner alone", status=403, code="owner_only")


def _tokens(request: web.Request) -> list[str]:
    """The distinct keys in the headers of `request`: `x-api-key` and bearer tokens. Other
    authorization schemes are ignored.
    """
    found = [value.strip() for value in request.headers.getall("x-api-key", ())]
    for value in request.headers.getall("Authorization", ()):
        scheme, _, token = value.strip().partition(" ")
        if scheme.lower() == "bearer":
            found.append(token.strip())
    return list(dict.fromkeys(token for token in found if token))


def refuse_key_in(text: str, where: str) -> None:
    """Raise RequestError (400) if `text` contains a key, as it would be displayed, logged or passed
    on.
    """
    if _KEY.search(text):
        raise RequestError(
            f"A key was sent in {where}, where others can see it. Send it in a header, and have "
            "it replaced: `olp keys rotate NAME`.",
            status=400,
            code="misplaced_key",
        )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
