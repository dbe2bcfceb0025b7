"""Images by their address: fetched from the open internet alone, within bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from olp.config import ImagesConfig
from olp.errors import RequestError
from olp.model import Link, Media, Message, Request, Role
from olp.runtime.serving.fetch import Fetcher, is_public

from .. import pictures

PNG = pictures.png()


async def _serve(http: web.Request) -> web.StreamResponse:
    match http.match_info["name"]:
        case "ok.png":
            return web.Response(body=PNG, content_type="image/png")
        case "to-ok":
            return web.Response(status=302, headers={"Location": "/ok.png"})
        case "round":
            return web.Response(status=302, headers={"Location": "/round"})
        case "to-inside":
            return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest"})
        case "to-file":
            return web.Response(status=302, headers={"Location": "file:///etc/passwd"})
        case "page":
            return web.Response(text="<html>", content_type="text/html")
        case "large.png":
            return web.Response(body=PNG + b"x" * 2**21)
        case _:
            return web.Response(status=404)


@pytest.fixture
async def site() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{name}", _serve)
    async with TestServer(app) as server:
        yield f"http://{server.host}:{server.port}"


def asking(*urls: str) -> Request:
    links = tuple(Link(url, f"messages[0].content[{i}]") for i, url in enumerate(urls))
    return Request("m", (Message(Role.USER, ("look", *links)),))


def here(address: str) -> bool:
    """As if this machine were the open internet, and it alone."""
    return address == "127.0.0.1" or is_public(address)


async def test_N1_an_image_is_put_in_the_place_of_its_address(site: str) -> None:
    fetcher = Fetcher(ImagesConfig(fetch=True), here)
    filled = await fetcher.filled(asking(f"{site}/ok.png", f"{site}/to-ok"))
    kinds = [
        part.media_type if isinstance(part, Media) else part for part in filled.messages[0].parts
    ]
    assert kinds == ["look", "image/png", "image/png"]


async def test_N1_a_request_without_addresses_is_left_as_it_is() -> None:
    request = Request("m", (Message(Role.USER, "hi"),))
    assert await Fetcher(ImagesConfig()).filled(request) is request


@pytest.mark.parametrize(
    "name", ["round", "to-inside", "to-file", "page", "large.png", "missing", "ok.png?a=1#b"]
)
async def test_M1_what_is_no_image_or_not_to_be_reached_is_named(site: str, name: str) -> None:
    fetcher = Fetcher(ImagesConfig(fetch=True, max_mb=1), here)
    if name.startswith("ok"):
        assert (await fetcher.filled(asking(f"{site}/{name}"))).messages[0].media
        return
    with pytest.raises(RequestError) as caught:
        await fetcher.filled(asking(f"{site}/{name}"))
    assert (caught.value.status, caught.value.param) == (400, "messages[0].content[0]")
    assert site not in caught.value.message


async def test_M1_nothing_of_the_house_is_reached(site: str) -> None:
    fetcher = Fetcher(ImagesConfig(fetch=True))
    port = site.rpartition(":")[2]
    for host in (
        *("127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "127.1", "0.0.0.0"),
        *(":secret@127.0.0.1", "me@127.0.0.1", "127.0.0.1.", "[::1", "127.0.0.1:9"),
    ):
        with pytest.raises(RequestError) as caught:
            await fetcher.filled(asking(f"http://{host}:{port}/ok.png"))
        assert caught.value.status == 400


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "::1", "::", "fe80::1%eth0"),
        *("fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1"),
        *("2002:7f00:1::", "2001:db8::1", "fec0::1"),
    ],
)
def test_M1_addresses_that_are_not_of_the_open_internet(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"])
def test_M1_addresses_of_the_open_internet(address: str) -> None:
    assert is_public(address)
