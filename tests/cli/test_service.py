"""`olp service`: the files that systemd and launchd start OLP from, and what is asked of them."""

from __future__ import annotations

import os
import plistlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from olp.doctor.service import check_service
from olp.host import service_unit as unit
from olp.host.systemd import Supervisor
from tests.cli.conftest import Olp
from tests.cli.inside import inside
from tests.doctor.conftest import MakePatient, patient
from tests.doctor.fakes import install

__all__ = ["patient"]

NAME = ".config/olp/olp.toml"

SYSTEMCTL = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "$HOME/asked"
case "$*" in
  *show*) printf 'ActiveState=active\\nSubState=running\\nUnitFileState=enabled\\nMainPID=7\\n' ;;
  *Linger*) echo no ;;
esac
exit ${CODE:-0}
"""


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    """A folder with a claude, and a systemctl that writes down what it is asked."""
    folder = tmp_path / "bin"
    install(folder, "claude")
    for name in ("systemctl", "loginctl"):
        file = folder / name
        file.write_text(SYSTEMCTL)
        file.chmod(0o755)
    return folder


@pytest.fixture
def olp(home: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> Olp:
    """The command line, in this process."""
    monkeypatch.setattr("olp.cli.service.MAC", False)
    return inside(home, bin_, monkeypatch)


def unit_file(home: Path) -> Path:
    return home / ".config" / "systemd" / "user" / "olp.service"


def asked(home: Path) -> list[str]:
    file = home / "asked"
    return file.read_text().splitlines() if file.exists() else []


# --- the unit ----------------------------------------------------------------------------------


def odd_job(home: Path) -> unit.Job:
    """A job in which everything has to be quoted."""
    environ = {"PATH": f"{home}/my bin:relative::/opt/a%b:/usr/bin", "CODEX_HOME": 'a "quoted" $x'}
    config = home / 'con "fig"' / "100% $olp.toml"
    return unit.job(environ, config, 10.0, home)


def test_the_path_is_taken_over_without_what_is_of_this_shell(home: Path) -> None:
    job = odd_job(home)
    assert job.environment["PATH"] == f"{home}/my bin:/opt/a%b:/usr/bin:/bin"
    assert job.argv[:4] == (sys.executable, "-m", "olp", "serve")
    assert "HOME" not in job.environment


def test_what_is_quoted_is_read_back(home: Path, tmp_path: Path) -> None:
    job = odd_job(home)
    for name, text in {
        "olp.service": unit.systemd_unit(job),
        "olp.plist": unit.launchd_agent(job),
    }.items():
        file = tmp_path / name
        file.write_text(text)
        assert unit.path_in(file) == job.environment["PATH"]
        assert unit.secrets_of(file) == job.secrets


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
@pytest.mark.parametrize("odd", [False, True])
def test_systemd_takes_the_unit(home: Path, tmp_path: Path, odd: bool) -> None:
    job = odd_job(home) if odd else unit.job(os.environ, home / NAME, 10.0, home, named=False)
    file = tmp_path / "olp.service"
    file.write_text(unit.systemd_unit(job))
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "HOME": str(home)}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--recursive-errors=no", str(file)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_unit_promises(home: Path) -> None:
    text = unit.systemd_unit(unit.job(os.environ, home / NAME, 10.0, home, named=False))
    for line in (
        "Type=notify",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
        "WatchdogSec=60",
        "TimeoutStopSec=30",
        "WantedBy=default.target",
    ):
        assert f"\n{line}\n" in text
    assert "MemoryDenyWriteExecute" not in text, "a JIT needs writable code"
    assert "ProtectHome" not in text, "a login is in the home"


def test_no_secret_is_in_the_unit(home: Path) -> None:
    environ = {"PATH": "/bin", "MISTRAL_API_KEY": "hush", "CLAUDE_CODE_OAUTH_TOKEN": "hush"}
    job = unit.job(environ, home / NAME, 10.0, home, named=False)
    assert "hush" not in unit.systemd_unit(job) + unit.launchd_agent(job)


def test_the_agent_of_launchd(home: Path) -> None:
    job = odd_job(home)
    tree = plistlib.loads(unit.launchd_agent(job).encode())
    assert tree["ProgramArguments"][:2] == ["/bin/sh", "-c"]
    assert tuple(tree["ProgramArguments"][4:]) == job.argv
    assert tree["EnvironmentVariables"] == dict(job.environment)
    assert tree["KeepAlive"] == {"SuccessfulExit": False} and tree["RunAtLoad"] is True


def test_the_agents_shell_reads_the_secrets(tmp_path: Path) -> None:
    job = unit.job({"PATH": "/bin"}, tmp_path / "olp.toml", 10.0, tmp_path)
    job.secrets.write_text("MISTRAL_API_KEY=hush\n")
    words = plistlib.loads(unit.launchd_agent(job).encode())["ProgramArguments"]
    command = [*words[:4], "/usr/bin/env"]
    done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=10)
    assert "MISTRAL_API_KEY=hush" in done.stdout
    job.secrets.unlink()
    assert subprocess.run(command, env={}, capture_output=True, timeout=10).returncode == 0


# --- the commands ------------------------------------------------------------------------------


def test_install_status_uninstall(olp: Olp, home: Path, bin_: Path) -> None:
    ran = olp("service", "install")
    assert ran.code == 0, ran.err
    text = unit_file(home).read_text()
    assert f"Environment=PATH={bin_}:/usr/bin:/bin\n" in text
    assert "--config" not in text, "there is no configuration file yet"
    assert "loginctl enable-linger" in ran.out and "journalctl --user -u olp" in ran.out
    assert asked(home)[:3] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable olp",
        "systemctl --user restart olp",
    ]
    told = olp("service", "status", "--json")
    assert told.code == 1, "nobody answers"
    assert told.json["installed"] is True and told.json["answers"] is False
    assert (told.json["state"], told.json["lingers"]) == ("active (running)", False)
    assert olp("service", "uninstall").code == 0
    assert "systemctl --user disable --now olp" in asked(home)
    assert not unit_file(home).exists()
    again = olp("service", "uninstall")
    assert again.code == 2 and "no service is installed" in again.err


def test_a_dry_run_does_nothing(olp: Olp, home: Path) -> None:
    ran = olp("service", "install", "--dry-run")
    assert ran.code == 0 and ran.out.startswith(f"# {unit_file(home)}\n")
    assert "systemctl --user restart olp" in ran.out
    assert "systemctl" in olp("service", "uninstall", "--dry-run").out
    assert not unit_file(home).exists() and asked(home) == []


def test_a_configuration_is_named_by_its_path(olp: Olp, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "my olp.toml"
    file.write_text("[server]\nport = 4600\n")
    assert olp("service", "install", "--config", str(file)).code == 0
    assert f'serve --config "{file}"\n' in unit_file(home).read_text()


def test_a_service_that_would_find_no_cli_is_not_made(olp: Olp, home: Path, bin_: Path) -> None:
    (bin_ / "claude").unlink()
    ran = olp("service", "install")
    assert ran.code == 2 and "no CLI is found on this PATH" in ran.err
    assert not unit_file(home).exists()


def test_a_system_without_systemd(olp: Olp, home: Path, bin_: Path) -> None:
    ran = olp("service", "install", CODE="1")
    assert ran.code == 2 and "systemctl --user daemon-reload failed" in ran.err


def test_a_secret_of_the_shell_is_pointed_at(olp: Olp) -> None:
    ran = olp("service", "install", MISTRAL_API_KEY="hush")
    assert "service.env" in ran.out and "hush" not in ran.out


# --- the doctor --------------------------------------------------------------------------------


def test_the_doctor_looks_through_the_services_eyes(
    olp: Olp, home: Path, bin_: Path, tmp_path: Path, patient: MakePatient
) -> None:
    claude = patient("claude")
    assert list(check_service([claude])) == [], "no service, no finding"
    assert olp("service", "install").code == 0
    (finding,) = check_service([claude])
    assert (finding.name, finding.ok) == ("service.path", True)
    elsewhere = tmp_path / "elsewhere"
    bin_.rename(elsewhere)
    (finding,) = check_service([claude])
    assert finding.ok is False
    assert "claude (not on its PATH)" in finding.what
    assert finding.fix.endswith("olp service install")


def test_a_script_needs_its_interpreter(
    olp: Olp, home: Path, bin_: Path, patient: MakePatient
) -> None:
    claude = patient("claude")
    (bin_ / "claude").write_text("#!/usr/bin/env nodelike\n")
    assert olp("service", "install").code == 0
    (finding,) = check_service([claude])
    assert "claude (it needs nodelike, which is not on its PATH)" in finding.what


def test_a_login_that_only_the_shell_has(
    olp: Olp, home: Path, patient: MakePatient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert olp("service", "install").code == 0
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "hush")
    _, finding = check_service([patient("claude")])
    assert (finding.name, finding.ok) == ("service.login", None)
    secrets = home / ".config" / "olp" / "service.env"
    assert str(secrets) in finding.fix and "hush" not in finding.fix + finding.what
    secrets.parent.mkdir(parents=True)
    secrets.write_text("CLAUDE_CODE_OAUTH_TOKEN=hush\n")
    assert len(list(check_service([patient("claude")]))) == 1


# --- readiness and signs of life ---------------------------------------------------------------


@pytest.fixture
def listener(tmp_path: Path) -> socket.socket:
    """What systemd listens on."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(tmp_path / "notify"))
    sock.settimeout(20)
    return sock


def test_the_server_tells_systemd_how_it_is(tmp_path: Path, listener: socket.socket) -> None:
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "WATCHDOG_USEC": "400000",
        "OLP_SERVER_STATE_DIR": str(tmp_path / "state"),
    }
    command = [sys.executable, "-m", "olp", "serve", "--demo", "--port", "0"]
    with (tmp_path / "out").open("w") as out:
        server = subprocess.Popen(command, env=env, stdout=out, stderr=out)
    try:
        first = listener.recv(4096).decode()
        assert first.startswith("READY=1\nSTATUS=serving on http://127.0.0.1:")
        assert listener.recv(4096) == b"WATCHDOG=1"
        began = time.monotonic()
        assert listener.recv(4096) == b"WATCHDOG=1"
        assert time.monotonic() - began < 5
        server.send_signal(signal.SIGHUP)
        told = _until(listener, "RELOADING=1")
        assert "MONOTONIC_USEC=" in told[-1]
        assert _until(listener, "READY=1")[-1] == "READY=1\nSTATUS=reloaded"
        server.send_signal(signal.SIGTERM)
        assert _until(listener, "STOPPING=1")[-1].startswith("STOPPING=1\n")
        assert server.wait(20) == 0
    finally:
        server.kill()
        server.wait(20)
        listener.close()


def _until(listener: socket.socket, mark: str) -> list[str]:
    told: list[str] = []
    while not (told and told[-1].startswith(mark)):
        told.append(listener.recv(4096).decode())
        assert len(told) < 100
    return told


def test_without_systemd_nothing_is_told(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}, {"NOTIFY_SOCKET": "vsock:1"}):
        supervisor = Supervisor(environ)
        supervisor.ready("x")
        supervisor.watch()
        supervisor.unwatch()


def test_a_watchdog_of_another_process_is_none_of_ours() -> None:
    Supervisor({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}).watch()
