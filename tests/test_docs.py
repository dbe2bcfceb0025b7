"""What the documentation says is true: links, commands, flags, keys, and the example of a CLI."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import click
import pytest

import olp.providers
from olp.cli import compose
from olp.cli.main import cli
from olp.cli.running import running
from olp.config import load
from olp.config.options import sections
from olp.providers import all_providers
from olp.runtime.log import Log
from olp.runtime.process.run_folder import RunFolder
from tests.support import CHAT, soon

ROOT = Path(__file__).resolve().parent.parent
UNREAD = {".git", ".venv", "node_modules", "build", "dist"}
PAGES = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not UNREAD & set(path.relative_to(ROOT).parts)
    and not any("cache" in part for part in path.relative_to(ROOT).parts)
]
DOCS = [path for path in PAGES if path.parent == ROOT or "docs" in path.relative_to(ROOT).parts]

ALL = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
EACH = pytest.mark.parametrize("page", DOCS, ids=lambda p: p.relative_to(ROOT).as_posix())

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")
REPOSITORY = re.compile(r"(?<!/)\b(?:olp|tests|docs|scripts)/[\w./-]*\w")
VARIABLE = re.compile(r"\bOLP_[A-Z]+(?:_[A-Z]+)*\b")
ASSIGNMENT = re.compile(r"([a-z][a-z_]*) = .+")
TABLE = re.compile(r"\[([a-z]+)(?:\.[a-zA-Z]+)?\]")

OTHER_VARIABLES = {"OLP_CONFIG", "OLP_RUN"}
"""Variables that are no option: where the file is, and the mark of a run's processes."""

TO_COME = {"olp/providers/parrot.py", "tests/transcripts/NAME"}
"""What a page tells the reader to write."""

NOT_FOR_READERS = re.compile(
    r"/work/|/root/|\bspec\.md|\bdesign\.md|\bpains\.md|cli-facts|the brief\b|\bsub-?task"
    r"|\bTODO\b|\bFIXME\b|as an AI\b|\blanguage model, I\b|\bsession of the project\b",
    re.I,
)
"""Machines, notes and tools of those who wrote this."""


def text_of(page: Path) -> str:
    """The page's text."""
    return page.read_text("utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return [body for found, body in FENCE.findall(text_of(page)) if found == language]


def inline(page: Path) -> list[str]:
    """What stands between backticks, outside the fenced blocks."""
    return INLINE.findall(FENCE.sub("", text_of(page)))


# --- pages -------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert text_of(ROOT / "README.md").count("\n") < 120


def test_the_pages_that_others_point_to_are_there() -> None:
    for name in ("config", "fallback", "errors", "security", "providers", "dialects"):
        assert (ROOT / "docs" / f"{name}.md") in DOCS
    assert len([page for page in DOCS if page.parent.name == "decisions"]) >= 5
    assert "MIT License" in (ROOT / "LICENSE").read_text("utf-8")


@ALL
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", text_of(page))):
        if not target.startswith(("http://", "https://", "#")):
            path = (page.parent / target.partition("#")[0]).resolve()
            assert path.is_relative_to(ROOT) and path.exists(), target


@EACH
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = {found for code in inline(page) for found in REPOSITORY.findall(code)}
    assert [n for n in named - TO_COME if not (ROOT / n).exists()] == []


@ALL
def test_nothing_tells_of_those_who_wrote_it(page: Path) -> None:
    lines = enumerate(text_of(page).splitlines(), 1)
    assert [f"{n}: {line}" for n, line in lines if NOT_FOR_READERS.search(line)] == []


def test_where_things_are_is_true() -> None:
    """Each path of ARCHITECTURE.md, and what stands beside it in the same cell or line."""
    lost = []
    for line in text_of(ROOT / "ARCHITECTURE.md").splitlines():
        folder = ROOT / "olp"
        for name in re.findall(r"(?<![\w/*])[a-z_]+(?:/[a-z_]+)*\.py\b", line):
            if "/" in name:
                path = ROOT / "olp" / name if (ROOT / "olp" / name).exists() else ROOT / name
                folder = path.parent
            else:
                path = next((f / name for f in (folder, ROOT / "olp") if (f / name).exists()), None)
            if path is None or not path.exists():
                lost.append(name)
    assert set(lost) <= {"compose.py", "notices.py", "failures.py"}, "one without its folder is new"


# --- commands ----------------------------------------------------------------------------------


def commands(page: Path) -> Iterator[str]:
    """Every command of OLP on the page, as it would be typed."""
    shown = "\n".join(blocks(page, "sh") + blocks(page, ""))
    for line in (*shown.splitlines(), *inline(page)):
        typed = line.strip().removeprefix("$ ").removeprefix(".venv/bin/")
        if typed.startswith("scripts/serve"):
            typed = "olp serve" + typed.removeprefix("scripts/serve")
        if re.match(r"olp [a-z-]", typed):
            yield typed


def problem_of(typed: str) -> str | None:
    """What `olp` would not understand of a command."""
    command: click.Command = cli
    context = click.Context(cli)
    flags = {"-h", "--help"}
    for word in shlex.split(typed, comments=True)[1:]:
        flags |= {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
        if word.startswith("-"):
            if word.partition("=")[0] not in flags:
                return f"{word} is no option of {command.name}"
        elif isinstance(command, click.Group):
            inner = command.get_command(context, word)
            if inner is None:
                return f"there is no {word} in {command.name}"
            command = inner
    return None


@EACH
def test_every_command_exists(page: Path) -> None:
    problems = {typed: problem_of(typed) for typed in commands(page)}
    assert {typed: problem for typed, problem in problems.items() if problem} == {}


def test_every_command_is_told_of() -> None:
    told = {typed.split()[1] for page in DOCS for typed in commands(page)}
    assert set(cli.list_commands(click.Context(cli))) - told == set()


def test_a_wrong_command_would_be_found() -> None:
    assert problem_of("olp serve --demo --port 4700") is None
    assert problem_of("olp serve --dmeo") is not None
    assert problem_of("olp sing") is not None
    assert problem_of("olp chain shwo NAME") is not None


# --- configuration -----------------------------------------------------------------------------


@EACH
def test_every_piece_of_configuration_is_valid(page: Path) -> None:
    for body in blocks(page, "toml"):
        load(body, file=page.name, providers=tuple(all_providers()))


@EACH
def test_every_key_exists(page: Path) -> None:
    known = {option.name for section in sections().values() for option in section.options}
    given = (ASSIGNMENT.fullmatch(code) for code in inline(page))
    assert {found[1] for found in given if found} - known == set()


@EACH
def test_every_table_exists(page: Path) -> None:
    text = FENCE.sub("", text_of(page))
    named = {found[1] for code in INLINE.findall(text) if (found := TABLE.fullmatch(code))}
    assert named - {name.partition(".")[0] for name in sections()} == set()


@EACH
def test_every_variable_exists(page: Path) -> None:
    known = {
        f"OLP_{name}_{option.name}".upper()
        for name, section in sections().items()
        for option in section.options
    }
    assert set(VARIABLE.findall(text_of(page))) - known - OTHER_VARIABLES == set()


# --- the example of a provider -----------------------------------------------------------------


@pytest.fixture
def parrot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The two files of docs/providers.md: a CLI that is alone on PATH, and its provider."""
    script, provider = blocks(ROOT / "docs" / "providers.md", "python")[:2]
    program = tmp_path / "bin" / "parrot"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{script.partition(chr(10))[2]}", "utf-8")
    program.chmod(0o755)
    folder = tmp_path / "providers"
    folder.mkdir()
    (folder / "parrot.py").write_text(provider, "utf-8")
    monkeypatch.setattr(olp.providers, "__path__", [*olp.providers.__path__, str(folder)])
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    yield
    sys.modules.pop("olp.providers.parrot", None)
    vars(olp.providers).pop("parrot", None)


CHAIN = '[chains]\ncage = ["parrot/bald", "parrot/grey"]\n[providers.claude]\nenabled = false\n'


async def ask(client: aiohttp.ClientSession, url: str, model: str) -> tuple[int, str]:
    """Status and text of one answer."""
    body = {"model": model, "messages": [{"role": "user", "content": "Pretty Polly"}]}
    async with client.post(url + CHAT, json=body) as response:
        told = await response.json()
        if response.status != 200:
            return response.status, str(told["error"]["message"])
        assert response.headers["X-OLP-Provider-Used"] == "parrot"
        return 200, str(told["choices"][0]["message"]["content"])


async def test_the_example_of_a_provider_serves(parrot: None, tmp_path: Path) -> None:
    flags: dict[tuple[str, ...], int] = {("server", "port"): 0}
    config = load(CHAIN, file="olp.toml", providers=tuple(all_providers()), flags=flags).config
    place = RunFolder(tmp_path / "state")
    place.open()
    try:
        async with (
            running(config, compose.find_providers(config), place, Log(level="error")) as server,
            aiohttp.ClientSession() as client,
        ):
            assert await soon(ask(client, server.url, "auto")) == (200, "Pretty Polly ")
            status, message = await soon(ask(client, server.url, "cage"))
    finally:
        place.close()
    assert status == 429 and "out of seeds" in message
