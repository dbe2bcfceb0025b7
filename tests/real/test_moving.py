"""The real CLIs in front of a vendor that says nothing, in front of one that answers with nothing,
and with a conversation that is too long for one of them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import Clis
from .house import House, configuration, serving
from .vendors.client import Vendors

OTHER = {"claude": "codex/gpt-5.5", "codex": "claude/sonnet", "vibe": "claude/sonnet"}
MODEL = {"claude": "claude/sonnet", "codex": "codex/gpt-5.5", "vibe": "vibe/mockm"}
COLD_VIBE_S = 20.0
"""A vibe that starts for a request takes six seconds until it asks, and more on a busy machine."""


@dataclass
class Silent:
    """A vendor that takes every connection and every request, and never says a word."""

    base_url: str
    connections: list[socket.socket]

    @property
    def v1_url(self) -> str:
        return f"{self.base_url}/v1"


@pytest.fixture
def silent() -> Iterator[Silent]:
    listener = socket.create_server(("127.0.0.1", 0))
    told = Silent(f"http://127.0.0.1:{listener.getsockname()[1]}", [])

    def accept() -> None:
        while True:
            try:
                told.connections.append(listener.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    yield told
    listener.close()
    for connection in told.connections:
        connection.close()


@pytest.mark.parametrize("transport", ["auto", "oneshot"])
@pytest.mark.parametrize("cli", ["claude", "codex", "vibe"])
def test_C3_a_silent_vendor_costs_the_opening_time_and_no_more(
    clis: Clis, vendors: Vendors, silent: Silent, tmp_path: Path, cli: str, transport: str
) -> None:
    found = {name: clis.need(name) for name in ("claude", "codex", "vibe")}
    config = configuration(found, vendors)
    deaf = configuration(found, silent)["providers"][cli]  # type: ignore[arg-type]
    opening_s = COLD_VIBE_S if (cli, transport) == ("vibe", "oneshot") else 4.0
    config["providers"][cli] = deaf | {"opening_s": opening_s, "transport": transport}
    config["chains"] = {"two": [MODEL[cli], OTHER[cli]]}
    with serving(config, tmp_path) as house:
        if transport == "auto":
            house.wait_until_ready([cli])
        began = time.monotonic()
        answer = house.chat("hi [[SAY:here]]", "two", stream=True)
        spent = time.monotonic() - began
    assert (answer.text, [record["code"] for record in answer.detail]) == (
        "here",
        ["SPAWN_TIMEOUT"],
    )
    assert opening_s <= spent < opening_s + 8
    assert silent.connections, "it was asked"


@pytest.fixture(scope="module")
def lean(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    found = {name: clis.need(name) for name in ("claude", "codex")}
    config = configuration(found, vendor_process, breaker={"threshold": 1000})
    config["chains"] = {f"from-{cli}": [MODEL[cli], OTHER[cli]] for cli in found}
    with serving(config, tmp_path_factory.mktemp("lean")) as house:
        house.wait_until_ready(list(found))
        yield house


def test_A7_a_context_that_is_too_long_goes_to_the_model_that_reads_more(
    lean: House, vendors: Vendors
) -> None:
    """codex tells the size in its list of models, claude with its first answer."""
    assert lean.chat("hi", MODEL["claude"]).status == 200
    vendors.scenario("openai", "CONTEXT")
    answer = lean.chat("hi [[SAY:read]]", "from-codex")
    assert (answer.text, answer.headers["X-OLP-Provider-Used"]) == ("read", "claude")
    assert [record["code"] for record in answer.detail] == ["CONTEXT_TOO_LONG"]
    vendors.reset()
    vendors.scenario("anthropic", "CONTEXT")
    stopped = lean.chat("hi", "from-claude")
    assert (stopped.status, stopped.json["error"]["code"]) == (400, "context_length_exceeded")
    assert vendors.requests("openai") == [], "it reads less"


def test_D3_six_conversations_at_once_are_all_answered(lean: House, vendors: Vendors) -> None:
    """On default settings, by one CLI with four slots."""
    statuses: list[int] = []

    def one(number: int) -> None:
        statuses.append(lean.chat(f"{number} [[SLOW:0.3]]", MODEL["claude"]).status)

    threads = [threading.Thread(target=one, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 6


@pytest.mark.parametrize("stream", [False, True])
def test_A7_an_empty_answer_moves_on_and_alone_it_is_told(
    lean: House, vendors: Vendors, stream: bool
) -> None:
    vendors.scenario("openai", "SAY", " ")
    moved = lean.chat("hi [[SAY:words]]", "from-codex", stream=stream)
    assert (moved.text, moved.finish) == ("words", "stop")
    assert [record["code"] for record in moved.detail] == ["EMPTY_ANSWER"]
    alone = lean.chat("hi", MODEL["codex"], stream=stream)
    assert (alone.status, alone.text.strip(), alone.finish) == (200, "", "stop")
    assert alone.headers["X-OLP-Empty-Answer"] == "true"
    assert len(vendors.requests("openai")) == 2
