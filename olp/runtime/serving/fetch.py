"""Fetches the images that a request references by URL, if the owner enabled it.

The client chooses the URL, and the server fetches it, so SSRF into the home network must be
prevented: every resolved address is checked when the connection is made, redirects included, and
anything but a public internet address is refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from olp.config import ImagesConfig
from olp.errors import unusable
from olp.media import check_total, from_bytes, image
from olp.model import Link, Media, Message, Part, Request

FETCH_S = 20.0
"""Timeout in seconds for all images of a request together."""

MAX_REDIRECTS = 3

MAX_TOTAL = 32 * 1024 * 1024
"""Limit of base64 characters for all images of a request together."""


def is_public(address: str) -> bool:
    """Whether `address` is globally routable and embeds no other address (mapped IPv4, 6to4,
    Teredo, NAT64)."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if inner or ip.is_site_local or ip in _NAT64:
            return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def _is_number(host: str) -> bool:
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True


def is_outside(address: str) -> bool:
    """Whether `address` is public and outside this machine's own subnet: in IPv6 the hosts of the
    LAN have public addresses too."""
    if not is_public(address):
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # which sends nothing
            mine = ipaddress.ip_address(probe.getsockname()[0])
    except OSError:
        return True  # no route, so the connection will fail anyway
    bits = 64 if mine.version == 6 else 32
    return ipaddress.ip_address(address) not in ipaddress.ip_network(f"{mine}/{bits}", strict=False)


_NAT64 = ipaddress.IPv6Network("64:ff9b::/32")


class _PublicResolver(AbstractResolver):
    """Resolves names, and drops addresses that are not allowed."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._inner = aiohttp.ThreadedResolver()
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        kept = [one for one in found if self._allowed(one["host"])]
        if not kept:
            raise OSError("not an address of the open internet")
        return kept

    async def close(self) -> None:
        await self._inner.close()


class Fetcher:
    """Fetches images. `allowed` tells whether an IP address may be connected to."""

    def __init__(self, config: ImagesConfig, allowed: Callable[[str], bool] = is_outside) -> None:
        self._config = config
        self._allowed = allowed

    async def filled(self, request: Request) -> Request:
        """`request` with its links replaced by the images. Raises RequestError 400 if one cannot be
        fetched."""
        links = dict.fromkeys(link for message in request.messages for link in message.links)
        if not links:
            return request
        connector = aiohttp.TCPConnector(resolver=_PublicResolver(self._allowed))
        try:
            async with (
                asyncio.timeout(FETCH_S),
                aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            ):
                images: dict[Link, Media] = {}
                for link in links:
                    images[link] = await self._fetched(session, link)
                    if sum(len(image.data) for image in images.values()) > MAX_TOTAL:
                        raise unusable(link.path, "all images together are too large")
        except TimeoutError:
            raise unusable("messages", f"its images did not come within {FETCH_S:g} s") from None
        messages = tuple(_with(message, images) for message in request.messages)
        check_total(messages)
        return replace(request, messages=messages)

    async def _fetched(self, session: aiohttp.ClientSession, link: Link) -> Media:
        try:
            url = URL(link.url)
            for _ in range(MAX_REDIRECTS + 1):
                self._check(link, url)
                async with session.get(url, allow_redirects=False) as response:
                    if response.status in (301, 302, 303, 307, 308):
                        url = url.join(URL(response.headers.get("Location", "")))
                        continue
                    if response.status != 200:
                        raise unusable(link.path, f"its server answered {response.status}")
                    mime = response.content_type.lower()
                    found = from_bytes(link.path, await self._read(link, response), mime)
                    return image(link.path, found)
        except (aiohttp.ClientError, OSError, ValueError):
            raise unusable(link.path, "it could not be fetched") from None
        raise unusable(link.path, "it is redirected too often")

    def _check(self, link: Link, url: URL) -> None:
        """Checks literal IP addresses, which aiohttp does not pass to the resolver."""
        if url.scheme not in ("http", "https") or not url.host or url.user or url.password:
            raise unusable(link.path, "it must be an http or https address")
        try:
            allowed = self._allowed(url.host)
        except ValueError:
            # A name, which the resolver checks, or an IPv4 address in another notation.
            allowed = not _is_number(url.host)
        if not allowed:
            raise unusable(link.path, "it could not be fetched")

    async def _read(self, link: Link, response: aiohttp.ClientResponse) -> bytes:
        limit = int(self._config.max_mb * 1024 * 1024)
        data = bytearray()
        async for chunk in response.content.iter_chunked(64 * 1024):
            data += chunk
            if len(data) > limit:
                raise unusable(link.path, f"it is larger than {self._config.max_mb:g} MiB")
        return bytes(data)


def _with(message: Message, images: Mapping[Link, Media]) -> Message:
    if not message.links:
        return message
    parts: tuple[Part, ...] = tuple(
        images[part] if isinstance(part, Link) else part for part in message.content
    )
    return replace(message, content=parts)
