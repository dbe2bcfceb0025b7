"""`olp config`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Olp
from tests.cli.inside import inside

CONFIG = """\
[server]
port = 4600
max_body_mb = 5

[chains]
house = ["claude/sonnet"]

[providers.claude]
env = { HTTPS_PROXY = "http://me:pass@proxy:1" }
args = ["-c", "api_key=hush", "--verbose"]

[providers.vibe.config]
theme = "dark"
providers = [{ name = "mine", api_key = "hush" }]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "olp.toml"
    file.write_text(CONFIG)
    return file


def test_each_value_says_where_it_came_from(olp: Olp, file: Path) -> None:
    ran = olp("config", "show", "--config", str(file), "--json", OLP_SERVER_PORT="4700")
    rows = {row["key"]: (row["value"], row["source"]) for row in ran.json}
    assert rows["server.port"] == (4700, "OLP_SERVER_PORT")
    assert rows["server.max_body_mb"] == (5.0, f"{file}:3")
    assert rows["server.host"] == ("127.0.0.1", "default")
    assert rows["chains.house"] == (["claude/sonnet"], f"{file}:6")
    assert rows["providers.codex.enabled"] == (None, "default")
    assert all(set(row) == {"key", "value", "source"} for row in ran.json)


def test_secrets_are_hidden(olp: Olp, file: Path) -> None:
    for more in ([], ["--json"]):
        out = olp("config", "show", "--config", str(file), *more).out
        assert "hush" not in out and "pass@" not in out
        assert "HTTPS_PROXY" in out and "api_key=***" in out and "dark" in out


def test_the_table_for_a_person(olp: Olp, file: Path) -> None:
    lines = olp("config", "show", "--config", str(file)).out.splitlines()
    shown = [line.split("  # ") for line in lines]
    assert ["server.port = 4600", f"{file}:2"] in [[left.strip(), right] for left, right in shown]
    assert any(left.strip() == "providers.vibe.enabled unset" for left, _ in shown)


BROKEN = sorted((Path(__file__).parent.parent / "config" / "broken").glob("*.toml"))


def test_O_there_are_at_least_sixteen_broken_files() -> None:
    assert len(BROKEN) >= 16


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_O_every_mistake_is_told_at_once_in_plain_words(
    file: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file says at its end what `olp config check` says of it."""
    expected = re.findall(r"^# expect: (.*)$", file.read_text("utf-8"), re.M)
    ran = inside(home, tmp_path, monkeypatch)("config", "check", "--config", str(file))
    # The exception stands for what `main` makes of it: one line each, all with the same beginning.
    told = ran.err.replace("olp: ", "").replace(str(file), "FILE").splitlines()
    told += ran.out.splitlines()
    assert told == [line.removeprefix("olp: ") for line in expected]
    assert ran.code == (0 if expected[-1] == "ok" else 2)


def test_O_each_mistake_is_a_line_of_its_own(olp: Olp, file: Path) -> None:
    file.write_text("[server]\nport = 99999\nannounce = True\n")
    ran = olp("config", "check", "--config", str(file))
    assert [line.split(": ")[:2] for line in ran.err.splitlines()] == [
        ["olp", f"{file}:2"],
        ["olp", f"{file}:3"],
    ]


def test_O_variables_that_do_nothing_are_told(olp: Olp, file: Path) -> None:
    ran = olp("config", "check", "--config", str(file), OLP_PORT="4600", OLP_KEY="x")
    assert (ran.code, ran.out) == (0, "ok\n")
    warning = "olp: warning: OLP_PORT: this does nothing; did you mean OLP_SERVER_PORT?\n"
    assert ran.err == warning
    ran = olp("config", "check", "--config", str(file), OLP_PROVIDERS_CLAUDE_MAX_CONCURRENT="2")
    assert ran.code == 2
    assert ran.err == (
        "olp: OLP_PROVIDERS_CLAUDE_MAX_CONCURRENT: a provider cannot be set in the environment; "
        f"write max_concurrent into [providers.claude] of {file}\n"
    )


def test_O_a_file_in_another_encoding_is_read_or_told(olp: Olp, file: Path) -> None:
    file.write_bytes("[server]\r\nport = 4600\r\n".encode("utf-16"))
    assert olp("config", "check", "--config", str(file)).out == "ok\n"
    file.write_bytes("[server]\n# f\u00fcr uns\nport = 99999\n".encode("latin-1"))
    ran = olp("config", "check", "--config", str(file))
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"olp: {file}:2: this line is not UTF-8; save the file as UTF-8",
        f"olp: {file}:3: server.port: 99999 is out of range: from 0 to 65535",
    ]


def test_O_paths_begin_at_the_file_and_not_at_the_working_directory(
    olp: Olp, home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (folder / "olp.toml").write_text(
        '[server]\nstate_dir = "state"\n[providers.claude]\ncommand = ["bin/claude"]\n'
        '[providers.codex]\ncommand = ["~/codex"]\n'
    )
    for arguments in (["etc/olp.toml"], [str(folder / "olp.toml")]):
        ran = olp("config", "show", "--json", "--config", *arguments)
        values = {row["key"]: row["value"] for row in ran.json}
        assert values["server.state_dir"] == str(folder / "state")
        assert values["providers.claude.command"] == [str(program)]
        assert values["providers.codex.command"] == [f"{home}/codex"]
    ran = olp("config", "show", "--json", OLP_SERVER_STATE_DIR="state")
    assert {row["key"]: row["value"] for row in ran.json}["server.state_dir"] == "state"


def test_check(olp: Olp, file: Path, tmp_path: Path) -> None:
    good = olp("config", "check", "--config", str(file))
    assert (good.code, good.out) == (0, "ok\n")
    file.write_text("[server]\nport = 99999\n")
    bad = olp("config", "check", "--config", str(file))
    assert (bad.code, bad.out) == (2, "")
    assert bad.err.startswith(f"olp: {file}:2: server.port: ")
    absent = olp("config", "check", "--config", str(tmp_path / "absent.toml"))
    assert absent.code == 2
    assert absent.err == f"olp: {tmp_path / 'absent.toml'}: there is no such file\n"


def test_path(olp: Olp, file: Path, home: Path) -> None:
    secrets = file.with_name("service.env")
    told = f"{file} (exists)\n{secrets} (does not exist: needed only for secrets of a service)\n"
    told += f"{home}/.local/state/olp (state folder)\n"
    assert olp("config", "path", "--config", str(file)).out == told
    assert olp("config", "path", OLP_CONFIG=str(file)).out == told
    file.write_text('[server]\nstate_dir = "state"\nport = many\n')
    kept = olp("config", "path", "--config", str(file)).out.splitlines()[2]
    assert kept == f"{file.parent}/state (state folder)"
    default = olp("config", "path").out.splitlines()[0]
    assert default.startswith(str(home))
    assert default.endswith("olp.toml (does not exist: the defaults apply)")


@pytest.mark.parametrize("variables", [{}, {"XDG_CONFIG_HOME": "xdg"}, {"OLP_CONFIG": "own.toml"}])
def test_the_services_secrets_are_where_the_path_says(
    olp: Olp, home: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    variables = {name: str(tmp_path / value) for name, value in variables.items()}
    (tmp_path / "own.toml").write_text("")
    named = olp("config", "path", **variables).out.splitlines()[1].split(" (")[0]
    assert f"EnvironmentFile=-{named}" in olp("service", "install", "--dry-run", **variables).out
