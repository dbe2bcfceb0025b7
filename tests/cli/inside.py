"""Runs the command line inside the test's own process: many small cases in a short time."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from olp.cli.main import cli
from olp.errors import OLPError
from tests.cli.conftest import Olp, Ran

CLEARED = (
    *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "VIBE_HOME", "APPDATA"),
    *("LLM_USER_PATH", "PI_CODING_AGENT_DIR", "QWEN_HOME", "CONTINUE_GLOBAL_DIR"),
    *("CLINE_DIR", "CLINE_DATA_DIR"),
    *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "MISTRAL_API_KEY", "OLP_CONFIG"),
)


def inside(home: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> Olp:
    """Like the fixture `olp`, with the same empty home, and `path` in front of PATH."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, **variables: str) -> Ran:
        done = CliRunner(env=variables).invoke(cli, arguments, prog_name="olp")
        if isinstance(done.exception, OLPError):
            return Ran(2, done.stdout, f"{done.stderr}olp: {done.exception}\n")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ran(done.exit_code, done.stdout, done.stderr)

    return run
