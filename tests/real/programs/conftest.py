"""A house with keys, and in it the programs, each connected anew in an empty home."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from olp.runtime.process.run_folder import marked
from olp.runtime.process.worker import RUN_VARIABLE

from ..conftest import Clis
from ..house import House, configuration, serving
from ..install import Found, Missing
from ..shelf import Found as Program
from ..vendors.client import Vendors
from .install import SHELF

MODELS = {"claude": "one", "codex": "two", "vibe": "three"}
"""Chains of one hop each. Some programs offer other tools to a model whose name they know."""

HOPS = {"claude": "claude/sonnet", "codex": "codex/gpt-5.5", "vibe": "vibe/mockm"}
RUN_S = 90
"""The longest that a program may take."""


@dataclass(frozen=True)
class Ran:
    """How a program ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Family:
    """A house whose keys are on, and the token of one."""

    house: House
    config: Path
    token: str

    def olp(self, *arguments: str, home: Path, input: str = "") -> str:
        """What a command of OLP's prints, for a user whose home is `home`."""
        command = [sys.executable, "-m", "olp", *arguments, "--config", str(self.config)]
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        done = subprocess.run(
            command, input=input, env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def connect(self, name: str, model: str, home: Path) -> dict[str, Any]:
        """Exactly what a person does who has a key, and what was written."""
        more = ("--model", model, "--key", "-", "--write", "--yes", "--json")
        told = self.olp("connect", name, *more, home=home, input=self.token)
        return dict(json.loads(told))


@pytest.fixture(scope="session")
def family(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Family]:
    found = {name: clis.need(name) for name in MODELS}
    folder = tmp_path_factory.mktemp("family")
    config = configuration(found, vendor_process, breaker={"threshold": 1000})
    config["chains"] = {MODELS[cli]: [hop] for cli, hop in HOPS.items()}
    config["server"] = {"port": _free_port()}
    with serving(config, folder) as house:
        house.wait_until_ready(list(MODELS))
        home = tmp_path_factory.mktemp("owner")
        made = Family(house, folder / "olp.toml", "")
        token = json.loads(made.olp("keys", "add", "family", "--json", home=home))["token"]
        yield Family(house, made.config, token)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def need(name: str) -> Program:
    """The installed program. Without it the test is skipped, or fails in continuous integration
    unless the registry does not have it."""
    one = SHELF.locate()[name]
    if isinstance(one, Found):
        return one
    assert isinstance(one, Missing)
    reason = f"{name} is missing: {one.reason}"
    if os.environ.get("CI") and not one.refused:
        pytest.fail(reason)
    pytest.skip(reason)


def run(program: Program, arguments: list[str], cwd: Path, home: Path, **more: Any) -> Ran:
    """One run of a program to its end, with nothing of this user's in its surroundings."""
    mark = secrets.token_hex(8)
    env = {"PATH": SHELF.search_path(), "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb"}
    env[RUN_VARIABLE] = mark
    process = subprocess.Popen(
        [str(program.path), *arguments],
        cwd=cwd,
        env=env | dict(more.get("env", {})),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(more.get("input", ""), timeout=RUN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"not done after {RUN_S} s: {out[-2000:]} {err[-2000:]}") from None
    finally:
        for pid in marked(mark):  # cline leaves a daemon behind
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return Ran(process.returncode, out, err)
