"""N4 and I1: what is no proper HTTP is answered in the shape of the API, too, and at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import OpenHouse
from tests.fakes.plan import hangs, says, turn
from tests.support import CHAT, House, ask, soon, until

HOST = b"Host: localhost\r\n"
POST = b"POST " + CHAT.encode() + b" HTTP/1.1\r\n" + HOST
BODY = json.dumps(ask()).encode()
SIZED = b"Content-Length: %d\r\n" % len(BODY)


@dataclass
class Raw:
    """What came back on a connection: the last answer, and what came before it."""

    before: bytes
    status: int
    headers: Mapping[str, str]
    body: Any


def parsed(data: bytes) -> Raw:
    """The bytes of a connection as an answer. Words such as `100 Continue` may stand before."""
    before = b""
    while data.startswith(b"HTTP/1.1 100 "):
        word, _, data = data.partition(b"\r\n\r\n")
        before += word
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Raw(before, int(first.split()[1]), headers, json.loads(body))


async def connected(house: House) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(house.url)
    return await asyncio.open_connection(address.hostname, address.port)


async def talk(house: House, data: bytes, *, eof: bool = False) -> Raw:
    """What comes back for `data` until the server closes."""
    reader, writer = await connected(house)
    writer.write(data)
    if eof:
        writer.write_eof()
    try:
        return parsed(await soon(reader.read()))
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


MANY = b"".join(b"X-%d: y\r\n" % n for n in range(500))


@pytest.mark.parametrize(
    ("data", "status", "code", "word"),
    [
        (b"BREW / HTTP/1.1\r\n" + HOST, 501, "unknown_method", "use GET or POST"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n", 400, "bad_request", "spoke https"),
        (b"GET /healthz NONSENSE\r\n" + HOST, 400, "bad_request", "no HTTP request"),
        (b"GET /healthz HTTP/9.9\r\n" + HOST, 400, "bad_request", "no HTTP request"),
        (b"GET /healthz HTTP/1.1\r\n", 400, "bad_request", "host"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + HOST, 400, "bad_request", "duplicate"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"Bad Header\r\n", 400, "bad_request", "header"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + MANY, 431, "headers_too_large", "many headers"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: %s\r\n" % (b"y" * 20_000), 431, None, "8 kB"),
        (b"GET /%s HTTP/1.1\r\n" % (b"a" * 20_000) + HOST, 431, "headers_too_large", "8 kB"),
        (POST + b"Content-Length: -1\r\n", 400, "bad_request", "no HTTP request"),
        (POST + SIZED + b"Transfer-Encoding: chunked\r\n", 400, "bad_request", "no HTTP request"),
        (POST + b"Content-Encoding: br\r\n" + SIZED, 415, "unsupported_encoding", "gzip"),
        (POST + b"Content-Encoding: zstd\r\n" + SIZED, 415, "unsupported_encoding", "gzip"),
        (POST + b"Content-Encoding: rot13\r\n" + SIZED, 415, "unsupported_encoding", "gzip"),
        (POST + b"Content-Encoding: gzip, gzip\r\n" + SIZED, 415, None, "gzip"),
        (POST + b"Expect: the-inquisition\r\n" + SIZED, 417, "expectation_failed", "Expect"),
        (b"GET /healthz HTTP/1.1\r\nExpect: x\r\n" + HOST, 417, "expectation_failed", "Expect"),
        (b"GET /\xff\xfe HTTP/1.1\r\n" + HOST, 400, "bad_request", "invalid char in url path"),
        (b"GET /%ff HTTP/1.1\r\n" + HOST, 404, "not_found", "nothing at"),
        (b"GET /v1/models/%ff HTTP/1.1\r\n" + HOST, 404, "model_not_found", "does not exist"),
        (b"GET http://[x HTTP/1.1\r\n" + HOST, 400, "bad_request", ""),
        (b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST, 404, None, ""),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else None,
)
async def test_N4_what_is_no_proper_HTTP_is_told_in_the_shape_of_the_api(
    open_: OpenHouse, data: bytes, status: int, code: str | None, word: str
) -> None:
    house = await open_(claude=says("never"))
    rest = BODY if data.startswith(POST) else b""
    answer = await talk(house, data + b"Connection: close\r\n\r\n" + rest)
    assert answer.status == status, answer
    error = answer.body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert word in error["message"], error
    assert code in (None, error["code"])
    assert answer.headers["server"] == "olp"
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-olp-request-id"] == answer.headers["x-request-id"]
    assert answer.headers["x-olp-provider-used"] == "none"
    assert house.plan.calls() == []


async def test_L3_what_cannot_be_read_is_neither_told_nor_logged(open_: OpenHouse) -> None:
    house = await open_()
    secret = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization olp_SECRETSECRETSECRET1\r\n\r\n"
    assert b"SECRET" not in json.dumps((await talk(house, secret)).body).encode()
    assert "SECRET" not in json.dumps(house.log)


# --- bodies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [b"", b"Expect: 100-continue\r\n"])
async def test_M5_a_body_that_is_announced_as_too_large_is_not_waited_for(
    open_: OpenHouse, more: bytes
) -> None:
    house = await open_(claude=says("never"))
    reader, writer = await connected(house)
    began = time.monotonic()
    writer.write(POST + more + b"Content-Length: 1000000000000\r\n\r\n")
    head = await soon(reader.readuntil(b"\r\n\r\n"))
    assert time.monotonic() - began < 1
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"request_too_large" in await soon(reader.readuntil(b"}}"))
    writer.close()


async def test_N5_who_asks_before_sending_a_body_is_told_to_go_on(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    reader, writer = await connected(house)
    writer.write(POST + SIZED + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
    assert await soon(reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(BODY)
    answer = parsed(await soon(reader.read()))
    assert answer.body["choices"][0]["message"]["content"] == "ok"
    writer.close()


# --- a client that says no more ------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_N5_who_has_said_all_and_still_listens_is_answered(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=turn(["init"], ["sleep", 0.5], ["start"], ["say", "ok"], ["end"]))
    body = json.dumps(ask(stream=stream)).encode()
    reader, writer = await connected(house)
    writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    writer.write_eof()
    got = await soon(reader.read())
    assert got.count(b"HTTP/1.1 200 OK") == 1
    assert b'"ok"' in got and (b"[DONE]" in got) is stream
    writer.close()


async def test_N5_small_requests_before_an_end_are_all_answered(open_: OpenHouse) -> None:
    house = await open_()
    reader, writer = await connected(house)
    writer.write((b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") * 3)
    writer.write_eof()
    assert (await soon(reader.read())).count(b"alive") == 3
    writer.close()


async def test_N4_a_body_that_ends_too_soon_is_told_so(open_: OpenHouse) -> None:
    house = await open_(claude=says("never"))
    data = POST + b"Content-Length: 5000\r\n\r\n" + BODY[:-20]
    began = time.monotonic()
    answer = await talk(house, data, eof=True)
    assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_json")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("half_first", [False, True])
async def test_S22_who_leaves_is_noticed_although_it_could_be_listening(
    open_: OpenHouse, half_first: bool
) -> None:
    house = await open_(claude=hangs())
    _, writer = await connected(house)
    writer.write(POST + SIZED + b"\r\n" + BODY)
    await until(lambda: house.active, "it is being answered")
    if half_first:
        writer.write_eof()
        await asyncio.sleep(0.5)
        assert house.active, "it may be listening"
    writer.close()
    await until(lambda: not house.active, "nobody is asked for nobody", 8)
