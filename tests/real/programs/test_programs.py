"""Each program does a piece of work through each CLI, with no more than what `olp connect` wrote.

An agent's run reads a file and edits it, and looks at a picture where the CLI takes one beside
tools: the file's new text and the picture's size, as the model tells it, are what is looked at.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .. import netns
from ..shelf import Found as Installed
from ..test_images import png
from ..vendors.client import Vendors, tools, turns
from ..vendors.scenario import Recorded
from .conftest import MODELS, RUN_S, Family, Ran, need, run
from .install import SHELF
from .table import AFTER, BEFORE, FILE, PICTURE, PROGRAMS, Job, Program, rows

VENDOR = {"claude": "anthropic", "codex": "openai", "vibe": "mistral"}
BY_NAME = {program.name: program for program in PROGRAMS}
DOCS = Path(__file__).parents[3] / "docs" / "clients.md"
pytestmark = pytest.mark.program

each = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
every = pytest.mark.parametrize("cli", MODELS)


@pytest.fixture(autouse=True)
def alone() -> None:
    """They ask the whole world for news: only where there is no way out, if such can be had."""
    if not netns.isolated() and netns.prefix():
        pytest.skip("run by scripts/test, which takes away the network")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A small repository with a text and a picture."""
    made = tmp_path / "repo"
    made.mkdir()
    (made / FILE).write_text(BEFORE)
    (made / PICTURE).write_bytes(base64.b64decode(png(64, 48)))
    git = ["git", "-C", str(made), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, timeout=30)
    return made


def asked(vendors: Vendors, cli: str) -> list[Recorded]:
    """The requests for an answer that the CLI's vendor got; that no other got any is checked."""
    found = [request for request in vendors.requests() if request.method == "POST"]
    assert {request.vendor for request in found} <= {VENDOR[cli]}, "another CLI was asked"
    return found


@every
@each
def test_N1_a_program_does_a_piece_of_work(
    family: Family, vendors: Vendors, home: Path, repo: Path, program: Program, cli: str
) -> None:
    installed, model = need(program.name), MODELS[cli]
    assert family.connect(program.name, model, home)["written"]
    picture = program.takes(cli)
    job = Job(repo, model, program.order(str(repo / FILE), picture=picture), picture)
    arguments, given = program.command(job)
    ran = run(installed, list(arguments), repo, home, input=given, env=program.env)
    assert ran.code == 0, _told(ran, family)
    assert (repo / FILE).read_text() == AFTER, _told(ran, family)
    if program.steps(""):
        _was_called(asked(vendors, cli), program, job)
        assert ("image image/" if picture else "all done") in ran.out, _told(ran, family)
    elif picture:
        assert any("[image image/" in str(turns(one)) for one in asked(vendors, cli))
    assert _failures(family) == []


def _was_called(requests: list[Recorded], program: Program, job: Job) -> None:
    """The conversation as the vendor got it last: every call once, each with its result."""
    steps = program.steps(job.file)
    talks = [request for request in requests if _offers(request, steps[0][0])]
    assert len(talks) == len(steps) + 1, "one request of the model for each step, and the last"
    told = turns(talks[-1])
    calls = [turn for turn in told if turn[0] == "call"]
    assert [turn[3] for turn in calls] == [args for _, args in steps]
    results = [str(turn[2]) for turn in told if turn[0] == "result"]
    assert len(results) == len(steps) and "world" in results[0], results
    assert not any(result.startswith("[error]") for result in results), results


def _offers(request: Recorded, name: str) -> bool:
    return any(
        tool.name in (name, f"client_{name}", f"mcp__client__{name}") for tool in tools(request)
    )


def _failures(family: Family) -> list[str]:
    return [line["event"] for line in family.house.log if line["event"].startswith("fallback_")]


def _told(ran: Ran, family: Family) -> str:
    log = [json.dumps(line) for line in family.house.log[-10:]]
    return "\n".join([ran.out[-2000:], ran.err[-3000:], *log])


_ROW = re.compile(r"^\| `([a-z-]+)` \| (\d[\d.]*) \| ([a-z, ]+) \| ([a-z, ]+) \|$", re.M)


def test_the_page_says_what_was_run() -> None:
    """And with which version: an older one than is installed now is a record, a newer one is made
    up."""
    told = _ROW.findall(DOCS.read_text("utf-8"))
    assert [(name, *cells) for name, _, *cells in told] == rows()
    for name, version, *_ in told:
        installed = SHELF.locate()[name]
        if isinstance(installed, Installed):
            assert _number(version) <= _number(installed.version), name


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


# --- what not every program does ---------------------------------------------------------------


@every
def test_N1_llm_and_a_schema(family: Family, home: Path, repo: Path, cli: str) -> None:
    family.connect("llm", MODELS[cli], home)
    order = '[[FORCED:{"answer": 42}]]'
    ran = run(need("llm"), ["-m", "olp", "--schema", "answer int", order], repo, home)
    assert (ran.code, json.loads(ran.out)) == (0, {"answer": 42}), ran.err


@every
def test_N1_llm_and_a_picture_alone(family: Family, home: Path, repo: Path, cli: str) -> None:
    family.connect("llm", MODELS[cli], home)
    ran = run(need("llm"), ["-m", "olp", "-a", PICTURE, "what is it? [[SEE]]"], repo, home)
    size = (repo / PICTURE).stat().st_size
    assert (ran.code, ran.out.strip()) == (0, f"image image/png {size} bytes"), ran.err


def test_opencode_makes_a_long_conversation_shorter(
    family: Family, vendors: Vendors, home: Path, repo: Path
) -> None:
    """It knows the limit: near it, it asks for a summary before it goes on."""
    model, program = MODELS["claude"], BY_NAME["opencode"]
    family.connect("opencode", model, home)
    written = (home / ".config" / "opencode" / "opencode.json").read_text("utf-8")
    limit = re.search(r'"context": *(\d+)', written)
    assert limit, written
    vendors.usage(input_tokens=int(limit[1]) - 10_000)
    job = Job(repo, model, program.order(str(repo / FILE), picture=False), False)
    arguments, given = program.command(job)
    with ThreadPoolExecutor() as pool:
        work = pool.submit(run, need("opencode"), list(arguments), repo, home, input=given)
        vendors.wait_for("anthropic", lambda seen: any(map(_asks_to_sum_up, seen)), RUN_S)
        vendors.usage(input_tokens=100)
        ran = work.result()
    assert ran.code == 0, _told(ran, family)


def _asks_to_sum_up(request: Recorded) -> bool:
    return request.method == "POST" and "summar" in str(turns(request)[-1])
