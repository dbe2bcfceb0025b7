"""Proves the bench itself: real CLIs reach the mock vendors, and nothing else.

When one of these fails, no result of the other real tests means anything.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from . import netns
from .byhand import answer, run
from .conftest import Clis
from .install import NAMES
from .vendors.client import Vendors
from .vendors.scenario import Scenario, marked

VENDOR_OF = {"claude": "anthropic", "codex": "openai", "vibe": "mistral"}
SIX_WORDS = "word0 word1 word2 word3 word4 word5"
CANARY = "olp-canary-42"
EVIL = {
    "claude": ("Bash", "Read", "Write"),
    "codex": ("exec_command", "shell", "apply_patch"),
    "vibe": ("bash", "read_file", "write_file", "edit", "run_typescript"),
}
PROBE = """
import socket
try:
    socket.create_connection(("192.0.2.1", 443), 3)
except OSError as error:
    print(error.errno)
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), 3).close()
print("loopback works")
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_answer_arrives(
    name: str, clis: Clis, vendors: Vendors, scratch_home: Path
) -> None:
    ran = run(clis.need(name), vendors, scratch_home, "say hi [[OK]]")
    assert ran.exit == 0, ran.stderr
    assert answer(name, ran).strip() == SIX_WORDS
    asked = vendors.requests(VENDOR_OF[name])
    assert len(asked) == 1
    assert asked[0].completed
    assert "say hi" in asked[0].body


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_mocks_own(
    name: str, clis: Clis, vendors: Vendors, scratch_home: Path
) -> None:
    ran = run(clis.need(name), vendors, scratch_home, "[[SAY:Grüße 👋 日本]]")
    assert answer(name, ran) == "Grüße 👋 日本"


def test_claude_reports_a_used_up_subscription(
    clis: Clis, vendors: Vendors, scratch_home: Path
) -> None:
    ran = run(clis.need("claude"), vendors, scratch_home, "[[QUOTA]]")
    result = ran.of("result")[-1]
    assert ran.exit == 1
    assert result["is_error"] is True
    assert result["api_error_status"] == 429
    limit = ran.of("rate_limit_event")[-1]["rate_limit_info"]
    assert limit["status"] == "rejected"
    assert limit["resetsAt"] > 0


def test_codex_reports_a_used_up_plan(clis: Clis, vendors: Vendors, scratch_home: Path) -> None:
    ran = run(clis.need("codex"), vendors, scratch_home, "[[QUOTA]]")
    assert ran.exit == 1
    assert "usage limit" in ran.of("turn.failed")[-1]["error"]["message"]


def test_vibe_reports_a_refused_key(clis: Clis, vendors: Vendors, scratch_home: Path) -> None:
    ran = run(clis.need("vibe"), vendors, scratch_home, "[[AUTH]]")
    assert ran.exit == 1
    assert "Invalid API key" in ran.stderr
    assert ran.export is not None
    assert ran.export["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(("name", "tool"), [(n, t) for n, tools in EVIL.items() for t in tools])
def test_a_model_that_wants_tools_gets_none(
    name: str, tool: str, clis: Clis, vendors: Vendors, scratch_home: Path
) -> None:
    ran = run(clis.need(name), vendors, scratch_home, f"[[EVIL:{tool}]]")
    assert len(vendors.requests(VENDOR_OF[name])) == 2
    said = answer(name, ran)
    assert CANARY not in said
    assert "root:" not in said
    assert not list(scratch_home.rglob("olp-canary*"))
    assert not Path("/tmp/olp-canary").exists()


def test_only_loopback_is_reachable_in_a_namespace() -> None:
    if not netns.prefix():
        pytest.skip("no network namespace can be made here")
    command = netns.wrap([sys.executable, "-c", PROBE])
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stdout.split("\n", 1)
    assert int(first) > 0, "a documentation address was reachable"
    assert second.strip() == "loopback works"


def test_this_run_is_isolated_when_it_says_so() -> None:
    if not netns.isolated():
        pytest.skip("run through: python -m tests.real.netns -- pytest tests/real")
    with pytest.raises(OSError):
        socket.create_connection(("192.0.2.1", 443), 3)


def test_a_scenario_set_from_outside_wins_for_as_often_as_asked(vendors: Vendors) -> None:
    vendors.scenario("mistral", "SAY", "first", times=1)
    vendors.quota(five_hour=0.9)
    assert _chat(vendors, "[[SAY:second]]") == "first"
    assert _chat(vendors, "[[SAY:second]]") == "second"
    bodies = [json.loads(r.body)["messages"][0]["content"] for r in vendors.requests("mistral")]
    assert bodies == ["[[SAY:second]]"] * 2


def test_a_client_that_leaves_is_noticed(vendors: Vendors) -> None:
    with pytest.raises(TimeoutError):
        _chat(vendors, "[[HANG]]", stream=True, seconds=0.3)
    seen = vendors.wait_for("mistral", lambda rows: rows[0].closed_at is not None)
    assert not seen[0].completed


@pytest.mark.parametrize(
    ("text", "scenario"),
    [
        ("hello", Scenario("OK", None)),
        ("[[SLOW:0.5]] go", Scenario("SLOW", "0.5")),
        ("[[OK]] then [[HANG_AT:2]]", Scenario("HANG_AT", "2")),
        ('[[JSON:{"a": [[1], [2]]}]]', Scenario("JSON", '{"a": [[1], [2]]}')),
        ("[[SAY:two\nlines]]", Scenario("SAY", "two\nlines")),
    ],
)
def test_markers(text: str, scenario: Scenario) -> None:
    assert marked(text) == scenario


def _chat(vendors: Vendors, text: str, stream: bool = False, seconds: float = 5) -> str:
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{vendors.v1_url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=seconds) as response:
        if stream:
            response.read()
        return str(json.load(response)["choices"][0]["message"]["content"])
