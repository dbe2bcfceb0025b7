"""M5: connections are counted, and have a time in which they must say what they want."""

from __future__ import annotations

import asyncio
import contextlib
import time
from urllib.parse import urlsplit

import pytest

from olp.server.door import Doors
from tests.conftest import OpenHouse
from tests.fakes.plan import hangs, says, turn
from tests.support import House, until


async def connect(house: House) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(house.url)
    return await asyncio.open_connection(address.hostname, address.port)


async def test_M5_half_a_head_is_not_waited_for(open_: OpenHouse) -> None:
    house = await open_(claude=says("hi"))
    house.server.runner.doors.head_s = 0.3
    reader, writer = await connect(house)
    writer.write(b"GET /healthz HT")
    async with asyncio.timeout(5):
        with pytest.raises(ConnectionResetError):
            assert await reader.read() == b"", "closed without a word"
            raise ConnectionResetError
    writer.close()
    await until(lambda: house.server.runner.doors.count <= 1, "it is no longer counted")


async def test_M5_a_head_in_pieces_is_whole_in_time(open_: OpenHouse) -> None:
    house = await open_(claude=says("hi"))
    house.server.runner.doors.head_s = 0.5
    reader, writer = await connect(house)
    for piece in (b"GET /healthz HTTP/1.1\r\nHost: x", b"\r\n\r", b"\n"):
        writer.write(piece)
        await asyncio.sleep(0.05)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    assert head.startswith(b"HTTP/1.1 200")
    await asyncio.sleep(0.7)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5), "kept alive"
    writer.close()


async def test_M5_a_head_in_pieces_has_no_more_time_than_one(open_: OpenHouse) -> None:
    house = await open_(claude=says("hi"))
    house.server.runner.doors.head_s = 0.5
    reader, writer = await connect(house)
    writer.write(b"\r\n\r\n")
    began = time.monotonic()
    for letter in b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 200:
        try:
            writer.write(bytes([letter]))
            await writer.drain()
        except ConnectionError:
            break
        await asyncio.sleep(0.05)
        if reader.at_eof():
            break
    assert time.monotonic() - began < 3
    writer.close()


@pytest.mark.parametrize("then", [b"", b"\r\n\r\nGET /healthz HT", b"G"])
async def test_M5_a_kept_connection_has_its_time_too(open_: OpenHouse, then: bytes) -> None:
    house = await open_(claude=says("hi"))
    doors = house.server.runner.doors
    doors.idle_s = 0.6 if not then else 60.0
    doors.head_s = 0.6
    reader, writer = await connect(house)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"alive" in await asyncio.wait_for(reader.readuntil(b"}"), 5)
    began = time.monotonic()
    writer.write(then)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 5) == b""
    assert 0.3 < time.monotonic() - began < 4
    writer.close()


async def test_M5_an_answer_may_take_longer_than_a_head(open_: OpenHouse) -> None:
    slow = turn(["init"], ["sleep", 1.2], ["start"], ["say", "hi"], ["end"])
    house = await open_(claude=slow)
    doors = house.server.runner.doors
    doors.head_s = doors.idle_s = 0.3
    assert (await house.chat()).text == "hi"


async def test_M5_where_no_more_fit_the_oldest_that_says_nothing_goes(open_: OpenHouse) -> None:
    house = await open_(claude=hangs())
    doors = house.server.runner.doors
    doors.limit = 16
    asking = asyncio.ensure_future(house.chat())
    await until(lambda: house.active, "one is being answered")
    held = [await connect(house) for _ in range(10)]
    await until(lambda: held[0][0].at_eof(), "the oldest has gone")
    assert not held[-1][0].at_eof()
    assert (await house.request("GET", "/healthz")).status == 200
    assert not asking.done(), "who is being answered stays"
    asking.cancel()
    for _, one in held:
        one.close()


class Stays:
    """A connection that is being answered, or one that is waited for."""

    def __init__(self, waits: bool = False) -> None:
        self.waits = waits
        self.gone = False

    def turn_out(self) -> None:
        """It goes."""
        self.gone = True


def test_M5_one_address_has_a_share() -> None:
    doors = Doors(limit=8)
    for peer in (("192.0.2.7", 1), ("127.0.0.1", 1), ("2001:db8::1", 1, 0, 0)):
        first = Stays()
        assert [doors.enter(one, peer) for one in (first, Stays(), Stays())] == [True, True, False]
        doors.leave(first)
        assert doors.enter(first, peer)
    assert not doors.enter(Stays(), ("2001:db8::2", 1, 0, 0)), "the same household"
    assert doors.count == 6


def test_M5_of_an_address_that_has_its_share_the_oldest_that_waits_goes() -> None:
    doors = Doors(limit=16)
    busy, old, young = Stays(), Stays(waits=True), Stays(waits=True)
    others = [Stays(waits=True) for _ in range(3)]
    assert all(doors.enter(one, (f"192.0.2.{n}", 1)) for n, one in enumerate(others))
    assert all(doors.enter(one, ("127.0.0.1", 1)) for one in (busy, old, young, Stays()))
    assert doors.enter(Stays(), ("127.0.0.1", 1))
    assert (busy.gone, old.gone, young.gone) == (False, True, False)
    assert not any(one.gone for one in others), "of nobody else"
    doors.leave(old)
    assert doors.count == 7, "whoever went is not counted twice"


def test_M5_who_was_answered_last_is_the_last_to_go() -> None:
    doors = Doors(limit=4)
    guests = [Stays(waits=True) for _ in range(4)]
    for n, one in enumerate(guests):
        assert doors.enter(one, (f"192.0.2.{n}", 1))
    doors.waits(guests[0])
    assert doors.enter(Stays(), ("192.0.2.9", 1))
    assert [one.gone for one in guests] == [False, True, False, False]
