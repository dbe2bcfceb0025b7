"""The host stays safe: no tool runs, no file is read, nothing of the user's goes to a vendor."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from olp.runtime.process.run_folder import marked

from .conftest import CANARY
from .house import House
from .test_answers import CLIS, MODELS, VENDOR
from .vendors.client import Vendors

TOOLS = {
    "claude": ["Bash", "Read", "Write", "WebFetch"],
    "codex": ["exec_command", "shell", "apply_patch", "exec"],
    "vibe": ["bash", "write_file", "read_file", "run_typescript"],
}


@pytest.mark.cold_vibe
@pytest.mark.parametrize(("cli", "tool"), [(c, t) for c in CLIS for t in TOOLS[c]])
def test_M2_a_model_that_asks_for_a_tool_gets_none(
    house: House, vendors: Vendors, cli: str, tool: str, tmp_path: Path
) -> None:
    victim = tmp_path / "made-by-the-model"
    secret = house.home / "secret.txt"
    command = f"cat {secret} > {victim}"
    arguments = {
        "command": command,
        "cmd": command,
        "file_path": str(secret if tool in ("Read", "read_file") else victim),
        "path": str(secret if tool in ("Read", "read_file") else victim),
        "content": "x",
        "url": "http://127.0.0.1:1/",
        "input": f"*** Begin Patch\n*** Add File: {victim}\n+x\n*** End Patch",
        "code": f'await tools.file_system.bash({{command: "{command}"}})',
    }
    answer = house.chat(f"[[EVIL:{tool}:{json.dumps(arguments)}]]", MODELS[cli])
    assert not victim.exists()
    assert CANARY not in answer.body.decode()
    assert not any(CANARY in request.body for request in vendors.requests())


@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize("shape", ["@{path}", "/cost @{path}", "!cat {path}", "#{path}"])
def test_M1_nothing_in_a_prompt_is_a_command(
    house: House, vendors: Vendors, cli: str, shape: str
) -> None:
    if cli == "vibe" and shape != "/cost @{path}":
        pytest.skip("six seconds each; the combined shape covers them")
    prompt = shape.format(path=house.home / "secret.txt") + " [[OK]]"
    answer = house.chat(prompt, MODELS[cli])
    assert answer.status == 200
    (sent,) = vendors.requests(VENDOR[cli])
    assert CANARY not in sent.body
    assert json.dumps(prompt)[1:-1] in sent.body.replace("\\n", "")


@pytest.mark.parametrize(("cli", "limit"), [("claude", 2200), ("codex", 6000), ("vibe", 30000)])
def test_lean_and_without_the_users_own_settings(
    house: House, vendors: Vendors, cli: str, limit: int
) -> None:
    vendors.scenario(VENDOR[cli], "OK")
    house.chat("hi", MODELS[cli])
    (sent,) = vendors.requests(VENDOR[cli])
    assert sent.body_bytes <= limit
    assert CANARY not in sent.body
    assert str(house.home) not in sent.body


def test_M1_claude_has_no_tool(house: House, vendors: Vendors) -> None:
    house.chat("hi [[OK]]", MODELS["claude"])
    assert not json.loads(vendors.requests("anthropic")[0].body).get("tools")


def test_M1_codex_has_no_tool_with_hands(house: House, vendors: Vendors) -> None:
    house.chat("hi [[OK]]", MODELS["codex"])
    sent = json.loads(vendors.requests("openai")[0].body)
    names = {tool.get("name") or tool["type"] for tool in sent.get("tools", ())}
    assert names <= {"apply_patch"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cli", CLIS)
def test_M6_a_client_that_leaves_ends_every_process(
    house: House, vendors: Vendors, cli: str, stream: bool
) -> None:
    if cli == "vibe" and not stream:
        pytest.skip("six seconds each; streaming covers it")
    before = _children(house)
    address = urlsplit(house.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    messages = [{"role": "user", "content": "[[HANG]]"}]
    body = json.dumps({"model": MODELS[cli], "stream": stream, "messages": messages})
    connection.request("POST", "/v1/chat/completions", body)
    vendors.wait_for(VENDOR[cli], lambda seen: len(seen) == 1, 20)
    assert house.health()["providers"][cli]["slots"]["active"] == 1
    assert _children(house)
    connection.close()
    vendors.wait_for(VENDOR[cli], lambda seen: seen[0].closed_at is not None, 6)
    end = time.monotonic() + 6
    while not _is_quiet(house, cli, before):
        assert time.monotonic() < end, f"still there: {_children(house) - before}"
        time.sleep(0.05)


def _is_quiet(house: House, cli: str, before: set[int]) -> bool:
    """Whether the slot is free and the process that had it is gone."""
    report = house.health()["providers"][cli]
    if report["slots"]["active"] or report["waiting"]["busy"]:
        return False
    waiting = report["waiting"]["warm"] > 0
    return waiting or not (_children(house) - before or any(house.state.glob("private/*")))


def _children(house: House) -> set[int]:
    """The processes that carry this run's mark: all that this server started, grandchildren
    included, and nothing of the servers that other tests run beside it."""
    (run,) = (house.state / "runs").iterdir()
    return set(marked(run.name))


def test_C6_codex_answers_at_the_end_of_its_turn(house: House, vendors: Vendors) -> None:
    began = time.monotonic()
    assert house.chat("hi [[OK]]", MODELS["codex"]).status == 200
    ended = time.monotonic()
    (sent,) = vendors.requests("openai")
    assert sent.received_at is not None
    assert ended - began < 3, "the process stays for five seconds; the answer must not"
