"""A claude that was killed leaves nothing outside OLP's own folders."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from .house import House
from .vendors.client import Vendors

ANSWERED, LEFT, REFUSED = 6, 6, 4


def found(home: Path) -> set[str]:
    """Everything in the home of the server's user."""
    return {str(path) for path in home.rglob("*")}


def alive(path: str) -> bool:
    """Whether it is what a process that waits has entered of itself."""
    name = Path(path).name.partition(".")[0]
    return "/sessions/" in path and name.isdigit() and Path(f"/proc/{name}").exists()


def leave(house: House) -> None:
    """A client that goes before it has its answer."""
    host, _, port = house.url.removeprefix("http://").partition(":")
    messages = b'[{"role": "user", "content": "x"}]'
    body = b'{"model": "claude/sonnet", "stream": true, "messages": %s}' % messages
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head.encode() + body)
        time.sleep(0.7)


def test_M6_killed_claudes_leave_nothing(house: House, vendors: Vendors) -> None:
    house.chat("hi [[OK]]", "claude/sonnet")  # what a first run makes for good
    before = found(house.home)
    for _ in range(ANSWERED):
        assert house.chat("hi [[OK]]", "claude/sonnet").status == 200
    for _ in range(REFUSED):
        assert house.chat("[[EVIL:Bash]]", "claude/sonnet").status == 502
    vendors.scenario("anthropic", "HANG")
    for _ in range(LEFT):
        leave(house)
    vendors.reset()
    end = time.monotonic() + 20
    while left := [path for path in found(house.home) - before if not alive(path)]:
        assert time.monotonic() < end, left
        time.sleep(0.2)
