"""The isolation self-test: it passes a CLI that has no hands, and it can fail."""

from __future__ import annotations

import json
import os

import pytest

from olp.config import ProviderConfig
from olp.doctor import isolation
from olp.doctor.isolation import Way, check_isolation
from olp.doctor.lab import Lab
from olp.doctor.trap import NOTES, attempts, lay
from olp.doctor.vendor import Asked, tool_names
from olp.model import PRIVATE_DIR
from tests.doctor.conftest import MakePatient


@pytest.mark.parametrize("name", ["claude", "codex", "vibe"])
async def test_M2_a_cli_without_hands_is_found_locked(
    name: str, patient: MakePatient, lab: Lab
) -> None:
    finding = await check_isolation(patient(name), lab)
    assert finding.ok is True, finding
    assert finding.name == f"{name}.isolation"
    assert finding.what.startswith("locked: no tools, canaries untouched")
    assert "(could not be started ahead: " in finding.what


@pytest.mark.parametrize(
    ("name", "mood", "problem"),
    [
        ("claude", "expands", "a file of yours was sent to the vendor"),
        ("claude", "notes", "a file of yours was sent to the vendor"),
        ("claude", "runs", "a tool ran and wrote a file: by-bash"),
        ("codex", "runs", "a tool ran and wrote a file: by-exec-command, by-shell"),
        ("vibe", "runs", "a tool ran and wrote a file: by-bash"),
        ("claude", "writes", "a tool ran and wrote a file: by-write"),
        ("vibe", "writes", "a tool ran and wrote a file: by-write-file"),
        ("claude", "reads", "a tool read a file and sent it to the vendor"),
        ("claude", "armed", "it offers its model tools that OLP does not know: Bash"),
        ("claude", "deaf", "the system prompt did not reach the vendor"),
        ("claude", "swallows", "it sent no vendor request: /clear isn't available"),
        ("claude", "lies", "no answer came"),
        ("claude", "twice", "one prompt caused 2 vendor requests"),
    ],
)
async def test_M2_a_cli_that_misbehaves_is_found_out(
    name: str, mood: str, problem: str, patient: MakePatient, lab: Lab
) -> None:
    finding = await check_isolation(patient(name, mood=mood), lab)
    assert finding.ok is False, finding
    assert problem in finding.what
    assert finding.fix.startswith(f"set enabled = false in [providers.{name}], or install")


async def test_M2_a_cli_that_is_started_ahead_is_tried_so_too(
    patient: MakePatient, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "LINGER_S", 0.7)
    good = await check_isolation(patient(mood="ahead-good"), lab)
    assert good.ok is True and "ahead" not in good.what, good
    never = ProviderConfig(transport="oneshot")
    assert (await check_isolation(patient(mood="ahead-runs", config=never), lab)).ok is True


async def test_M2_a_cli_is_tried_as_it_is_started_for_a_client_with_tools(
    patient: MakePatient, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "LINGER_S", 0.7)
    for_tools_alone = ProviderConfig(warm=0)
    finding = await check_isolation(patient(mood="ahead-runs", config=for_tools_alone), lab)
    assert (finding.ok, finding.what) == (False, "a tool ran and wrote a file: by-bash")


@pytest.mark.parametrize(
    ("mood", "problem"),
    [
        ("ahead-runs", "a tool ran and wrote a file: by-bash"),
        ("ahead-writes", "a tool ran and wrote a file: by-write"),
        ("ahead-reads", "a tool read a file and sent it to the vendor"),
        ("ahead-expands", "a file of yours was sent to the vendor"),
        ("ahead-armed", "it offers its model tools that OLP does not know: Bash"),
    ],
)
async def test_M2_misbehaviour_when_started_ahead_is_found_out(
    mood: str, problem: str, patient: MakePatient, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "LINGER_S", 0.7)
    finding = await check_isolation(patient(mood=mood), lab)
    assert (finding.ok, finding.what) == (False, problem)


async def test_a_cli_that_hangs_is_given_up(
    patient: MakePatient, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "RUN_S", 0.5)
    finding = await check_isolation(patient(mood="hangs"), lab)
    assert finding.ok is False
    assert "it sent no vendor request: it did not end within 0.5 s" in finding.what


async def test_nothing_of_the_owner_reaches_the_cli_under_test(
    patient: MakePatient, lab: Lab
) -> None:
    options = ProviderConfig(env={"ANTHROPIC_API_KEY": "sk-real"}, args=("--dangerous",))
    environ = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-real", "LANG": "C.UTF-8"}
    subject = patient(config=options, environ=environ)
    trap = lay(lab.private)
    for ahead in (False, True):
        started = Way(subject, trap, lab, ahead).start("http://127.0.0.1:1", "system", "question")
        assert started is not None
        launch, _ = started
        assert "real" not in str(launch) and "--dangerous" not in launch.argv
        assert launch.env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
        assert launch.env["HOME"] == str(trap.home)
    finding = await check_isolation(subject, lab)
    assert finding.ok is True
    assert finding.what.endswith("; your env, args and config were not applied)")


def test_the_trap_is_baited(lab: Lab) -> None:
    trap = lay(lab.private)
    baits = [path for path in trap.home.rglob("*") if path.is_file()]
    assert sum(trap.token in path.read_text() for path in baits) == len(NOTES) + 1
    assert not list(trap.drop.iterdir())
    told = str(attempts(trap))
    assert str(trap.secret) in told and str(trap.drop) in told
    assert os.pathsep not in str(trap.drop) and PRIVATE_DIR not in told


def test_tools_are_counted_in_every_api() -> None:
    bodies = [
        {"tools": [{"name": "Bash"}]},
        {"tools": [{"type": "web_search"}], "input": [{"tools": [{"name": "exec"}]}]},
        {"tools": [{"type": "function", "function": {"name": "bash"}}]},
        {"tools": [{"type": "namespace", "name": "a", "tools": [{"name": "b"}]}]},
        {"tools": None, "input": "text"},
        [],
    ]
    found = [list(tool_names(Asked("/", json.dumps(body)))) for body in bodies]
    assert found == [["Bash"], ["web_search", "exec"], ["bash"], ["a", "b"], [], []]
    assert list(tool_names(Asked("/", "no json"))) == []
