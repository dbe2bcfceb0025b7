"""Waiting processes of the real CLIs: true turns, live conversations, clean ends."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .house import House
from .test_answers import CLIS, MODELS, VENDOR, WORDS
from .vendors.client import Vendors

Talk = list[dict[str, Any]]


@pytest.fixture
def warm(waiting_house: House) -> House:
    waiting_house.command("/olp/quota/clear")
    return waiting_house


def opening(text: str = "first") -> Talk:
    return [
        {"role": "system", "content": "You are SYSTEM-MARK."},
        {"role": "user", "content": f"{text} [[OK]]"},
    ]


def going_on(talk: Talk, answer: str, text: str = "second") -> Talk:
    more = {"role": "user", "content": f"{text} [[OK]]"}
    return [*talk, {"role": "assistant", "content": answer}, more]


def test_warming_costs_no_quota(warm: House, vendors: Vendors) -> None:
    warm.wait_until_ready(CLIS)
    assert not [r for r in vendors.requests() if r.method == "POST"]


@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_follow_up_goes_to_the_living_conversation(
    warm: House, vendors: Vendors, cli: str, stream: bool
) -> None:
    warm.wait_until_ready([cli])
    first = warm.chat(opening(f"{cli} {stream}"), MODELS[cli], stream=stream)
    assert (first.text, first.headers["X-OLP-Conversation"]) == (WORDS, "new")
    talk = going_on(opening(f"{cli} {stream}"), first.text)
    second = warm.chat(talk, MODELS[cli], stream=stream)
    assert (second.text, second.headers["X-OLP-Conversation"]) == (WORDS, "live")
    assert _turns(vendors, cli) == ["first", "answer", "second"] or cli == "vibe"
    if not stream:
        usage = second.json["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (25, 15)


def _turns(vendors: Vendors, cli: str) -> list[str]:
    """What the vendor got last as true turns, in order."""
    sent = json.loads(vendors.requests(VENDOR[cli])[-1].body)
    out = []
    for message in sent.get("messages") or sent.get("input"):
        text = json.dumps(message.get("content"))
        if message.get("role") == "assistant" and "word0" in text:
            out.append("answer")
        elif message.get("role") == "user":
            out.append("second" if "second" in text else "first")
    return out


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_earlier_turns_are_true_turns(warm: House, vendors: Vendors, cli: str) -> None:
    warm.wait_until_ready([cli])
    talk = going_on(opening("replayed"), WORDS)
    answer = warm.chat(talk, MODELS[cli])
    assert (answer.text, answer.headers["X-OLP-Conversation"]) == (WORDS, "replayed")
    assert _turns(vendors, cli) == ["first", "answer", "second"]


@pytest.mark.parametrize("cli", CLIS)
def test_an_edited_history_is_replayed(warm: House, vendors: Vendors, cli: str) -> None:
    warm.wait_until_ready([cli])
    first = warm.chat(opening("to be edited"), MODELS[cli])
    warm.wait_until_ready([cli])
    talk = going_on(opening("was edited"), first.text)
    answer = warm.chat(talk, MODELS[cli])
    assert (answer.text, answer.headers["X-OLP-Conversation"]) == (WORDS, "replayed")
    assert "to be edited" not in vendors.requests(VENDOR[cli])[-1].body


def test_another_model_is_another_conversation(warm: House, vendors: Vendors) -> None:
    warm.wait_until_ready(["claude"])
    first = warm.chat(opening("model"), "claude/sonnet")
    talk = going_on(opening("model"), first.text)
    answer = warm.chat(talk, "claude/haiku")
    assert answer.headers["X-OLP-Conversation"] == "replayed"
    assert "haiku" in json.loads(vendors.requests("anthropic")[-1].body)["model"]


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_the_beginning_is_the_same_bytes(warm: House, vendors: Vendors, cli: str) -> None:
    """What a vendor's prompt cache needs: two requests of one conversation begin alike."""
    sent = []
    for _ in range(2):
        warm.wait_until_ready([cli])
        warm.chat(going_on(opening("prefix"), WORDS), MODELS[cli])
        body = json.loads(vendors.requests(VENDOR[cli])[-1].body)
        messages = body.get("messages") or body["input"]
        kept = [{k: v for k, v in m.items() if k != "id"} for m in messages]
        sent.append(json.dumps([body.get("system"), body.get("tools"), kept]))
    assert sent[0] == sent[1]


@pytest.mark.parametrize("cli", CLIS)
def test_a_stop_string_ends_the_vendors_answer(warm: House, vendors: Vendors, cli: str) -> None:
    warm.wait_until_ready([cli])
    answer = warm.chat("[[SLOW:1]]", MODELS[cli], stop=["word2"], stream=True)
    assert answer.text == "word0 word1 "
    seen = vendors.wait_for(VENDOR[cli], lambda rs: rs[-1].closed_at is not None, 2.0)
    assert not seen[-1].completed


def test_a_killed_worker_moves_the_chain_on(warm: House, vendors: Vendors) -> None:
    warm.wait_until_ready(["claude", "codex"])
    vendors.scenario("anthropic", "HANG")
    with ThreadPoolExecutor() as pool:
        future = pool.submit(warm.chat, "hi [[OK]]", "short")
        vendors.wait_for("anthropic", lambda rs: len(rs) == 1, 20)
        for pid in _busy(warm):
            os.kill(pid, signal.SIGKILL)
        answer = future.result(60)
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "codex")
    assert answer.detail[0]["code"] == "SPAWN_FAILED"


def _busy(house: House) -> list[int]:
    """The claude processes below the server."""
    children = Path(f"/proc/{house.process.pid}/task/{house.process.pid}/children").read_text()
    out = []
    for pid in map(int, children.split()):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"claude" in command.split(b"\0")[0]:
            out.append(pid)
    return out


def test_many_requests_leave_nothing_behind(warm: House, vendors: Vendors) -> None:
    warm.wait_until_ready(["codex"])
    for _ in range(20):
        assert warm.chat("hi [[OK]]", "codex/gpt-5.5").status == 200
    before = _footprint(warm)
    for _ in range(180):
        assert warm.chat("hi [[OK]]", "codex/gpt-5.5").status == 200
    after = _footprint(warm)
    assert after[0] <= before[0] + 1, "processes"
    assert after[1] <= before[1] + 3, "descriptors"
    assert after[2] <= before[2] + 15, "MB of the server"


def _footprint(house: House) -> tuple[int, int, float]:
    base = Path(f"/proc/{house.process.pid}")
    children = (base / f"task/{house.process.pid}/children").read_text().split()
    pages = int((base / "statm").read_text().split()[1])
    return len(children), len(list((base / "fd").iterdir())), pages * 4096 / 2**20
