"""Runs the command line as a person does: a process, an empty home, and fakes on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 60


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


Olp = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def olp(home: Path, tmp_path: Path) -> Olp:
    """Runs `olp ARGUMENTS`; words become variables: `olp("doctor", OLP_CONFIG="x")`."""

    def run(*arguments: str, **variables: str) -> Ran:
        env = {
            "HOME": str(home),
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(sys.path),
            **variables,
        }
        command = [sys.executable, "-m", "olp", *arguments]
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
