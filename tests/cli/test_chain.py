"""J5: the effective chain of every name can be seen."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Olp
from tests.doctor.fakes import install

CONFIG = """\
[chains]
house = ["claude/sonnet", "codex/gpt-5.5"]
[chains.patient]
hops = ["codex/gpt-5.5"]
gate_action = "advance"
[providers.vibe]
enabled = false
"""


def test_J5_the_built_in_chain(olp: Olp, tmp_path: Path) -> None:
    for name in ("claude", "vibe"):
        install(tmp_path / "bin", name)
    ran = olp("chain", "show", "auto")
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[0] == "auto  (built in, over the CLIs found here)"
    assert lines[1].split()[:4] == ["0", "claude/sonnet", "✓", str(tmp_path / "bin" / "claude")]
    assert lines[1].endswith("(can: tools, images, files, schema, effort)")
    assert lines[2].endswith("(can: tools, images, schema, effort)")
    assert lines[2].split()[:3] == ["1", "vibe/mistral-medium-3.5", "✓"]
    assert "gate_s 30.0" in lines[3] and "on_auth_missing stop" in lines[3]


def test_J5_configured_chains(olp: Olp, tmp_path: Path) -> None:
    install(tmp_path / "bin", "claude")
    file = tmp_path / "olp.toml"
    file.write_text(CONFIG)
    told = olp("chain", "list", "--config", str(file), "--json").json
    assert [(chain["name"], chain["kind"]) for chain in told] == [
        ("house", "configured"),
        ("patient", "configured"),
        ("auto", "default"),
    ]
    assert told == olp("chain", "show", "--config", str(file), "--json").json
    assert [hop["found"] for hop in told[0]["hops"]] == [True, False]
    assert set(told[0]["hops"][0]) == {
        *("provider", "model", "found", "enabled", "command", "install", "can"),
    }
    assert [chain["policy"]["gate_action"] for chain in told] == ["commit", "advance", "commit"]
    text = olp("chain", "show", "patient", "--config", str(file)).out
    assert "✗ not installed: npm install -g @openai/codex@latest" in text


def test_J5_what_a_one_shot_cannot_do_is_not_promised(olp: Olp, tmp_path: Path) -> None:
    install(tmp_path / "bin", "claude")
    file = tmp_path / "olp.toml"
    file.write_text('[providers.claude]\ntransport = "oneshot"\n')
    (hop,) = olp("chain", "show", "sonnet", "--config", str(file), "--json").json["hops"]
    assert hop["can"] == ["schema", "effort"]


def test_J5_a_model_id_is_a_name_too(olp: Olp, tmp_path: Path) -> None:
    install(tmp_path / "bin", "claude")
    for name in ("sonnet", "claude/sonnet", "claude/some-new-model"):
        told = olp("chain", "show", name, "--json").json
        assert (told["name"], told["kind"], len(told["hops"])) == (name, "model", 1)


def test_an_unknown_name_is_a_precise_error(olp: Olp, tmp_path: Path) -> None:
    install(tmp_path / "bin", "claude")
    near = olp("chain", "show", "sonet")
    assert (near.code, near.out) == (2, "")
    assert near.err == "olp: there is no chain or model 'sonet'; did you mean sonnet?\n"
    far = olp("chain", "show", "zzz")
    assert far.err.startswith("olp: there is no chain or model 'zzz'; known: auto, ")
    missing = olp("chain", "show", "codex/gpt-5.5")
    assert missing.code == 2
    assert missing.err == (
        "olp: codex/gpt-5.5: OpenAI Codex is not installed: npm install -g @openai/codex@latest\n"
    )


def test_no_cli_no_chain(olp: Olp) -> None:
    ran = olp("chain", "list")
    assert ran.code == 0
    assert ran.out.startswith("There is no chain, because no CLI was found.")
    assert olp("chain", "list", "--json").json == []
