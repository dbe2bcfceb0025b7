"""Installs the three real CLIs for the tests, and finds them again.

They are large, move weekly and must never land in the repository or in the user's own tool
folders, so they live in a cache folder of their own (``$OLP_TEST_CLIS``, else
``~/.cache/olp-test-clis``), one sub-folder each: a CLI that cannot be installed says why and
leaves the others alone. The npm packages are asked for as ``@latest``, because a bare name makes
npm fall back silently to an old release when the newest wants a newer Node than the machine has;
the native binaries inside do not care.

``python -m tests.real.install`` installs and prints a table; ``locate()`` only looks.
``OLP_TEST_CLAUDE_VERSION``, ``OLP_TEST_CODEX_VERSION`` and ``OLP_TEST_VIBE_VERSION`` pin a
release.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import netns

NPM_PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
PIP_PACKAGES = {"vibe": "mistral-vibe"}
NAMES = (*NPM_PACKAGES, *PIP_PACKAGES)
_INSTALL_SECONDS = 900
_PROBE_SECONDS = 60
_PYTHON_MINORS = (15, 14, 13, 12)  # vibe needs 3.12


@dataclass(frozen=True)
class Found:
    name: str
    path: Path
    version: str


@dataclass(frozen=True)
class Missing:
    name: str
    reason: str


class InstallError(Exception):
    """Why one CLI could not be installed, in words for the table."""


def cache_root() -> Path:
    given = os.environ.get("OLP_TEST_CLIS")
    return Path(given) if given else Path.home() / ".cache" / "olp-test-clis"


def locate() -> dict[str, Found | Missing]:
    """What is installed, by stamp file; starts nothing."""
    return {name: _look(name) for name in NAMES}


def install_all() -> dict[str, Found | Missing]:
    """Install what is missing or pinned differently; safe when two run at once."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "lock"):
        for name in NAMES:
            _ensure(name)
    return locate()


def binary(name: str) -> Path:
    if name in NPM_PACKAGES:
        return cache_root() / name / "node_modules" / ".bin" / name
    return cache_root() / name / "bin" / name


def _stamp(name: str) -> Path:
    return cache_root() / f"{name}.json"


def _wanted(name: str) -> str:
    return os.environ.get(f"OLP_TEST_{name.upper()}_VERSION", "")


def _read_stamp(name: str) -> dict[str, str]:
    try:
        read = json.loads(_stamp(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in read.items()} if isinstance(read, dict) else {}


def _look(name: str) -> Found | Missing:
    stamp = _read_stamp(name)
    if stamp.get("error"):
        return Missing(name, stamp["error"])
    if "version" in stamp and binary(name).exists():
        return Found(name, binary(name), stamp["version"])
    return Missing(name, "not installed; run: python -m tests.real.install")


def _ensure(name: str) -> None:
    stamp = _read_stamp(name)
    done = isinstance(_look(name), Found) and stamp.get("wanted", "") == _wanted(name)
    if done:
        print(f"{name}: already there ({stamp['version']})", flush=True)
        return
    print(f"{name}: installing …", flush=True)
    result = {"wanted": _wanted(name)}
    try:
        if name in NPM_PACKAGES:
            _npm_install(name)
        else:
            _pip_install(name)
        result["version"] = _probe(name)
    except InstallError as error:
        result["error"] = str(error)
    _write_stamp(name, result)
    print(f"{name}: {result.get('version') or 'failed: ' + result['error']}", flush=True)


def _write_stamp(name: str, result: dict[str, str]) -> None:
    fresh = _stamp(name).with_suffix(".new")
    fresh.write_text(json.dumps(result) + "\n", encoding="utf-8")
    fresh.replace(_stamp(name))


def _npm_install(name: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is not on PATH (install Node.js)")
    folder = cache_root() / name
    folder.mkdir(parents=True, exist_ok=True)
    package = f"{NPM_PACKAGES[name]}@{_wanted(name) or 'latest'}"
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    _run([npm, "install", "--prefix", str(folder), *quiet, package])


def _pip_install(name: str) -> None:
    python = _new_python()
    if python is None:
        raise InstallError("no Python 3.12 or newer found (PATH, ~/.pyenv/versions)")
    folder = cache_root() / name
    if not (folder / "bin" / "python").exists():
        _run([python, "-m", "venv", str(folder)])
    package = PIP_PACKAGES[name] + (f"=={_wanted(name)}" if _wanted(name) else "")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", "--upgrade", package])


def _new_python() -> str | None:
    """The newest Python that runs; a pyenv shim may stand on PATH and still refuse."""
    names = [f"python3.{minor}" for minor in _PYTHON_MINORS]
    pyenv = Path.home() / ".pyenv" / "versions"
    kept = [str(p) for n in _PYTHON_MINORS for p in sorted(pyenv.glob(f"3.{n}*/bin/python3"))]
    onpath = [path for path in map(shutil.which, names) if path]
    check = "import sys, venv; sys.exit(sys.version_info < (3, 12))"
    for python in (*kept, *onpath):
        tried = subprocess.run([python, "-c", check], capture_output=True, check=False)
        if tried.returncode == 0:
            return python
    return None


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{Path(command[0]).name}: {error}") from error
    if done.returncode != 0:
        tail = " / ".join(done.stdout.strip().splitlines()[-3:])
        raise InstallError(f"{Path(command[0]).name} exit {done.returncode}: {tail}")


def _probe(name: str) -> str:
    """The version the CLI itself gives, asked without a network and with a home of its own."""
    command = netns.wrap([str(binary(name)), "--version"])
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "VIBE_HOME": home, "CODEX_HOME": home}
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_SECONDS,
                env=env,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InstallError(f"installed, but --version failed: {error}") from error
    number = re.search(r"\d+\.\d+\.\d+\S*", done.stdout)
    if done.returncode != 0 or number is None:
        said = (done.stderr or done.stdout).strip()[-200:]
        raise InstallError(f"installed, but --version gave exit {done.returncode}: {said}")
    return number[0]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another installation is running; waiting for it …", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def table(found: dict[str, Found | Missing]) -> str:
    rows = []
    for name, one in found.items():
        if isinstance(one, Found):
            rows.append(f"{name:<8}{one.version:<14}{one.path}")
        else:
            rows.append(f"{name:<8}{'missing':<14}{one.reason}")
    alone = " ".join(netns.prefix()) or "not possible here: tests run with the machine's network"
    return "\n".join([*rows, f"{'netns':<22}{alone}"])


def main() -> int:
    found = install_all()
    print(table(found))
    return 0 if all(isinstance(one, Found) for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
