"""M5: whoever holds connections without saying anything takes nobody else's."""

from __future__ import annotations

import http.client
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from olp.host.authority import make
from olp.host.tls import trusting
from tests.conftest import Serve
from tests.fakes.plan import Plan, says
from tests.support import PATIENCE_S, Served

DESCRIPTORS = 1024
"""What a login shell gives on most systems."""

STALLED = 600
REQUESTS = 100
SOON_S = 2.0
"""Alone each takes some milliseconds; other tests may have the processor."""


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """What is started in here may have so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def at(url: str) -> tuple[str, int]:
    """Host and port of an address."""
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


def idle_after_one(stalled: socket.socket) -> None:
    """A good request, its answer, and silence."""
    stalled.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"alive" in stalled.recv(4096)


def half_after_one(stalled: socket.socket) -> None:
    """A good request, its answer, and half of another."""
    idle_after_one(stalled)
    stalled.sendall(b"GET /healthz HT")


def half_a_body(stalled: socket.socket) -> None:
    """A body that does not come."""
    stalled.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n")
    stalled.sendall(b"Content-Length: 1000\r\n\r\n{")


WAYS: dict[str, Callable[[socket.socket], None]] = {
    "nothing": lambda stalled: None,
    "half a line": lambda stalled: stalled.sendall(b"GET /healthz HT"),
    "empty lines": lambda stalled: stalled.sendall(b"\r\n\r\nGET /healthz HT"),
    "half a head": lambda stalled: stalled.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: y"),
    "idle after one": idle_after_one,
    "half after one": half_after_one,
    "half a body": half_a_body,
}


def held(stack: ExitStack, url: str, way: Callable[[socket.socket], None]) -> int:
    """Hold connections to `url`; how many there are."""
    count = 0
    while count < STALLED:
        stalled = stack.enter_context(socket.create_connection(at(url), timeout=PATIENCE_S))
        way(stalled)
        count += 1
    return count


def slowest(ask: Callable[[], bytes]) -> float:
    """The longest that one of many requests took, each on a connection of its own."""
    longest = 0.0
    for _ in range(REQUESTS):
        began = time.monotonic()
        assert b"alive" in ask()
        longest = max(longest, time.monotonic() - began)
    return longest


def get(url: str, context: ssl.SSLContext | None = None) -> bytes:
    """One answer of /healthz."""
    host, port = at(url)
    plain = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    made = plain if context is None else _https(host, port, context)
    made.request("GET", "/healthz")
    answer = made.getresponse()
    assert answer.status == 200
    body = answer.read()
    made.close()
    return body


def _https(host: str, port: int, context: ssl.SSLContext) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=context)


def started(serve: Serve, **tables: object) -> Served:
    """A server that may have few descriptors."""
    with descriptors(DESCRIPTORS):
        return serve(**tables)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_M5_stalled_connections_are_in_nobodys_way(
    serve: Serve, plan: Plan, way: Callable[[socket.socket], None]
) -> None:
    plan.set(claude=says("hi"))
    served = started(serve)
    url = served.url()
    with ExitStack() as stack:
        assert held(stack, url, way) == STALLED
        assert slowest(lambda: get(url)) < SOON_S
        assert served.process.poll() is None
    assert "out of system resource" not in served.err
    assert [line for line in served.log if line["level"] == "error"] == []


def test_M5_stalled_handshakes_are_in_nobodys_way(serve: Serve, plan: Plan, tmp_path: Path) -> None:
    plan.set(claude=says("hi"))
    made = make(tmp_path / "tls", [], ["localhost", "127.0.0.1"], datetime.now(UTC))
    served = started(serve, server={"tls_cert": str(made.cert), "tls_key": str(made.key)})
    url = served.url()
    context = trusting(str(made.cert))
    with ExitStack() as stack:
        assert held(stack, url, WAYS["nothing"]) == STALLED
        assert slowest(lambda: get(url, context)) < SOON_S
    assert "out of system resource" not in served.err
