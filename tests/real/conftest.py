"""Fixtures for tests that run the real CLIs.

Everything in this folder is marked ``real``. A machine without the CLIs skips with the reason in
sight; continuous integration (``CI`` set) fails instead, so that a broken installation cannot pass
as green.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import netns
from .agent import TOOL_CLIS
from .house import House, configuration, serving
from .install import Found, Missing, locate
from .vendors.client import Vendors, running

_HERE = Path(__file__).resolve().parent


class Clis:
    """The installed CLIs; asking for one that is missing ends the test."""

    def __init__(self, found: dict[str, Found | Missing]) -> None:
        self._found = found

    def need(self, name: str) -> Found:
        one = self._found[name]
        if isinstance(one, Found):
            return one
        reason = f"real {name} is missing: {one.reason}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.real)
    left_out = [item for item in items if _too_dear(item)]
    if not config.getoption("--all") and not any("real" in name for name in config.args):
        left_out += _further_cases(items)
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)


def _further_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """All but one case of each test. Each day each test is run once, some on one CLI and transport
    and some on another (always the same); with `--all`, and where tests of this folder are named,
    on every one."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _HERE in item.path.parents and not _too_dear(item):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {of[zlib.crc32(name.encode()) % len(of)] for name, of in cases.items()}
    return [item for of in cases.values() for item in of if item not in kept]


def _too_dear(item: pytest.Item) -> bool:
    """A cold vibe takes six seconds, so that only tests marked `cold_vibe` pay them."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    cold = params.get("house") == "oneshot" and params.get("cli") == "vibe"
    return cold and item.get_closest_marker("cold_vibe") is None


def pytest_report_header() -> str:
    alone = "loopback only" if netns.isolated() else "the machine's own (see tests/real/netns.py)"
    return f"network of the real CLIs: {alone}"


@pytest.fixture(scope="session")
def clis() -> Clis:
    return Clis(locate())


@pytest.fixture(scope="session")
def vendor_process() -> Iterator[Vendors]:
    with running() as vendors:
        yield vendors


@pytest.fixture
def vendors(vendor_process: Vendors) -> Iterator[Vendors]:
    """The mock vendors, fresh: no overrides, no recorded requests, default quota. Tests without
    this fixture find them fresh too."""
    vendor_process.reset()
    yield vendor_process
    vendor_process.reset()


@pytest.fixture
def scratch_home(tmp_path: Path) -> Path:
    """A home directory that knows nobody."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture(params=["waiting", "oneshot"])
def house(request: pytest.FixtureRequest) -> House:
    """The running OLP with all three CLIs, as waiting processes and as one process a request; no
    hold is left by a test before, and what is to wait does."""
    found: House = request.getfixturevalue(f"{request.param}_house")
    found.command("/olp/quota/clear")
    params = request.node.callspec.params
    if request.param == "waiting":
        found.wait_until_ready([params["cli"]] if "cli" in params else ["claude", "codex"])
    return found


@pytest.fixture(scope="session")
def waiting_house(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    yield from _serve("auto", clis, vendor_process, tmp_path_factory.mktemp("waiting"))


@pytest.fixture(scope="session")
def oneshot_house(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    yield from _serve("oneshot", clis, vendor_process, tmp_path_factory.mktemp("oneshot"))


def _serve(transport: str, clis: Clis, vendor_process: Vendors, folder: Path) -> Iterator[House]:
    found = {name: clis.need(name) for name in ("claude", "codex", "vibe")}
    canaries(folder / "home")
    config = configuration(found, vendor_process, breaker={"threshold": 1000})
    for options in config["providers"].values():
        options["transport"] = transport
    with serving(config, folder) as running_house:
        yield running_house


@pytest.fixture(scope="session")
def agents_house(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A house for clients with tools, images and files, with the CLIs that can do such."""
    folder = tmp_path_factory.mktemp("agents")
    canaries(folder / "home")
    found = {name: clis.need(name) for name in TOOL_CLIS}
    config = configuration(found, vendor_process, breaker={"threshold": 1000})
    config["chains"]["files"] = ["codex/gpt-5.5", "claude/sonnet"]
    with serving(config, folder) as running_house:
        running_house.wait_until_ready(TOOL_CLIS)
        yield running_house


@pytest.fixture
def tooled(agents_house: House) -> House:
    """That house, with no hold left by a test before."""
    agents_house.command("/olp/quota/clear")
    return agents_house


CANARY = "olp-canary-7f3a9c"


def canaries(home: Path) -> None:
    """Files of a user that must never reach a vendor."""
    for name in (".claude/CLAUDE.md", ".codex/AGENTS.md", ".vibe/AGENTS.md", "secret.txt"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Remember this: {CANARY}\n", encoding="utf-8")
    skill = home / ".agents/skills/canary/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(f"---\nname: canary\ndescription: {CANARY}\n---\n", encoding="utf-8")
