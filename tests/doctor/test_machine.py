"""What OLP needs of the machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from aiohttp import web

from olp.config import Config, ServerConfig
from olp.core.routing.chains import Catalogue
from olp.doctor import machine
from olp.doctor.lab import Lab
from olp.doctor.machine import (
    check_chains,
    check_folder,
    check_folders,
    check_port,
    check_processes,
)
from olp.runtime.process.removal import remove
from olp.runtime.process.run_folder import RunFolder
from tests.doctor.conftest import MakePatient


async def test_a_free_port() -> None:
    assert (await check_port(ServerConfig(port=0))).ok is True
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    finding = await check_port(ServerConfig(port=port))
    assert (finding.ok, finding.what) == (True, f"port {port} on 127.0.0.1 is free")


async def test_a_port_that_another_program_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ASK_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        finding = await check_port(ServerConfig(port=port))
    assert finding.ok is False
    assert finding.what == f"port {port} on 127.0.0.1 is in use by another program"
    assert finding.fix == f"stop that program, or use another port: olp serve --port {port + 1}"


@pytest.mark.parametrize(("server", "ok"), [("olp", True), ("nginx", False)])
async def test_a_port_that_answers(server: str, ok: bool) -> None:
    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "alive"}, headers={"Server": server})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    finding = await check_port(ServerConfig(port=port))
    await runner.cleanup()
    assert finding.ok is ok
    if ok:
        assert finding.what == f"OLP is already serving on 127.0.0.1 port {port}"


async def test_an_address_that_is_not_this_machines() -> None:
    finding = await check_port(ServerConfig(host="192.0.2.1"))
    assert finding.ok is False
    assert finding.fix == "use an address of this machine: olp serve --host 127.0.0.1"


def test_folders_that_are_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    findings = check_folders(tmp_path / "new" / "state")
    assert [(finding.name, finding.ok) for finding in findings] == [
        ("folder.state", True),
        ("folder.work", True),
        ("folder.private", True),
    ]
    assert not (tmp_path / "new").exists()


def test_a_folder_that_others_can_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    finding = check_folder("folder.state", tmp_path)
    assert (finding.ok, finding.fix) == (False, f"chmod 700 {tmp_path}")
    tmp_path.chmod(0o500)
    assert check_folder("folder.state", tmp_path).fix == f"chmod 700 {tmp_path}"
    tmp_path.chmod(0o700)
    assert check_folder("folder.state", tmp_path).ok is True


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file / "state", file / "deep" / "state"):
        finding = check_folder("folder.state", path)
        assert finding.ok is False
        assert finding.fix == 'choose another folder: state_dir = "…" in [server]'
    assert check_folder("folder.state", file).fix == f"remove it: rm {file}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    finding = check_folder("folder.state", tmp_path)
    assert (finding.ok, finding.fix) == (False, f"sudo chown -R {os.getuid()} {tmp_path}")


def test_what_lies_in_the_working_directory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    work = RunFolder(tmp_path).work
    for folder in (tmp_path, work):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
    (work / "notes.txt").touch()
    finding = check_folders(tmp_path)[1]
    assert (finding.ok, finding.fix) == (None, "")
    assert "is not empty: OLP empties it" in finding.what
    remove(work)


async def test_processes_can_be_started(lab: Lab) -> None:
    assert (await check_processes(lab)).ok is not False


async def test_a_system_that_starts_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    finding = await check_processes(lab)
    assert finding.ok is False
    assert finding.what == "no program can be started: true is not installed"


def test_chains(patient: MakePatient) -> None:
    config = Config(chains={"both": ("claude/sonnet", "codex/gpt-5.5")})
    catalogue = Catalogue(config, {"claude": ("sonnet",)})
    claude = patient("claude")
    missing = patient("codex", installed=False, enabled=False)
    off = patient("codex", enabled=False)
    expected = {
        "npm install -g @openai/codex@latest": missing,
        "set enabled = true in [providers.codex], or remove it from the chain": off,
        "": patient("codex"),
    }
    for fix, codex in expected.items():
        both = next(iter(check_chains(catalogue, {"claude": claude, "codex": codex})))
        assert (both.name, both.ok, both.fix) == ("chain.both", not fix, fix)
        assert both.what.startswith("claude/sonnet > codex/gpt-5.5")
