"""Fixtures for tests that run OLP with fake CLIs."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import install
from tests.fakes.plan import Plan, Turn
from tests.support import ALL, GoOn, House, Served, open_house, write_config

OpenHouse = Callable[..., Coroutine[Any, Any, House]]
Serve = Callable[..., Served]


LONG = ("program", "long")
"""Markers of what only a run with `--all` does."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the family's day is (tests/server/test_family_day.py), and what is left out."""
    parser.addoption("--family-requests", type=int, default=None, metavar="N")
    parser.addoption("--all", action="store_true", help="the long tests, too")


def pytest_configure(config: pytest.Config) -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would all that is started here,
    while some tests press it."""
    if config.getoption("--all"):
        os.environ[ALL] = "1"
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests, unless they are asked for by name or all are wanted."""
    named = any("programs" in argument for argument in config.args)
    if not config.getoption("--all") and not named:
        left_out = [item for item in items if any(map(item.get_closest_marker, LONG))]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def fake_clis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with claude, codex and vibe."""
    return install(tmp_path_factory.mktemp("fakes"))


@pytest.fixture
def surroundings(
    tmp_path: Path, fake_clis: Path, monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """A user with an empty home and the fakes on PATH; nothing of this machine's own user."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{fake_clis}:/usr/bin:/bin")
    for name in (
        *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "VIBE_HOME"),
        *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "MISTRAL_API_KEY", "OLP_CONFIG"),
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """An empty plan for the fakes."""
    return Plan(tmp_path / "plan.json")


@pytest.fixture
def go_on(tmp_path: Path) -> GoOn:
    """A sign that makes a waiting fake go on."""
    return GoOn(tmp_path / "go on")


@pytest.fixture
async def open_(
    tmp_path: Path, surroundings: pytest.MonkeyPatch, plan: Plan
) -> AsyncIterator[OpenHouse]:
    """Starts a house: `await open_(claude=turns, codex=…, vibe=…, routing={…}, …)`.

    Turns are those of the plan; every other word is a table of the configuration. When the test
    ends it is looked whether anything was left behind.
    """
    async with AsyncExitStack() as stack:

        async def start(
            claude: Turn | list[Turn] | None = None,
            codex: Turn | list[Turn] | None = None,
            vibe: Turn | list[Turn] | None = None,
            **tables: Any,
        ) -> House:
            plan.set(claude=claude or [], codex=codex or [], vibe=vibe or [])
            return await stack.enter_async_context(open_house(tmp_path, plan, tables))

        yield start


@pytest.fixture
def serve(tmp_path: Path, surroundings: pytest.MonkeyPatch, plan: Plan) -> Iterator[Serve]:
    """Starts a server in a process of its own: `serve("--port", "0", routing={…})`."""
    with ExitStack() as stack:

        def start(*arguments: str, **tables: Any) -> Served:
            config = write_config(tmp_path / "olp.toml", plan, tables)
            return stack.enter_context(Served(tmp_path, ["--config", str(config), *arguments]))

        yield start
