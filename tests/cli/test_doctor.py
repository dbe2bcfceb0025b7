"""`olp doctor`, as a person meets it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Olp, Ran
from tests.doctor.fakes import install

KEY = {"MISTRAL_API_KEY": "key"}
CLIS = ("claude", "codex", "vibe")


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def config(tmp_path: Path, port: int) -> Path:
    """A configuration with a free port."""
    file = tmp_path / "olp.toml"
    file.write_text(f"[server]\nport = {port}\n")
    return file


def findings(ran: Ran) -> dict[str, dict[str, Any]]:
    """What was found, by name."""
    assert set(ran.json) == {"ok", "findings"}
    for item in ran.json["findings"]:
        assert set(item) == {"name", "ok", "what", "fix"}
    return {item["name"]: item for item in ran.json["findings"]}


def test_all_good(olp: Olp, tmp_path: Path, config: Path) -> None:
    for name in CLIS:
        install(tmp_path / "bin", name)
    ran = olp("doctor", "--json", "--config", str(config), **KEY)
    found = findings(ran)
    assert [name for name, item in found.items() if item["ok"] is False] == []
    assert (ran.code, ran.json["ok"]) == (0, True)
    names = {f"{cli}.{what}" for cli in CLIS for what in ("installed", "version", "login")}
    names |= {f"{cli}.isolation" for cli in CLIS}
    names |= {"configuration", "clis", "port", "record", "death_signal", "chain.auto"}
    assert set(found) == names | {"folder.state", "folder.work", "folder.private"}
    assert ran.err == ""


def test_what_a_person_reads(olp: Olp, tmp_path: Path, config: Path) -> None:
    install(tmp_path / "bin", "claude", login=False)
    ran = olp("doctor", "--config", str(config))
    lines = [line.strip() for line in ran.out.splitlines()]
    assert ran.code == 1
    assert "✓ claude.version" in ran.out and "a tested version" in ran.out
    login = next(n for n, line in enumerate(lines) if line.startswith("✗ claude.login"))
    assert lines[login + 1] == "fix: claude auth login"
    assert any(line.startswith("– codex.installed") for line in lines)
    assert "npm install -g @openai/codex@latest" in ran.out
    assert lines[-1].startswith("1 of ")


def test_no_cli_at_all(olp: Olp, config: Path) -> None:
    ran = olp("doctor", "--json", "--config", str(config))
    found = findings(ran)
    assert ran.code == 1
    assert found["clis"]["ok"] is False
    assert "npm install -g @anthropic-ai/claude-code@latest" in found["clis"]["fix"]
    assert {found[f"{cli}.installed"]["ok"] for cli in CLIS} == {None}
    assert "chain.auto" not in found


def test_a_missing_cli_that_a_chain_needs(olp: Olp, tmp_path: Path, config: Path) -> None:
    install(tmp_path / "bin", "claude")
    config.write_text(config.read_text() + '[chains]\nhouse = ["claude/sonnet", "codex/gpt-5.5"]\n')
    found = findings(olp("doctor", "--json", "--config", str(config)))
    for name in ("codex.installed", "chain.house"):
        assert found[name]["ok"] is False
        assert found[name]["fix"] == "npm install -g @openai/codex@latest"
    assert found["vibe.installed"]["ok"] is None


def test_a_cli_that_misbehaves(olp: Olp, tmp_path: Path, config: Path) -> None:
    install(tmp_path / "bin", "claude", mood="runs")
    ran = olp("doctor", "--json", "--config", str(config))
    assert ran.code == 1
    bad = [name for name, item in findings(ran).items() if item["ok"] is False]
    assert bad == ["claude.isolation"]


def test_a_wrong_configuration_does_not_hide_the_rest(olp: Olp, tmp_path: Path) -> None:
    install(tmp_path / "bin", "claude")
    file = tmp_path / "wrong.toml"
    file.write_text("[server]\nprot = 4567\n")
    ran = olp("doctor", "--json", "--config", str(file))
    found = findings(ran)
    assert ran.code == 1
    assert found["configuration"]["what"] == (
        f"{file}:2: unknown key 'prot' in [server]; did you mean port?"
    )
    assert found["configuration"]["fix"] == "correct it, then: olp config check"
    assert found["claude.isolation"]["ok"] is True


def test_a_taken_port(olp: Olp, config: Path, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        found = findings(olp("doctor", "--json", "--config", str(config)))
    assert found["port"]["fix"] == (
        f"stop that program, or use another port: olp serve --port {port + 1}"
    )


def test_folders_that_cannot_be_used(olp: Olp, tmp_path: Path, config: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    config.write_text(config.read_text() + f'state_dir = "{state}"\n')
    found = findings(olp("doctor", "--json", "--config", str(config)))
    assert found["folder.state"]["fix"] == f"chmod 700 {state}"
    assert found["folder.work"]["ok"] is True
