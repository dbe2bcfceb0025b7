"""Programs of others that tests run: installed into a cache folder of their own, and found again.

They are large, move weekly and must never land in the repository or in the user's own tool
folders. Each has a sub-folder: one that cannot be installed says why and leaves the others alone.
npm packages are asked for with a tag, because a bare name makes npm fall back silently to an old
release when the newest wants a newer Node than the machine has. `OLP_TEST_NAME_VERSION` pins a
release.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import netns

_INSTALL_SECONDS = 900
_PROBE_SECONDS = 60
_REFUSALS = re.compile(
    r"\bE40[134]\b|ETARGET|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|HTTP error [45]"
    r"|No matching distribution|Could not find a version|NewConnectionError|Connection refused"
    r"|Temporary failure in name resolution"
)
"""Words of npm and pip that mean: the registry does not have it, or cannot be reached."""


@dataclass(frozen=True)
class Npm:
    """A package of npm's, and its program if that is called otherwise than on the shelf."""

    package: str
    program: str = ""
    tag: str = "latest"


@dataclass(frozen=True)
class Pip:
    """A package of PyPI's, and the minor versions of Python 3 that it works with, best first."""

    package: str
    minors: Sequence[int]


@dataclass(frozen=True)
class Found:
    name: str
    path: Path
    version: str


@dataclass(frozen=True)
class Missing:
    """Why it is not there; `refused` if the registry said no."""

    name: str
    reason: str
    refused: bool = False


class InstallError(Exception):
    """Why one program could not be installed, in words for the table."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


@dataclass(frozen=True)
class Shelf:
    """The programs of one folder, which the variable `variable` may move; `module` installs them.
    Where there is a package `node` among them, it runs the others."""

    folder: str
    variable: str
    module: str
    packages: Mapping[str, Npm | Pip]

    @property
    def root(self) -> Path:
        given = os.environ.get(self.variable)
        return Path(given) if given else Path.home() / ".cache" / self.folder

    def locate(self) -> dict[str, Found | Missing]:
        """What is installed, by stamp file; starts nothing."""
        return {name: self._look(name) for name in self.packages}

    def install_all(self) -> dict[str, Found | Missing]:
        """Install what is missing or pinned differently; safe when two run at once."""
        self.root.mkdir(parents=True, exist_ok=True)
        with _locked(self.root / "lock"), ThreadPoolExecutor(2) as pool:
            first = [name for name in self.packages if name == "node"]
            list(map(self._ensure, first))  # the others may need it to tell their version
            list(pool.map(self._ensure, [name for name in self.packages if name not in first]))
        return self.locate()

    def binary(self, name: str) -> Path:
        package = self.packages[name]
        if isinstance(package, Npm):
            folder = self.root / name / "node_modules" / ".bin"
            return folder / (package.program or name)
        return self.root / name / "bin" / name

    def search_path(self) -> str:
        """What PATH must be for these programs to run."""
        own = [str(self.binary("node").parent)] if "node" in self.packages else []
        return os.pathsep.join([*own, os.environ["PATH"]])

    def table(self) -> str:
        """What is there and what is not, as lines."""
        rows = []
        for name, one in self.locate().items():
            told = (one.version, one.path) if isinstance(one, Found) else ("missing", one.reason)
            rows.append(f"{name:<10}{told[0]:<14}{told[1]}")
        alone = " ".join(netns.prefix()) or "not possible here: tests run with the machine's own"
        return "\n".join([*rows, f"{'network':<24}{alone}"])

    def main(self) -> int:
        """Install, print the table; 0 if all are there but those that the registry refuses."""
        found = self.install_all()
        print(self.table())
        return int(any(isinstance(one, Missing) and not one.refused for one in found.values()))

    def _stamp(self, name: str) -> Path:
        return self.root / f"{name}.json"

    def _read_stamp(self, name: str) -> dict[str, str]:
        try:
            read = json.loads(self._stamp(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {str(k): str(v) for k, v in read.items()} if isinstance(read, dict) else {}

    def _look(self, name: str) -> Found | Missing:
        stamp = self._read_stamp(name)
        if stamp.get("error"):
            return Missing(name, stamp["error"], refused="refused" in stamp)
        if "version" in stamp and self.binary(name).exists():
            return Found(name, self.binary(name), stamp["version"])
        return Missing(name, f"not installed; run: python -m {self.module}")

    def _ensure(self, name: str) -> None:
        stamp = self._read_stamp(name)
        if isinstance(self._look(name), Found) and stamp.get("wanted", "") == _wanted(name):
            print(f"{name}: already there ({stamp['version']})", flush=True)
            return
        print(f"{name}: installing …", flush=True)
        result = {"wanted": _wanted(name)}
        try:
            self._install(name)
            result["version"] = self._probe(name)
        except InstallError as error:
            result["error"] = str(error)
            result |= {"refused": "yes"} if error.refused else {}
        fresh = self._stamp(name).with_suffix(".new")
        fresh.write_text(json.dumps(result) + "\n", encoding="utf-8")
        fresh.replace(self._stamp(name))
        print(f"{name}: {result.get('version') or 'failed: ' + result['error']}", flush=True)

    def _install(self, name: str) -> None:
        package, folder = self.packages[name], self.root / name
        if isinstance(package, Npm):
            _npm_install(package, folder, _wanted(name))
        else:
            _pip_install(package, folder, _wanted(name))

    def _probe(self, name: str) -> str:
        """The version the program itself gives, asked without a network and with a home of its
        own."""
        command = netns.wrap([str(self.binary(name)), "--version"])
        with tempfile.TemporaryDirectory() as home:
            env = {**os.environ, "HOME": home, "VIBE_HOME": home, "CODEX_HOME": home}
            env["PATH"] = self.search_path()
            done = _ran(command, _PROBE_SECONDS, "installed, but --version failed", env)
        number = re.search(r"\d+\.\d+(\.\d+\S*)?", done.stdout)
        if done.returncode != 0 or number is None:
            said = (done.stderr or done.stdout).strip()[-200:]
            told = f"installed, but --version gave exit {done.returncode}: {said}"
            raise InstallError(told)
        return number[0]


def _wanted(name: str) -> str:
    return os.environ.get(f"OLP_TEST_{name.upper().replace('-', '_')}_VERSION", "")


def _npm_install(package: Npm, folder: Path, wanted: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is not on PATH (install Node.js)")
    folder.mkdir(parents=True, exist_ok=True)
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    named = f"{package.package}@{wanted or package.tag}"
    _run([npm, "install", "--prefix", str(folder), *quiet, named])


def _pip_install(package: Pip, folder: Path, wanted: str) -> None:
    if not (folder / "bin" / "python").exists():
        _run([_python(package.minors), "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    named = package.package + (f"=={wanted}" if wanted else "")
    _run([*pip, "install", "--quiet", "--upgrade", named])


def _python(minors: Sequence[int]) -> str:
    """The first of these Pythons that runs; a pyenv shim may stand on PATH and still refuse."""
    pyenv = Path.home() / ".pyenv" / "versions"
    for minor in minors:
        kept = [str(path) for path in sorted(pyenv.glob(f"3.{minor}.*/bin/python3"))]
        for python in (*kept, f"python3.{minor}"):
            try:
                done = subprocess.run([python, "-c", "import venv"], capture_output=True)
            except OSError:
                continue
            if done.returncode == 0:
                return python
    wanted = ", ".join(f"3.{minor}" for minor in minors)
    raise InstallError(f"none of Python {wanted} found (PATH, ~/.pyenv/versions)")


def _run(command: list[str]) -> None:
    done = _ran(command, _INSTALL_SECONDS, Path(command[0]).name)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        tail = " / ".join(said.splitlines()[-3:])
        told = f"{Path(command[0]).name} exit {done.returncode}: {tail}"
        raise InstallError(told, refused=_REFUSALS.search(said) is not None)


def _ran(
    command: list[str], seconds: float, what: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=env,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{what}: {error}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another installation is running; waiting for it …", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
