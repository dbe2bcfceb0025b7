"""Service discovery in the local network: multicast DNS, `_olp._tcp`.

`zeroconf` is optional, and is imported only if this is enabled.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from olp import __version__
from olp.errors import OLPError
from olp.host import lan
from olp.runtime.log import Log

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceInfo

KIND = "_olp._tcp.local."

ANSWER_MS = 1500
"""Milliseconds to wait for the address of a discovered server."""


class NoZeroconf(OLPError):
    """The library is not installed."""

    def __init__(self) -> None:
        super().__init__(
            f"this needs the package zeroconf: {sys.executable} -m pip install zeroconf"
        )


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One OLP in the network. `url` is its base URL by address, `local_url` by name."""

    name: str
    url: str
    local_url: str
    version: str


async def announce(host: str, port: int, *, tls: bool, log: Log) -> None:
    """Announce this server until cancelled. Errors are logged and do not stop the server."""
    try:
        from zeroconf import Error
        from zeroconf.asyncio import AsyncZeroconf
    except ImportError:
        log.warn("announce_failed", error=str(NoZeroconf()))
        return
    addresses = lan.addresses() if host in ("0.0.0.0", "::") else [host]
    if lan.is_loopback(host) or not addresses:
        log.warn("announce_failed", error="OLP listens on this machine only, or is in no network")
        return
    try:
        async with AsyncZeroconf() as network:
            await network.async_register_service(
                _described(addresses, port, tls=tls), allow_name_change=True
            )
            log.info("announced", kind=KIND, addresses=addresses)
            await asyncio.Event().wait()
    except (Error, OSError) as error:
        log.warn("announce_failed", error=str(error) or type(error).__name__)


def _described(addresses: list[str], port: int, *, tls: bool) -> AsyncServiceInfo:
    from zeroconf.asyncio import AsyncServiceInfo

    name = lan.hostname()
    return AsyncServiceInfo(
        KIND,
        f"OLP on {name}.{KIND}",
        parsed_addresses=addresses,
        port=port,
        server=f"{name}.local.",
        properties={"path": "/v1", "version": __version__, "tls": "1" if tls else "0"},
    )


async def browse(seconds: float) -> list[Neighbour]:
    """The servers that answer within `seconds`. Raises NoZeroconf, or OLPError on a network
    error."""
    try:
        from zeroconf import Error, ServiceStateChange, Zeroconf
        from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf
    except ImportError:
        raise NoZeroconf from None
    names: dict[str, None] = {}

    def changed(
        zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        if state_change is not ServiceStateChange.Removed:
            names[name] = None

    try:
        async with AsyncZeroconf() as network:
            browser = AsyncServiceBrowser(network.zeroconf, KIND, handlers=[changed])
            await asyncio.sleep(seconds)
            await browser.async_cancel()
            found = await asyncio.gather(*(_asked(network, name) for name in names))
    except (Error, OSError) as error:
        raise OLPError(f"the network cannot be asked: {error}") from None
    return sorted(filter(None, found), key=lambda neighbour: neighbour.name)


async def _asked(network: Any, name: str) -> Neighbour | None:
    info = await network.async_get_service_info(KIND, name, ANSWER_MS)
    if info is None or info.port is None:
        return None
    addresses = info.parsed_scoped_addresses() or [info.server.rstrip(".")]
    # Untrusted text from other machines, printed to a terminal.
    told = {_clean(k): _clean(v or b"") for k, v in info.properties.items()}
    scheme = "https" if told.get("tls") == "1" else "http"
    first = min(addresses, key=lambda address: ":" in address)
    return Neighbour(
        _clean(name.removesuffix(f".{KIND}").encode()),
        f"{scheme}://{lan.url_host(_clean(first.encode()))}:{info.port}/v1",
        f"{scheme}://{_clean((info.server or '').rstrip('.').encode())}:{info.port}/v1",
        told.get("version", "unknown"),
    )


def _clean(data: bytes) -> str:
    """Printable text of a bounded length."""
    text = data.decode("utf-8", "replace")[:128]
    return "".join(c if c.isprintable() else "?" for c in text)
