"""`olp config`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Olp

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
    assert olp("config", "path", "--config", str(file)).out == f"{file} (exists)\n"
    assert olp("config", "path", OLP_CONFIG=str(file)).out == f"{file} (exists)\n"
    default = olp("config", "path").out
    assert default.startswith(str(home))
    assert default.endswith("olp.toml (does not exist: the defaults apply)\n")
