"""OLP is found in the local network, by those who switched that on."""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from olp import __version__
from olp.host import lan
from olp.host.mdns import KIND, _asked, announce, browse
from olp.runtime.log import Log
from tests.support import until

IN_A_NETWORK = pytest.mark.skipif(
    not any(ipaddress.ip_address(a).version == 4 for a in lan.addresses()),
    reason="this machine is in no network, so nothing can be announced in it",
)


@contextlib.asynccontextmanager
async def announcing(host: str, *, tls: bool = False) -> AsyncIterator[io.StringIO]:
    text = io.StringIO()
    task = asyncio.ensure_future(announce(host, 4567, tls=tls, log=Log(text)))
    try:
        await until(text.getvalue, "it says what came of it")
        yield text
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=10)


@IN_A_NETWORK
@pytest.mark.parametrize("tls", [False, True])
async def test_one_is_found_and_gone_again(tls: bool) -> None:
    async with announcing("0.0.0.0", tls=tls) as text:
        line = json.loads(text.getvalue())
        if line["event"] == "announce_failed":
            pytest.skip(f"this network carries no multicast: {line['error']}")
        found = [one for one in await browse(1.0) if lan.hostname() in one.name]
        assert len(found) >= 1
        scheme = "https" if tls else "http"
        assert found[0].url == f"{scheme}://{lan.addresses()[0]}:4567/v1"
        assert found[0].local_url == f"{scheme}://{lan.hostname()}.local:4567/v1"
        assert found[0].version == __version__
    assert [one for one in await browse(0.5) if lan.hostname() in one.name] == []


async def test_a_server_of_this_machine_alone_is_not_announced() -> None:
    async with announcing("127.0.0.1") as text:
        line = json.loads(text.getvalue())
        assert line["event"] == "announce_failed"
        assert "on this machine only" in line["error"]


async def test_what_strangers_tell_is_made_printable() -> None:
    info = SimpleNamespace(
        port=1,
        server="evil\x1b[2J.local.",
        properties={b"version": b"\x1b]0;title\x07" + b"9" * 500, b"tls": None},
        parsed_scoped_addresses=lambda: ["fe80::1%eth0", "10.0.0.1"],
    )

    async def answer(*_: Any) -> Any:
        return info

    network = SimpleNamespace(async_get_service_info=answer)
    told = await _asked(network, f"x\n\x1b[31m.{KIND}")
    assert told is not None
    assert told.url == "http://10.0.0.1:1/v1"
    shown = told.name + told.version + told.local_url
    assert shown.isprintable() and len(told.version) <= 128


def test_without_the_library_it_says_what_to_do() -> None:
    script = (
        "import sys; sys.modules['zeroconf'] = None\n"
        "from olp.cli.main import main\nsys.argv = ['olp', 'discover']\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    command = f"{sys.executable} -m pip install zeroconf"
    assert done.stderr == f"olp: this needs the package zeroconf: {command}\n"


def test_addresses_are_those_that_others_reach() -> None:
    for text in lan.addresses():
        address = ipaddress.ip_address(text)
        assert not (address.is_loopback or address.is_link_local or address.is_unspecified)
    assert lan.is_loopback("127.0.0.1") and lan.is_loopback("::1") and lan.is_loopback("localhost")
    assert not lan.is_loopback("0.0.0.0") and not lan.is_loopback("nas.local")
    assert (lan.url_host("::1"), lan.url_host("[::1]"), lan.url_host("a")) == (
        "[::1]",
        "[::1]",
        "a",
    )
