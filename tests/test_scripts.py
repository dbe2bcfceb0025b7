"""`scripts/venv`, the first thing that a new user meets: what it says when something is in its way.

Python and pip are played here, with words that the real ones were seen to say.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 30

PYTHON = """\
#!/bin/sh
case "$*" in
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"-m pip"*) cat "$SAYS"; sleep "${TAKES:-0}"; exit "${CODE:-0}" ;;
  *--version*) echo "Python 3.12.1" ;;
  *"import pip"*) test "$0" = .venv/bin/python ;;
esac
"""

OFFLINE = """\
Obtaining file:///home/anna/olp
  Installing build dependencies: started
  WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError("Failed to \
establish a new connection: [Errno -3] Temporary failure in name resolution")'
ERROR: No matching distribution found for setuptools>=68
"""

Venv = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh copy of the repository, as far as the script looks at it."""
    folder = tmp_path / "olp"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "venv", folder / "scripts")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def venv(clone: Path, tmp_path: Path) -> Venv:
    """Starts the script: `venv("what pip says", CODE="1")`."""
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)

    def start(says: str = "", **variables: str) -> subprocess.Popen[str]:
        (tmp_path / "says").write_text(says)
        env = {"PATH": "/usr/bin:/bin", "PYTHON": str(python), "SAYS": str(tmp_path / "says")}
        out = subprocess.PIPE
        return subprocess.Popen(
            [clone / "scripts" / "venv"], env=env | variables, stdout=out, stderr=out, text=True
        )

    return start


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code, and what it said; nothing of it on standard output."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert out == ""
    return process.returncode, err


def test_the_first_start_installs_and_the_second_does_nothing(venv: Venv, clone: Path) -> None:
    code, said = ended(venv())
    assert code == 0 and (clone / ".venv" / ".olp-lan").exists()
    assert said.splitlines() == [
        "making .venv with Python 3.12.1",
        "installing OLP into .venv (only the first time, and after an update)",
    ]
    assert ended(venv()) == (0, "")
    os.utime(clone / "pyproject.toml", (time.time() + 9, time.time() + 9))
    assert "installing OLP" in ended(venv())[1]


def test_it_says_every_few_seconds_how_far_it_is(venv: Venv) -> None:
    code, said = ended(venv("  Downloading aiohttp-3.14.1-cp312.whl (1.7 MB)\n", TAKES="4"))
    assert code == 0 and "  3 s: Downloading aiohttp\n" in said


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (OFFLINE, "could not be downloaded. Is this machine online"),
        ("OSError: [Errno 28] No space left on device", "there is no room on the disk"),
        ("OSError: [Errno 30] Read-only file system: 'x'", "cannot be written"),
        ("ERROR: Package 'olp-home' requires a different Python", "requires a different Python"),
    ],
)
def test_what_is_in_its_way_is_told_in_one_line_of_its_own(
    venv: Venv, clone: Path, says: str, words: str
) -> None:
    code, said = ended(venv(says, CODE="1"))
    *_, last = said.splitlines()
    assert code == 1 and last.startswith("OLP: ") and words in last
    assert "Traceback" not in said and "Retrying" not in said
    assert not (clone / ".venv" / ".olp-lan").exists()
    assert ended(venv())[0] == 0, "the next start goes on"


def test_a_folder_that_cannot_be_written_is_told(venv: Venv, clone: Path) -> None:
    (clone / ".venv").write_text("in the way")
    code, said = ended(venv())
    assert code == 1 and f"the folder {clone} cannot be written" in said


def test_without_a_python_it_says_which(clone: Path) -> None:
    tools = clone.parent / "tools"
    tools.mkdir()
    for name in ("bash", "env", "dirname"):
        (tools / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [clone / "scripts" / "venv"], env={"PATH": str(tools)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("OLP: Python 3.11 or newer is needed")


def test_an_interruption_ends_pip_too(venv: Venv) -> None:
    process = venv(TAKES="60")
    assert process.stderr is not None
    while "installing" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    assert code == 130 and "interrupted" in said
