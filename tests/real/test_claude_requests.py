"""Claude Code asks its vendor once, whatever comes back, and what it says of it is understood."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .house import Answer, House
from .vendors.client import Vendors

SONNET = "claude/sonnet"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}


def said(*pieces: str, stop: str = "end_turn") -> str:
    """A stream of these pieces of text, as the RAW scenario takes it. Its end comes half a second
    late, so that a CLI which is ended at the stop reason is told from one that went on."""
    events: list[dict[str, Any]] = []
    if pieces:
        block = {"type": "text", "text": ""}
        events += [{"type": "content_block_start", "index": 0, "content_block": block}]
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            events += [{"type": "content_block_delta", "index": 0, "delta": delta}]
        events += [{"type": "content_block_stop", "index": 0}]
    ending: dict[str, Any] = {"stop_reason": stop, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": ending, "usage": {"output_tokens": 3}}]
    return json.dumps([*events, {"wait": 0.5}, {"type": "message_stop"}])


def asked(vendors: Vendors) -> int:
    """How often the vendor was asked for an answer."""
    return sum(r.path.startswith("/v1/messages") for r in vendors.requests("anthropic"))


def first_hop(answer: Answer) -> str:
    return str(answer.detail[0]["code"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pieces", [(), (" ",)], ids=["nothing", "one space"])
def test_A9_an_answer_that_nobody_can_see_costs_one_request(
    house: House, vendors: Vendors, pieces: tuple[str, ...], stream: bool
) -> None:
    vendors.scenario("anthropic", "RAW", said(*pieces))
    answer = house.chat("hi [[OK]]", "house", stream=stream)
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "codex")
    assert (first_hop(answer), asked(vendors)) == ("EMPTY_ANSWER", 1)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"answer": 42}', None),
        ('Here it is: {"answer": "x"}', "FORMAT_MISMATCH"),
        ("I would rather talk.", "FORMAT_MISMATCH"),
    ],
)
def test_A9_text_where_a_schema_was_wanted_costs_one_request(
    house: House, vendors: Vendors, body: str, code: str | None
) -> None:
    vendors.scenario("anthropic", "RAW", said(body))
    answer = house.chat("hi", SONNET, response_format=FORMAT)
    assert asked(vendors) == 1
    if code is None:
        assert (answer.status, json.loads(answer.text)) == (200, {"answer": 42})
    else:
        assert (answer.status, first_hop(answer)) == (502, code)


def test_A9_a_call_that_is_none_costs_one_request(house: House, vendors: Vendors) -> None:
    vendors.scenario("anthropic", "RAW", said("Let me look.", stop="tool_use"))
    answer = house.chat("hi [[OK]]", "house", stream=True)
    assert asked(vendors) == 1
    assert answer.status == 200


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (
            400,
            "You're out of extra usage. Add more at claude.ai/settings/usage.",
            "QUOTA_EXHAUSTED",
        ),
        (
            400,
            "Third-party apps now draw from your extra usage, not your plan limits. Add more at "
            "claude.ai/settings/usage and keep going.",
            "QUOTA_EXHAUSTED",
        ),
        (400, "Your credit balance is too low to access the Anthropic API.", "QUOTA_EXHAUSTED"),
        (429, "Extra usage is required for long context requests.", "QUOTA_EXHAUSTED"),
        (503, "Service Unavailable", "OVERLOADED"),
    ],
)
def test_A3_an_accounts_state_moves_on_after_one_request(
    house: House, vendors: Vendors, status: int, message: str, code: str
) -> None:
    vendors.scenario("anthropic", "FAIL", json.dumps({"status": status, "message": message}))
    answer = house.chat("hi [[OK]]", "house")
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "codex")
    assert (first_hop(answer), asked(vendors)) == (code, 1)


def test_A9_a_400_that_the_cli_does_not_know_costs_one_request(
    house: House, vendors: Vendors
) -> None:
    told = {"status": 400, "message": "messages.0: something is wrong with it"}
    vendors.scenario("anthropic", "FAIL", json.dumps(told))
    answer = house.chat("hi", SONNET)
    assert (answer.status, first_hop(answer), asked(vendors)) == (400, "BAD_REQUEST", 1)


@pytest.mark.parametrize("status", [403, 503])
def test_A7_a_page_in_the_vendors_place_moves_on(
    house: House, vendors: Vendors, status: int
) -> None:
    vendors.scenario("anthropic", "BLOCKED", str(status))
    answer = house.chat("hi [[OK]]", "house")
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "codex")
    assert first_hop(answer) == ("SPAWN_FAILED" if status == 403 else "OVERLOADED")
    assert asked(vendors) == 1


@pytest.mark.parametrize("status", [400, 404, 503])
def test_J1_a_model_that_was_not_taken_is_never_replaced(
    house: House, vendors: Vendors, status: int
) -> None:
    told = {"status": status, "message": "no", "type": "not_found_error"}
    vendors.scenario("anthropic", "FAIL", json.dumps(told))
    answer = house.chat("secret", "claude/claude-nobody-9")
    assert answer.status in ((503, 502) if status == 503 else (400, 404))
    asked_for = [json.loads(r.body) for r in vendors.requests("anthropic")]
    assert {body["model"] for body in asked_for} == {"claude-nobody-9"}
    assert all("secret" in json.dumps(body["messages"]) for body in asked_for), "no question first"
    # A 404 it tries once more without streaming, and has no switch for that.
    assert len(asked_for) == (2 if status == 404 else 1)
