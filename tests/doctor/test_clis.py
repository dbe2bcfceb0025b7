"""One CLI under examination."""

from __future__ import annotations

from pathlib import Path

import pytest

from olp.config import ProviderConfig
from olp.doctor.clis import check_any, check_installed, check_login, check_version, examine
from olp.doctor.lab import Lab
from tests.doctor.conftest import MakePatient

NPM_CLAUDE = "npm install -g @anthropic-ai/claude-code@latest"


def test_a_missing_cli_that_nobody_needs_is_information(patient: MakePatient) -> None:
    finding = check_installed(patient(installed=False, enabled=False))
    assert finding.ok is None
    assert finding.what == f"claude is not installed; add it with: {NPM_CLAUDE}"
    assert finding.fix == ""


def test_a_missing_cli_that_is_needed_is_a_failure(patient: MakePatient) -> None:
    finding = check_installed(patient(installed=False, needed=True))
    assert (finding.ok, finding.what, finding.fix) == (False, "claude was not found", NPM_CLAUDE)


def test_no_cli_at_all_is_a_failure(patient: MakePatient) -> None:
    missing = [patient(name, installed=False) for name in ("claude", "codex", "vibe")]
    finding = check_any(missing)
    assert finding.ok is False
    assert NPM_CLAUDE in finding.fix and "uv tool install" in finding.fix
    found = check_any([*missing[:2], patient("vibe")])
    assert (found.ok, found.what) == (True, "1 of 3 found: vibe")


async def test_a_cli_that_is_switched_off_is_left_alone(patient: MakePatient, lab: Lab) -> None:
    findings = await examine(patient(mood="runs", enabled=False), lab, lambda _: None)
    assert [finding.ok for finding in findings] == [None]
    assert findings[0].what.endswith("switched off in the configuration")


@pytest.mark.parametrize(
    ("version", "ok", "what"),
    [
        ("2.1.332", True, "2.1.332 is a tested version"),
        ("2.1.300", True, "2.1.300 is a tested version"),
        ("2.2.0", None, "2.2.0 is newer than the tested versions (2.1.332)"),
        ("2.1.99", False, "2.1.99 is too old: at least 2.1.300 is needed"),
        ("", False, "`claude --version` printed no version: broken"),
    ],
)
async def test_versions(
    version: str, ok: bool | None, what: str, patient: MakePatient, lab: Lab
) -> None:
    finding = await check_version(patient(version=version), lab)
    assert (finding.ok, finding.what) == (ok, what)
    assert finding.fix == (NPM_CLAUDE if ok is False else "")


async def test_a_login_is_asked_of_the_cli(patient: MakePatient, lab: Lab) -> None:
    there = await check_login(patient("codex"), lab)
    assert there.ok is True
    assert there.what == "there is a login (not verified with the vendor)"
    missing = await check_login(patient("codex", login=False), lab)
    assert (missing.ok, missing.fix) == (False, "codex login")
    assert missing.what == "it is not logged in"


async def test_a_login_of_its_own_says_where_it_is_kept(patient: MakePatient, lab: Lab) -> None:
    own = patient("codex", login=False, config=ProviderConfig(login="own"))
    finding = await check_login(own, lab)
    assert own.context.own_home in finding.fix


async def test_vibes_key_is_looked_for_where_vibe_looks(
    patient: MakePatient, lab: Lab, tmp_path: Path
) -> None:
    file = tmp_path / "home" / ".vibe" / ".env"
    missing = await check_login(patient("vibe"), lab)
    assert missing.ok is False
    assert missing.what == f"there is no MISTRAL_API_KEY in the environment or in {file}"
    assert missing.fix.startswith("vibe --setup; if the key is stored elsewhere, write ")
    given = await check_login(patient("vibe", environ={"MISTRAL_API_KEY": "k"}), lab)
    assert given.what.startswith("MISTRAL_API_KEY is in the environment")
    file.parent.mkdir()
    file.write_text("OTHER=1\nMISTRAL_API_KEY=\n")
    assert (await check_login(patient("vibe"), lab)).ok is False
    file.write_text("OTHER=1\nMISTRAL_API_KEY='k'\n")
    found = await check_login(patient("vibe"), lab)
    assert found.ok is True and str(file) in found.what
