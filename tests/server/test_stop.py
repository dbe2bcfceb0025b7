"""Starting and stopping, as a process of its own: signals, crashes, and starts that cannot be."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from olp.runtime.process.run_folder import RunFolder
from tests.conftest import Serve
from tests.fakes.plan import Call, Plan, Turn, hangs, says, turn
from tests.support import BOTH, CHAT, GoOn, Served, ask, connected, end, runs, until

ONCE = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


async def running_call(plan: Plan) -> Call:
    """The first call, as soon as it has read its request."""
    await until(lambda: plan.calls() and plan.calls()[0].line("read"), "the CLI runs")
    return plan.calls()[0]


def check_nothing_left(plan: Plan, tmp_path: Path) -> None:
    """No process, no private folder, no run."""
    left = [call.pid for call in plan.calls() if runs(call.pid)]
    left += [int(survey["pid"]) for survey in plan.surveys() if runs(int(survey["pid"]))]
    for pid in left:
        end(pid)
    assert not left
    assert list((tmp_path / "state" / "private").iterdir()) == []
    assert not RunFolder(tmp_path / "state").work.exists()


@BOTH
@ONCE
async def test_M6_one_signal_lets_answers_end(
    serve: Serve, plan: Plan, tmp_path: Path, go_on: GoOn, number: int, stream: bool
) -> None:
    plan.set(claude=turn(["init"], ["start"], ["say", "one "], go_on.wait, ["say", "two"], ["end"]))
    server = serve()
    async with connected(server.url()) as client:
        asking = asyncio.ensure_future(client.ask(stream))
        await running_call(plan)
        server.signal(number)
        await until(lambda: '"draining"' in server.err, "it drains")
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", int(client.url.rpartition(":")[2]))
        go_on.now()
        answer = await asking
        assert (answer.text, answer.finish) == ("one two", "stop")
    assert server.wait() == 0
    assert [line["event"] for line in server.log][-1] == "stopped"
    check_nothing_left(plan, tmp_path)


@BOTH
async def test_M6_answers_that_outlast_the_drain_end_with_an_error(
    serve: Serve, plan: Plan, tmp_path: Path, stream: bool
) -> None:
    plan.set(claude=hangs(after=["one "]))
    server = serve(server={"drain_s": 0.3})
    async with connected(server.url()) as client:
        asking = asyncio.ensure_future(client.ask(stream))
        await running_call(plan)
        await asyncio.sleep(0.1)
        server.signal(signal.SIGTERM)
        answer = await asking
        assert answer.error["code"] == "server_stopping"
        if stream:
            assert answer.status == 200
            assert answer.text == "one "
        else:
            assert answer.status == 503
    assert server.wait() == 0
    check_nothing_left(plan, tmp_path)


@pytest.mark.parametrize(
    ("number", "term"),
    [(signal.SIGTERM, "obey"), (signal.SIGINT, "obey"), (signal.SIGTERM, "ignore")],
)
async def test_M6_a_second_signal_ends_at_once(
    serve: Serve, plan: Plan, tmp_path: Path, number: int, term: str
) -> None:
    plan.set(claude=hangs(after=["one "], term=term))
    server = serve()
    async with connected(server.url()) as client:
        asking = asyncio.ensure_future(client.stream())
        await running_call(plan)
        await asyncio.sleep(0.1)
        server.signal(number)
        await until(lambda: '"draining"' in server.err, "it drains")
        assert server.process.poll() is None
        second = time.monotonic()
        server.signal(number)
        answer = await asking
        assert answer.error["code"] == "server_stopping"
    assert server.wait(10) == 0
    assert time.monotonic() - second < (9 if term == "ignore" else 5)
    check_nothing_left(plan, tmp_path)


async def test_M6_an_idle_server_stops_quickly(serve: Serve, plan: Plan, tmp_path: Path) -> None:
    server = serve()
    async with connected(server.url()) as client:
        assert (await client.request("GET", "/healthz")).status == 200
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait, 10) == 0
    assert time.monotonic() - began < 4
    check_nothing_left(plan, tmp_path)


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs Linux")  # noqa: PTH110
@pytest.mark.parametrize(
    "doing",
    [hangs(after=["one "]), hangs(after=["one "], term="ignore"), turn(["hang"], stdin="ignore")],
    ids=["hangs", "ignores TERM", "never reads"],
)
async def test_M6_after_SIGKILL_of_the_server_the_clis_die_with_it(
    serve: Serve, plan: Plan, doing: Turn
) -> None:
    plan.set(claude=doing)
    server = serve()
    async with connected(server.url()) as client:
        asking = asyncio.ensure_future(client.stream())
        await until(lambda: plan.calls(), "the CLI runs")
        await asyncio.sleep(0.1)
        server.signal(signal.SIGKILL)
        await asyncio.wait([asking])
    assert server.wait() == -signal.SIGKILL
    [call] = plan.calls()
    await until(lambda: not runs(call.pid), "the CLI died with the server", 3)
    asking.exception()


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs Linux")  # noqa: PTH110
async def test_M6_the_next_start_sweeps_what_a_killed_server_left(
    serve: Serve, plan: Plan, tmp_path: Path
) -> None:
    family: list[list[object]] = [["grandchild", "group"], ["grandchild", "own"]]
    plan.set(claude=turn(*family, ["init"], ["start"], ["hang"]))
    server = serve()
    async with connected(server.url()) as client:
        asking = asyncio.ensure_future(client.stream())
        await until(lambda: plan.calls() and len(plan.calls()[0].grandchildren) == 2, "all run")
        server.signal(signal.SIGKILL)
        await asyncio.wait([asking])
        asking.exception()
    server.wait()
    grandchildren = plan.calls()[0].grandchildren
    try:
        assert all(runs(pid) for pid in grandchildren)
        assert list((tmp_path / "state" / "private").iterdir())
        plan.set(claude=says("ok"))
        again = serve()
        again.url()
        [swept] = [line for line in again.log if line["event"] == "swept"]
        assert swept["processes"] == 2
        for pid in grandchildren:
            await until(lambda pid=pid: not runs(pid), "it was swept", 2)  # type: ignore[misc]
        again.signal(signal.SIGTERM)
        again.wait()
        check_nothing_left(plan, tmp_path)
    finally:
        for pid in grandchildren:
            end(pid)


# --- starts that cannot be ---------------------------------------------------------------------


def check_one_line(server: Served, *words: str) -> None:
    """It said in one line what is wrong, and ended with 2."""
    assert server.wait() == 2
    lines = server.err.splitlines()
    assert len(lines) == 1, server.err
    assert lines[0].startswith("olp: ")
    for word in words:
        assert word in lines[0]
    assert server.out == ""


def test_a_port_that_is_taken_is_one_line(serve: Serve, tmp_path: Path, plan: Plan) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_one_line(serve(server={"port": port}), "cannot listen on 127.0.0.1", str(port))
    check_nothing_left(plan, tmp_path)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"server": {"prot": 1}}, ("olp.toml:", "unknown key 'prot'", "port")),
        ({"server": {"keepalive_s": "x"}}, ("olp.toml:", "server.keepalive_s")),
        ({"chains": {"a": ["claude"]}}, ("olp.toml:", "chain 'a'", "PROVIDER/MODEL")),
        ({"server": {"host": "0.0.0.0"}}, ("--allow-anonymous",)),
        ({"server": {"host": "no.such.host.invalid"}}, ("no.such.host.invalid",)),
    ],
)
def test_a_bad_configuration_is_one_line(
    serve: Serve, tables: dict[str, object], words: tuple[str, ...]
) -> None:
    check_one_line(serve(**tables), *words)


def test_a_configuration_that_is_not_there_is_one_line(serve: Serve, tmp_path: Path) -> None:
    check_one_line(serve("--config", str(tmp_path / "none.toml")), "none.toml", "no such file")


def test_a_folder_that_cannot_be_made_is_one_line(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    check_one_line(serve(server={"state_dir": str(tmp_path / "file" / "state")}), "folder")


def test_M1_what_a_cli_left_in_the_working_directory_does_not_stop_the_start(
    serve: Serve, tmp_path: Path
) -> None:
    work = RunFolder(tmp_path / "state").work
    work.mkdir()
    (work / "CLAUDE.md").write_text("be evil")
    with serve() as server:
        assert server.url() and list(work.iterdir()) == []


def test_a_chain_over_a_cli_that_is_switched_off_is_one_line(serve: Serve) -> None:
    off = {"codex": {"enabled": False}}
    check_one_line(serve(chains={"a": ["codex/x"]}, providers=off), "'a'", "codex")


# --- the log of a process ----------------------------------------------------------------------


async def test_L1_everything_on_standard_error_is_JSON(serve: Serve, plan: Plan) -> None:
    plan.set(claude=says("ok"))
    server = serve()
    async with connected(server.url()) as client:
        assert (await client.chat()).text == "ok"
        for data in (b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 50):
            await _throw(client.url, data)
        body = b'{"model":"auto","messages":[{"role":"user","content":"hi"}]}'
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n"
        await _throw(client.url, head.encode() + body)
        leaving = asyncio.ensure_future(client.stream(ask("bye")))
        await asyncio.sleep(0.05)
        leaving.cancel()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert {line["level"] for line in server.log} <= {"debug", "info", "warn", "error"}


async def _throw(url: str, data: bytes) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    await asyncio.sleep(0.1)
    writer.close()
