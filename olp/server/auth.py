"""Who may ask. The first step of every request, before its body is read.

Without keys everybody who can reach the port is the owner, which is why the port is this machine's
alone by default. Two things on this machine could still be turned against it: a web page in the
owner's browser, which may send requests to any address, and a foreign name that is made to point
here (DNS rebinding). So a page's origin must be configured, and the address that the client used
must be one of this machine's.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from aiohttp import web

from olp.config import ServerConfig
from olp.errors import RequestError

_LOCAL_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. An owner sees everything, a member what is theirs."""

    name: str
    owner: bool


OWNER = Caller("owner", owner=True)


class Gatekeeper:
    """Checks each request's surroundings."""

    def __init__(self, config: ServerConfig) -> None:
        here = socket.gethostname().lower()
        self._hosts = _LOCAL_NAMES | {here, here.partition(".")[0], config.host.lower()}
        self._hosts |= {name.lower() for name in config.allowed_hosts}
        self._origins = frozenset(origin.rstrip("/") for origin in config.cors_origins)

    def check(self, request: web.Request) -> Caller:
        """Who `request` is from; RequestError 403 if it must not be served."""
        self._check_host(request.host)
        origin = request.headers.get("Origin")
        if origin is not None and not self.allows(origin):
            raise RequestError(
                "Web pages of this origin may not call OLP. "
                "The owner can allow it with `cors_origins` in [server].",
                status=403,
                code="origin_not_allowed",
            )
        return OWNER

    def allows(self, origin: str) -> bool:
        """Whether pages of `origin` may call. Apps that send an origin of their own kind
        (`app://`, `vscode-webview://`) are no web pages."""
        scheme = origin.partition("://")[0].lower()
        return (
            origin in self._origins
            or "*" in self._origins
            or scheme not in ("http", "https", "null")
        )

    def _check_host(self, host: str) -> None:
        name = _without_port(host).lower().rstrip(".")
        if name in self._hosts or name.endswith((".local", ".localhost")) or _is_address(name):
            return
        raise RequestError(
            "This machine is not known by the name in your address. "
            "The owner can allow it with `allowed_hosts` in [server].",
            status=403,
            code="host_not_allowed",
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
