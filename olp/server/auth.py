"""Who may ask. The first step of every request, before its body is read.

Without keys everybody who can reach the port is the owner, which is why the port is this machine's
alone by default. Two things on this machine could still be turned against it: a web page in the
owner's browser, which may send requests to any address, and a foreign name that is made to point
here (DNS rebinding). So a page's origin must be configured, and the address that the client used
must be one of this machine's. With keys the second is no danger any more: a page has none to send.
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
"""A name or an address, and perhaps a port: nothing else is where a client can have meant to go."""

_ORIGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://[\w.:-]+", re.ASCII)
_PAGES = frozenset({"http", "https", "ftp", "file", "content", "filesystem", "blob", "data"})
"""Origins of pages, from wherever: also such as lie on this machine, having been sent to it."""

_KEY = re.compile(r"olp_[A-Za-z0-9_-]{20,}")
"""What is a key, or near enough to one to be somebody's."""


class Gatekeeper:
    """Checks each request's surroundings and its key."""

    def __init__(self, config: ServerConfig, people: People, throttle: Throttle, log: Log) -> None:
        here = socket.gethostname().lower()
        self._hosts = _LOCAL_NAMES | {here, here.partition(".")[0], config.host.lower()}
        self._hosts |= {name.lower() for name in config.allowed_hosts}
        self._origins = frozenset(origin.rstrip("/") for origin in config.cors_origins)
        self._people = people
        self._throttle = throttle
        self._log = log

    async def check(self, request: web.Request) -> Caller:
        """Who `request` is from; RequestError 401 or 403 if it must not be served."""
        ring = self._people.ring
        self._check_surroundings(request, ring)
        refuse_key_in(request.path, "the address")
        refuse_key_in(request.query_string, "the address")
        try:
            return self._people.caller(_tokens(request), ring)
        except RequestError as error:
            if error.status == 401:
                await self._refused(request, error)
            raise

    async def _refused(self, request: web.Request, error: RequestError) -> None:
        address = request.remote or "unknown"
        if error.code != "invalid_api_key":
            level = "debug" if error.code == "missing_api_key" else "info"
            self._log.write(level, "key_refused", reason=error.code, remote=address)
            return
        wrong = self._throttle.wrong(address)
        if wrong & (wrong - 1) == 0:  # 1, 2, 4, 8, …: a guesser cannot fill the log
            self._log.warn("key_refused", reason=error.code, remote=address, times=wrong)
        await self._throttle.hold(address)

    def check_surroundings(self, request: web.Request) -> None:
        """RequestError 403 if `request` comes from where it must not come from."""
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
        """Whether pages of `origin` may call. Apps that send an origin of their own kind
        (`app://`, `vscode-webview://`) are no web pages."""
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
    """RequestError 403 unless `caller` is an owner."""
    if not caller.owner:
        raise RequestError("this is for the owner alone", status=403, code="owner_only")


def _tokens(request: web.Request) -> list[str]:
    """The keys that came with `request`, each once. One that is sent in two ways is one; what has
    no scheme, or another than Bearer, is none of ours."""
    found = [value.strip() for value in request.headers.getall("x-api-key", ())]
    for value in request.headers.getall("Authorization", ()):
        scheme, _, token = value.strip().partition(" ")
        if scheme.lower() == "bearer":
            found.append(token.strip())
    return list(dict.fromkeys(token for token in found if token))


def refuse_key_in(text: str, where: str) -> None:
    """RequestError 400 if a key stands where it would be shown, logged or passed on."""
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
