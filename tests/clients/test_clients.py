"""The clients' bodies hold what they promise, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator, validators

from . import CLIENTS, ODD_CLIENTS, Client
from .filler import manual

MARKER = '[[CALL:read_file:{"path": "a"}]]'
PIXEL = "data:image/png;base64,iVBORw0KGgo="
ALL = (*CLIENTS, *ODD_CLIENTS)
WITH_TOOLS = [client for client in ALL if client.uses_tools]
every = pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
tooled = pytest.mark.parametrize("client", WITH_TOOLS, ids=lambda client: client.name)


def named(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    inner: Mapping[str, Any] = tool.get("function") or tool
    return inner


def called(client: Client, count: int) -> dict[str, Any]:
    """An assistant message as a server gives it, letters beyond ASCII in the arguments."""
    arguments = json.dumps({**client.arguments, "note": "ü"}, indent=1, ensure_ascii=False)
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": client.tool, "arguments": arguments},
        }
        for number in range(count)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def test_names_are_different_and_all_are_there() -> None:
    assert len({client.name for client in ALL}) == len(ALL) == 11


@every
def test_a_first_request_has_the_size_and_carries_the_text(client: Client) -> None:
    body = client.first("house", MARKER)
    assert json.loads(json.dumps(body)) == body
    assert body["model"] == "house"
    talk = body[client.place]
    assert 20_000 <= size(talk[:-1]) <= 65_000
    assert any(MARKER in text for text in texts(talk[-1]))
    assert not any("[[" in text for text in texts(talk[:-1]))
    assert client.first("house", MARKER) == body
    talk.clear()
    assert client.first("house", MARKER) != body, "bodies share nothing"


@tooled
def test_tools_have_valid_schemas(client: Client) -> None:
    assert 10 <= len(client.tools) <= 40
    names = [named(tool)["name"] for tool in client.tools]
    assert len(set(names)) == len(names)
    for tool in client.tools:
        schema = named(tool).get("parameters", {})
        validators.validator_for(schema, Draft202012Validator).check_schema(schema)


@tooled
def test_the_arguments_fit_the_tool(client: Client) -> None:
    (tool,) = [tool for tool in client.tools if named(tool)["name"] == client.tool]
    schema = named(tool)["parameters"]
    validators.validator_for(schema, Draft202012Validator)(schema).validate(client.arguments)


def test_the_odd_things_are_among_the_schemas() -> None:
    offered = [named(tool) for client in CLIENTS for tool in client.tools]
    written = json.dumps(offered)
    for piece in (
        *('"$defs"', '"$ref"', '"definitions"', '"additionalProperties": false', '"anyOf"'),
        *('"strict": true', '"enum": ["asc", "desc", null]', '"format": "uint32"', '"$schema"'),
        *('"propertyNames"', '"properties": {}', '"title"', '"default": null'),
    ):
        assert piece in written, piece
    assert any(tool.get("parameters") == {} for tool in offered)
    assert any("parameters" not in tool for tool in offered)
    assert any("description" not in tool for tool in offered)


@tooled
def test_a_following_request_answers_every_call(client: Client) -> None:
    body = client.first("house", MARKER)
    after = client.follow(body, called(client, 2), {"call_0": '{"ok": 0}', "call_1": '{"ok": 1}'})
    assert after[client.place][: len(body[client.place])] == body[client.place]
    more = after[client.place][len(body[client.place]) :]
    ids = [turn.get("tool_call_id") or turn.get("call_id") for turn in more]
    assert [one for one in ids if one][-2:] == ["call_0", "call_1"]
    assert {key: after[key] for key in body if key != client.place} == {
        key: body[key] for key in body if key != client.place
    }
    assert size(more) < size(body)


def test_a_client_without_tools_goes_on_in_words() -> None:
    (client,) = [client for client in ALL if not client.uses_tools]
    body = client.first("house", MARKER)
    assert "tools" not in body
    after = client.follow(body, {"role": "assistant", "content": "done"}, {})
    assert [turn["role"] for turn in after["messages"][-2:]] == ["assistant", "user"]


HABITS: dict[str, tuple[Any, str]] = {
    "cline": ("absent", "compact"),
    "continue": (" ", "verbatim"),
    "zed": (None, "compact"),
    "opencode": ("", "compact"),
    "cursor": ("", "verbatim"),
    "open-webui": ("", "verbatim"),
    "langchain": (None, "spaced"),
    "openai-sdk": (None, "verbatim"),
    "home-assistant": (None, "compact"),
}
"""What stands where the assistant said nothing, and how its arguments are written again."""


@pytest.mark.parametrize("name", HABITS)
def test_a_client_writes_the_assistants_turn_as_it_is_known_to(name: str) -> None:
    (client,) = [client for client in CLIENTS if client.name == name]
    asked = called(client, 1)
    body = client.follow(client.first("house", "x"), asked, {"call_0": "fine"})
    turn = next(turn for turn in body["messages"] if turn.get("tool_calls"))
    (before,), (call,) = asked["tool_calls"], turn["tool_calls"]
    empty, written = HABITS[name]
    assert turn.get("content", "absent") == empty
    assert ("index" in call) == (name == "open-webui")
    arguments = call["function"]["arguments"]
    assert json.loads(arguments) == json.loads(before["function"]["arguments"])
    look = {
        "verbatim": arguments == before["function"]["arguments"],
        "spaced": '": ' in arguments and "\n" not in arguments,
        "compact": '": ' not in arguments,
    }
    assert look[written]


@every
def test_images_go_with_the_users_message(client: Client) -> None:
    talk = client.first("house", "look", [PIXEL])[client.place]
    kinds = [part["type"] for part in talk[-1]["content"]]
    assert [kind for kind in kinds if "image" in kind] in (["image_url"], ["input_image"])
    assert PIXEL in list(texts(talk[-1]))


def test_filler_has_its_size_and_is_always_the_same() -> None:
    assert manual(5000, "a") == manual(5000, "a") != manual(5000, "b")
    assert 5000 <= len(manual(5000, "a").encode()) <= 6500
