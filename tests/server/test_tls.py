"""https: the certificate that is shown, renewed without a stop, and refused at the start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs

from olp.cli import compose as composition
from olp.cli.running import Running, running
from olp.config import ServerConfig
from olp.doctor.certificate import check_certificate
from olp.doctor.machine import check_port
from olp.errors import StartError
from olp.host.authority import SERVER_DAYS, Made, make
from olp.host.tls import identity, trusting
from olp.runtime.log import Log
from olp.runtime.process.run_folder import RunFolder
from tests.fakes.plan import Plan, says
from tests.support import CHAT, ask, soon, until, write_config

NOW = datetime.now(UTC)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A household authority and a certificate for 127.0.0.1."""
    return make(tmp_path / "tls", [], ["localhost", "127.0.0.1"], NOW)


Serve = Callable[..., Any]


@pytest.fixture
def secure(tmp_path: Path, surroundings: pytest.MonkeyPatch, plan: Plan, made: Made) -> Serve:
    """A house that speaks https: `async with secure() as server`."""

    @asynccontextmanager
    async def opened(**server: Any) -> AsyncIterator[Running]:
        plan.set(claude=says("hello"))
        files = {"tls_cert": str(made.cert), "tls_key": str(made.key), **server}
        path = write_config(tmp_path / "olp.toml", plan, {"server": files})
        config = composition.read_config(str(path)).config
        place = RunFolder(Path(config.server.state_dir))
        place.open()
        try:
            found = composition.find_providers(config)
            log = Log((tmp_path / "log").open("w"))
            async with running(config, found, place, log) as server_:
                yield server_
        finally:
            place.close()

    return opened


async def shown(url: str, trusted: Path) -> dict[str, Any]:
    """The certificate that the server shows to a client that trusts the authority; an answer."""
    context = ssl.create_default_context(cafile=str(trusted))
    port = int(url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    told: dict[str, Any] = writer.get_extra_info("peercert")
    writer.close()
    async with (
        aiohttp.ClientSession() as http,
        http.post(url + CHAT, json=ask(), ssl=context) as response,
    ):
        assert response.status == 200
        assert (await response.json())["choices"][0]["message"]["content"] == "hello"
    return told


async def test_a_client_that_trusts_the_household(secure: Serve, made: Made) -> None:
    async with secure() as server:
        assert server.url.startswith("https://127.0.0.1:")
        told = await soon(shown(server.url, made.authority))
        assert ("IP Address", "127.0.0.1") in told["subjectAltName"]
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            async with aiohttp.ClientSession() as http:
                await http.get(server.url + "/healthz")
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as http:
                await http.get(server.url.replace("https", "http") + "/healthz")


async def test_a_renewed_certificate_is_taken_without_a_stop(
    secure: Serve, made: Made, tmp_path: Path
) -> None:
    async with secure() as server:
        first = await soon(shown(server.url, made.authority))
        make(tmp_path / "tls", [], ["localhost", "127.0.0.1"], NOW)

        def read() -> Any:
            return server.config, composition.find_providers(server.config)

        assert server.reload(read) == "reloaded"
        second = await soon(shown(server.url, made.authority))
        assert first["serialNumber"] != second["serialNumber"]
        make(tmp_path / "tls", [], ["localhost", "127.0.0.1"], NOW)
        routing = structs.replace(server.config.routing, background="no-such")
        wrong = structs.replace(server.config, routing=routing)
        assert "does not exist here" in server.reload(lambda: (wrong, read()[1]))
        same = await soon(shown(server.url, made.authority))
        assert same["serialNumber"] == second["serialNumber"], "all of it or nothing"
        made.key.write_text("broken")
        assert "not a certificate and its key" in server.reload(read)
        third = await soon(shown(server.url, made.authority))
        assert third["serialNumber"] == second["serialNumber"]


async def test_the_owners_commands_reach_it(secure: Serve) -> None:
    async with secure() as server:
        config = server.config
        port = int(server.url.rpartition(":")[2])
        done = await soon(_olp("status", "--json", config=config, port=port))
        assert done.returncode == 0, done.stderr
        assert '"status"' in done.stdout


async def _olp(*words: str, config: Any, port: int) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "OLP_SERVER_PORT": str(port),
        "OLP_SERVER_STATE_DIR": config.server.state_dir,
        "OLP_SERVER_TLS_CERT": config.server.tls_cert,
        "OLP_SERVER_TLS_KEY": config.server.tls_key,
    }
    command = [sys.executable, "-m", "olp", *words]
    return await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, timeout=60
    )


async def test_the_commands_trust_this_certificate_alone(
    secure: Serve, made: Made, tmp_path: Path
) -> None:
    other = make(tmp_path / "other", [], ["127.0.0.1"], NOW)
    async with secure() as server, aiohttp.ClientSession() as http:
        async with http.get(server.url + "/healthz", ssl=trusting(str(made.cert))) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await http.get(server.url + "/healthz", ssl=trusting(str(other.cert)))


# --- files that cannot be used -----------------------------------------------------------------


def refused(cert: Path, key: Path) -> str:
    with pytest.raises(StartError) as error:
        identity(str(cert), str(key))
    return str(error.value)


def test_files_that_are_not_there(made: Made, tmp_path: Path) -> None:
    gone = tmp_path / "gone.pem"
    assert refused(gone, made.key) == f"tls_cert: {gone} cannot be read: No such file or directory"
    assert refused(made.cert, gone).startswith(f"tls_key: {gone} cannot be read")
    assert refused(tmp_path, made.key) == f"tls_cert: {tmp_path} cannot be read: Is a directory"


def test_the_key_of_another_certificate(made: Made, tmp_path: Path) -> None:
    other = make(tmp_path / "other", [], ["localhost"], NOW)
    assert refused(made.cert, other.key) == (
        f"tls_key: {other.key} is not the key of the certificate {made.cert}"
    )


@pytest.mark.parametrize("text", ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_no_certificate(made: Made, tmp_path: Path, text: str) -> None:
    file = tmp_path / "no.pem"
    file.write_text(text)
    assert "are not a certificate and its key in PEM" in refused(file, made.key)
    assert "are not a certificate and its key in PEM" in refused(made.cert, file)


def test_an_expired_certificate_and_one_to_come(tmp_path: Path) -> None:
    for days, why in ((-SERVER_DAYS - 1, "has expired"), (3, "is not valid yet")):
        made = make(tmp_path / str(days), [], ["localhost"], NOW + timedelta(days=days))
        told = refused(made.cert, made.key)
        assert told.startswith(f"tls_cert: {made.cert} {why}")
        assert told.endswith("`olp cert` makes a new one")


def test_a_key_behind_a_password(made: Made, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(made.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hush"),
        )
    )
    assert refused(made.cert, locked) == (
        f"tls_key: {locked} is locked with a password; OLP needs it open"
    )


def test_soon_to_end(tmp_path: Path) -> None:
    for left, soon_ in ((10, True), (40, False)):
        made = make(tmp_path / str(left), [], ["x.local"], NOW - timedelta(days=SERVER_DAYS - left))
        one = identity(str(made.cert), str(made.key))
        assert one.expires_soon is soon_
        assert abs(one.expires_at - made.expires.timestamp()) < 2


def test_the_start_says_it_in_one_line(made: Made, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "OLP_SERVER_STATE_DIR": str(tmp_path / "state"),
        "OLP_SERVER_TLS_CERT": str(made.cert),
        "OLP_SERVER_TLS_KEY": str(tmp_path / "none.key"),
    }
    command = [sys.executable, "-m", "olp", "serve", "--demo", "--port", "0"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        f"olp: tls_key: {tmp_path / 'none.key'} cannot be read: No such file or directory\n"
    )


def test_the_doctor_looks_at_it(made: Made, tmp_path: Path) -> None:
    assert list(check_certificate(ServerConfig())) == []
    config = ServerConfig(tls_cert=str(made.cert), tls_key=str(made.key))
    [good] = check_certificate(config)
    assert (good.ok, good.fix) == (True, "") and "is good for 39" in good.what
    [bad] = check_certificate(ServerConfig(tls_cert=str(made.cert), tls_key=str(tmp_path / "no")))
    assert (bad.ok, bad.fix) == (False, "olp cert")
    old = make(tmp_path / "old", [], ["x.local"], NOW - timedelta(days=SERVER_DAYS - 9))
    [soon_] = check_certificate(ServerConfig(tls_cert=str(old.cert), tls_key=str(old.key)))
    assert soon_.ok is None and soon_.fix


async def test_the_doctor_knows_its_own_server(secure: Serve) -> None:
    async with secure() as server:
        port = int(server.url.rpartition(":")[2])
        finding = await check_port(structs.replace(server.config.server, port=port))
        assert finding.what == f"OLP is already serving on 127.0.0.1 port {port}"


# --- handshakes ----------------------------------------------------------------------------------


async def stalled(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which no handshake is begun."""
    return await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))


async def test_M5_a_handshake_has_its_time_and_is_counted(secure: Serve) -> None:
    async with secure() as server:
        doors = server.runner.doors
        doors.head_s = 0.5
        reader, writer = await stalled(server.url)
        await until(lambda: doors.count == 1, "it is counted")
        assert await soon(reader.read()) == b"", "closed without a word"
        await until(lambda: doors.count == 0, "it is counted no more")
        writer.close()


async def test_M5_who_leaves_or_has_to_go_before_the_handshake_leaves_nothing(
    secure: Serve,
) -> None:
    async with secure() as server:
        doors = server.runner.doors
        doors.limit = 8
        tasks = len(server._tasks)
        held = [await stalled(server.url) for _ in range(5)]
        await until(lambda: held[2][0].at_eof(), "three of them had to go")
        assert doors.count == 2
        for _, writer in held:
            writer.close()
        await until(lambda: doors.count == 0, "nobody is in")
        await until(lambda: len(server._tasks) == tasks, "nobody waits for them")


async def test_M4_plain_words_to_a_port_that_speaks_tls_end_the_connection(secure: Serve) -> None:
    async with secure() as server:
        reader, writer = await stalled(server.url)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"alive" not in await soon(reader.read())
        writer.close()
        await until(lambda: server.runner.doors.count == 0, "nobody is in")


async def test_N5_what_comes_right_behind_the_handshake_is_read(secure: Serve, made: Made) -> None:
    async with secure() as server:
        context = ssl.create_default_context(cafile=str(made.authority))
        port = int(server.url.rpartition(":")[2])
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b"alive" in await soon(reader.read())
            writer.close()
