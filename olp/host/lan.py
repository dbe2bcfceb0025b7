"""Addresses and names of this machine in the local network."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

_TOWARDS = (
    *("192.0.2.1", "192.168.254.254", "10.254.254.254", "172.31.254.254", "100.100.100.100"),
    *("2001:db8::1", "fd00::1"),
)
"""UDP targets for finding this machine's outgoing addresses. Connecting a UDP socket sends
nothing."""


def addresses() -> list[str]:
    """This machine's non-loopback addresses, the best first: IPv4 before IPv6, since users type
    them; private before public ones."""
    found = dict.fromkeys(_outgoing())
    found |= dict.fromkeys(_of_name(socket.gethostname()))
    usable = [ipaddress.ip_address(text) for text in found]
    kept = [a for a in usable if not (a.is_loopback or a.is_link_local or a.is_unspecified)]
    return [str(a) for a in sorted(kept, key=lambda a: (a.version, not a.is_private))]


def _outgoing() -> Iterable[str]:
    for target in _TOWARDS:
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                yield probe.getsockname()[0]
        except OSError:
            continue


def _of_name(name: str) -> Iterable[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return
    for *_, address in found:
        yield str(address[0]).partition("%")[0]


def hostname() -> str:
    """The short name of this machine, in lower case."""
    return socket.gethostname().partition(".")[0].lower() or "localhost"


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def reached_at(host: str) -> str:
    """The local address of a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def url(host: str, port: int, *, tls: bool) -> str:
    """The address of a server, without a path."""
    return f"{'https' if tls else 'http'}://{url_host(host)}:{port}"


def url_host(host: str) -> str:
    """`host` as it is written in a URL."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
