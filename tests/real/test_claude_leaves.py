"""A claude that was killed leaves nothing outside OLP's own folders."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from olp.runtime.process.run_folder import marked

from .house import House
from .vendors.client import Vendors

FEW = (6, 6, 4)
MANY = (150, 100, 50)
"""Requests that are answered, that their client leaves, and that end at a tool of claude's own."""

AT_ONCE = 3

OUTSIDE = ("cc-socks", "claude-*", "claude_*")
"""Where claude leaves files in the system's folder for temporary files, if it uses that."""


def found(home: Path) -> set[str]:
    """Everything in the home of the server's user, and whatever claude makes outside of it."""
    folders = [home, *(path for name in OUTSIDE for path in Path("/tmp").glob(name))]
    return {str(path) for folder in folders for path in folder.rglob("*")}


def alive(path: str) -> bool:
    """Whether it is what a process that waits has entered of itself."""
    name = Path(path).name.partition(".")[0]
    return "/sessions/" in path and name.isdigit() and Path(f"/proc/{name}").exists()


def leave(house: House, after_s: float = 0.7) -> None:
    """A client that goes before it has its answer."""
    host, _, port = house.url.removeprefix("http://").partition(":")
    messages = b'[{"role": "user", "content": "x"}]'
    body = b'{"model": "claude/sonnet", "stream": true, "messages": %s}' % messages
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head.encode() + body)
        time.sleep(after_s)


def test_M6_killed_claudes_leave_nothing(house: House, vendors: Vendors) -> None:
    leaves_nothing(house, vendors, FEW)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_M6_hundreds_of_killed_claudes_leave_nothing(
    oneshot_house: House, vendors: Vendors
) -> None:
    leaves_nothing(oneshot_house, vendors, MANY)


def leaves_nothing(house: House, vendors: Vendors, counts: tuple[int, int, int]) -> None:
    answered, left_alone, refused = counts
    house.chat("hi [[OK]]", "claude/sonnet")  # what a first run makes for good
    before = found(house.home)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for prompt, status, count in (
            ("hi [[OK]]", 200, answered),
            ("[[EVIL:Bash]]", 502, refused),
        ):
            asking = [pool.submit(house.chat, prompt, "claude/sonnet") for _ in range(count)]
            assert {one.result().status for one in asking} == {status}
        vendors.scenario("anthropic", "HANG")
        list(pool.map(leave, [house] * left_alone))
    vendors.reset()
    end = time.monotonic() + 20
    while left := [path for path in found(house.home) - before if not alive(path)]:
        assert time.monotonic() < end, left
        time.sleep(0.2)


def run_id(house: House) -> str:
    (file,) = (house.state / "runs").iterdir()
    return file.name


def table(name: str) -> Iterator[list[str]]:
    """The lines of a table of the kernel's about the network, in columns."""
    for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
        yield line.split()


def listening(pid: int) -> Iterator[str]:
    """The paths, or the ports in hexadecimal, on which `pid` listens."""
    links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    own = {link[8:-1] for link in links if link.startswith("socket:[")}
    yield from (line[7] for line in table("unix") if len(line) > 7 and line[6] in own)
    for line in (*table("tcp"), *table("tcp6")):
        if line[3] == "0A" and line[9] in own:
            yield line[1]


def closed_to_others(path: str) -> bool:
    """Whether it is a path, below a folder that is this user's alone."""
    folders = [f.stat() for f in Path(path).parents if f.exists()] if path.startswith("/") else []
    return any(
        f.st_uid == os.getuid() and not f.st_mode & (stat.S_IRWXG | stat.S_IRWXO) for f in folders
    )


def test_M4_nobody_else_reaches_a_socket_of_claude(house: House, vendors: Vendors) -> None:
    """A running claude listens for its user's other claudes."""
    vendors.scenario("anthropic", "HANG")
    asking = threading.Thread(target=leave, args=[house, 4.0])
    asking.start()
    sockets, end = list[str](), time.monotonic() + 3.5
    while not sockets and time.monotonic() < end:
        time.sleep(0.3)
        claudes = [pid for pid in marked(run_id(house)) if b"claude" in command_of(pid)]
        sockets = [path for pid in claudes for path in listening(pid)]
    asking.join()
    vendors.reset()
    assert sockets, "it listens no more: docs/security.md says that it does"
    assert [path for path in sockets if not closed_to_others(path)] == []


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
