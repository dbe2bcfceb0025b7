"""M5: connections are counted, and have a time in which they must say what they want."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from olp.server.door import Doors
from tests.conftest import OpenHouse
from tests.fakes.plan import says
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


async def test_M5_connections_beyond_the_limit_are_refused_and_the_others_served(
    open_: OpenHouse,
) -> None:
    house = await open_(claude=says("hi"))
    doors = house.server.runner.doors
    doors.limit = doors.count + 3
    held = [await connect(house) for _ in range(3)]
    await until(lambda: doors.count == doors.limit, "all are in")
    reader, writer = await connect(house)
    async with asyncio.timeout(5):
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readexactly(1)
    writer.close()
    for _, one in held:
        one.close()
    await until(lambda: doors.count < doors.limit, "there is room again")
    assert (await house.chat()).status == 200


def test_M5_one_address_has_a_share_and_this_machine_has_all() -> None:
    doors = Doors(limit=8)
    assert [doors.enter("192.0.2.7") for _ in range(3)] == [True, True, False]
    assert [doors.enter("2001:db8::/64") for _ in range(3)] == [True, True, False]
    assert all(doors.enter("127.0.0.1") for _ in range(4))
    assert not doors.enter("127.0.0.1")
    doors.leave("192.0.2.7")
    assert doors.enter("192.0.2.7")
