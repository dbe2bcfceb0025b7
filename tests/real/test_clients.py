"""What programs that people use send, on the real CLIs: the table of docs/clients.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.clients import CLIENTS, Client

from .agent import TOOL_CLIS, calls_marker, calls_of, conversation, message_of
from .house import House
from .test_answers import MODELS, WORDS

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
DOCS = Path(__file__).parents[2] / "docs" / "clients.md"

programs = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
agents = pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.uses_tools], ids=lambda client: client.name
)
every = pytest.mark.parametrize("cli", TOOL_CLIS)


@every
@programs
def test_chat_and_stream(tooled: House, cli: str, client: Client) -> None:
    for stream in (False, True):
        body: dict[str, Any] = {**client.first(MODELS[cli], "hi [[OK]]"), "stream": stream}
        if not stream:
            body.pop("stream_options", None)
        answer = tooled.post(body)
        assert (answer.status, answer.text, answer.finish) == (200, WORDS, "stop")


@every
@agents
def test_parallel_calls(tooled: House, cli: str, client: Client) -> None:
    calls = [{"name": client.tool, "args": dict(client.arguments)} for _ in range(2)]
    body = client.first(MODELS[cli], f"both {calls_marker(*calls)}")
    first = tooled.post(body)
    made = calls_of(first)
    single = body.get("parallel_tool_calls") is False
    assert [call.name for call in made] == [client.tool] * (1 if single else 2)
    second = tooled.post(client.follow(body, message_of(first), {c.id: "it is done" for c in made}))
    assert (second.status, second.finish) == (200, "stop")
    assert conversation(second) == ("replayed" if client.after else "live")


@every
@programs
def test_images(tooled: House, cli: str, client: Client) -> None:
    answer = tooled.post(client.first(MODELS[cli], "what is it? [[SEE]]", [PNG]))
    assert answer.status == 200 and "image/png" in answer.text


@every
@programs
def test_schemas(tooled: House, cli: str, client: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    body = client.first(MODELS[cli], '[[FORCED:{"answer": 42}]]')
    answer = tooled.post({**body, "response_format": wanted})
    assert (answer.status, json.loads(answer.text)) == (200, {"answer": 42})


def test_the_table_names_each_of_them() -> None:
    text = DOCS.read_text("utf-8")
    rows = re.findall(
        r"^\| `([a-z-]+)` \| yes \| yes \| (.*) \| (.*) \| yes \| yes \|$", text, re.M
    )
    assert rows == [(client.name, *_told(client)) for client in CLIENTS]


def _told(client: Client) -> tuple[str, str]:
    """What the table says of its tools and its parallel calls."""
    if not client.uses_tools:
        return "–", "–"
    single = client.first("m", "hi").get("parallel_tool_calls") is False
    return "yes", "one at a time, as it asks" if single else "yes"
