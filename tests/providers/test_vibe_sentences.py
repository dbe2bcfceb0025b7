"""Every sentence in which Vibe is known to tell of its vendor, in each way of starting it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from olp.events import Done, ErrorCode, Failed, Finish, Text
from olp.model import Message, Request, Role, Tool, ToolCall
from olp.providers.base import Exit, Step
from olp.providers.vibe.answer import Driver
from olp.providers.vibe.config import Wanted
from olp.providers.vibe.session import VibeSession
from tests.providers.replay import NOW, play

QUOTA, RATE, AUTH = ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED, ErrorCode.AUTH_MISSING
OVERLOAD, DEAD, CUT = ErrorCode.OVERLOADED, ErrorCode.SPAWN_FAILED, ErrorCode.VENDOR_CUT
LONG, MODEL, BAD = ErrorCode.CONTEXT_TOO_LONG, ErrorCode.MODEL_NOT_FOUND, ErrorCode.BAD_REQUEST
UNKNOWN, INCAPABLE = ErrorCode.UNKNOWN, ErrorCode.INCAPABLE
USER = Message(Role.USER, "go")


class Said(NamedTuple):
    """A sentence, the code and the status that come with it, and what it means before the vendor
    has begun to answer. Afterwards a vendor that cannot be reached is an answer that was cut."""

    words: str
    means: ErrorCode
    code: str | None = "backend_error"
    status: int | None = None

    @property
    def later(self) -> ErrorCode:
        return CUT if self.means is DEAD else self.means


def answered(status: int, body: str = "{}", kind: str = "application/json") -> str:
    return f'API error occurred: Status {status} Content-Type "{kind}". Body: {body}'


def told(message: str, kind: str = "error") -> str:
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": None}
    return json.dumps(body)


def backend(status: str, message: str) -> str:
    """As versions with another engine tell it."""
    return (
        f"LLM backend error [mistral]\n  status: {status}\n  reason: N/A\n  request_id: N/A\n"
        f"  endpoint: https://api.example/v1/chat/completions\n  model: m\n"
        f"  provider_message: {message}\n  body_excerpt: \n  payload_summary: {{}}"
    )


PAGE = "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>"
UNMARSHALLED = "3 validation errors for Unmarshaller\nbody.data.id\n  Field required [type=missing]"

SENTENCES = {
    # --- the login
    "no-key": Said("Missing MISTRAL_API_KEY environment variable for mistral provider", AUTH, None),
    "401": Said(
        "Invalid API key (from env var MISTRAL_API_KEY). Please check your API key and try again.",
        *(AUTH, "invalid_api_key", 401),
    ),
    "401-status": Said(answered(401, '{"detail": "Unauthorized"}'), AUTH),
    "unauthorized": Said("unauthorized", AUTH, "unauthorized"),
    # --- what stands before the vendor
    "403": Said(
        "Invalid API key. Please check your API key and try again.", DEAD, "invalid_api_key", 403
    ),
    "403-page": Said(answered(403, PAGE, "text/html"), DEAD),
    "403-country": Said(answered(403, told("unsupported_country_region_territory")), DEAD),
    "503-page": Said(answered(503, PAGE, "text/html"), OVERLOAD),
    # --- the plan
    "429": Said(answered(429, told("Requests rate limit exceeded")), RATE, "rate_limit", 429),
    "429-words": Said(
        "Rate limit exceeded. Please wait a moment before trying again.", RATE, "rate_limit", 429
    ),
    "429-plan": Said("You have reached your monthly usage limit", QUOTA, "rate_limit", 429),
    "402": Said(answered(402, told("You have reached your spending limit")), QUOTA),
    "402-bare": Said(answered(402), QUOTA),
    "400-plan": Said(answered(400, told("You are out of credits")), QUOTA),
    # --- the vendor's own trouble
    "500": Said(answered(500, told("Internal server error")), OVERLOAD),
    "503": Said(answered(503, told("Service unavailable")), OVERLOAD, "backend_error", 503),
    "529": Said(answered(529, told("Overloaded")), OVERLOAD),
    "503-for-url": Said("Server error '503 Service Unavailable' for url 'https://x/v1'", OVERLOAD),
    "502-backend": Said(backend("502 Bad Gateway", "N/A"), OVERLOAD),
    # --- it cannot be reached, or not be read
    "reset": Said("The model request failed (ReadError).", DEAD),
    "refused": Said("The model request failed (ConnectError).", DEAD),
    "refused-words": Said("All connection attempts failed", DEAD),
    "closed": Said("Server disconnected without sending a response.", DEAD),
    "cut": Said(
        "peer closed connection without sending complete message body (incomplete chunked read)",
        DEAD,
    ),
    "timeout": Said("The read operation timed out", DEAD),
    "network": Said(backend("N/A", "Network error"), DEAD),
    "tls": Said("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", DEAD),
    "dns": Said("[Errno -2] Name or service not known", DEAD),
    "empty-body": Said(
        "Attempted to access streaming response content, without having called `read()`.", DEAD
    ),
    "garbage": Said("Stream chunk contains malformed JSON.", DEAD),
    "garbage-event": Said(UNMARSHALLED, DEAD),
    "ends": Said("Model stream ended without a finish reason.", DEAD),
    "incomplete": Said("the stream was incomplete", DEAD, "incomplete_stream"),
    "stalled": Said(
        "The model stopped sending output: no response data for 300s after the response started.",
        DEAD,
    ),
    "new-words": Said("Words of a library that nobody has seen", DEAD),
    # --- the request
    "400": Said(answered(400, told("bad thing", "invalid_request")), BAD, "backend_error", 400),
    "422": Said(answered(422, told("messages: Field required")), BAD),
    "policy": Said(
        answered(400, told("Your request was rejected as a result of our safety system.")), BAD
    ),
    "refusal": Said(
        "The model declined to respond to this request and stopped early.", BAD, "refusal"
    ),
    "context": Said(
        answered(
            400,
            told("Prompt contains 250000 tokens, too large for model with 131072 maximum context"),
        ),
        LONG,
    ),
    "context-code": Said("the context is too long", LONG, "context_too_long"),
    "compaction": Said("could not be shortened", LONG, "compaction_failed"),
    "model": Said(answered(400, told("Invalid model: m", "invalid_model")), MODEL),
    "model-code": Said("no such model", MODEL, "invalid_model"),
    "model-words": Said(
        "Model 'm' is not available on mistral.\nSwitch to another configured model with /model",
        MODEL,
    ),
    "model-unset": Said("Active model 'm' not found in configuration.", MODEL, None),
    "no-images": Said("Model m does not support images", INCAPABLE, "images_not_supported"),
    # --- nobody knows
    "internal": Said("something went wrong", UNKNOWN, "internal_error"),
    "new-code": Said("something went wrong", UNKNOWN, "new_code"),
}

every = pytest.mark.parametrize("said", SENTENCES.values(), ids=SENTENCES)
late = pytest.mark.parametrize("late", [False, True], ids=["before", "after"])


# --- one process for one request -----------------------------------------------------------------


def oneshot(said: Said, *, late: bool, report: bool) -> Failed:
    error = {"code": said.code, "message": said.words}
    told = json.dumps({"outcome": "infrastructure_failure", "error": error}).encode()
    echo: dict[str, Any] = {
        "type": "message",
        "role": "user",
        "content": [{"type": "text", "text": "go"}],
    }
    begun: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "outcome": {"type": "discarded"},
    }
    begun["content"] = [{"type": "text", "text": "wor"}]
    lines = [json.dumps(entry) for entry in ([echo, begun] if late else [echo])]
    files = {"out/export.json": told} if report else {}
    played = play(Driver("go", "m", now=NOW), lines, Exit(2, f"Error: {said.words}\n", files))
    assert played.text == "", "text that is known to be none"
    return played.failed


@every
@late
def test_A7_each_sentence_of_a_report(said: Said, late: bool) -> None:
    failed = oneshot(said, late=late, report=True)
    assert failed.code is (said.later if late else said.means)
    assert failed.detail


@every
def test_A7_each_sentence_on_standard_error_alone(said: Said) -> None:
    """Without the code some can be told less well, but nothing is unknown of a CLI that died."""
    failed = oneshot(said, late=False, report=False)
    by_code_alone = classified_by_code(said)
    assert failed.code is (DEAD if by_code_alone else said.means)


def classified_by_code(said: Said) -> bool:
    """Whether the code is all that tells."""
    codes = ("refusal", "context_too_long", "compaction_failed", "images_not_supported")
    return said.code in codes or said.words == "no such model" or said.means is UNKNOWN


# --- a process that waits ------------------------------------------------------------------------


class Waiting:
    """A conversation on such a process, of which OLP has asked something."""

    def __init__(self, tools: tuple[Tool, ...] = ()) -> None:
        self.session = VibeSession(Wanted("m"), lambda wanted: {})
        self.session.start()
        self.session.ask(Request("m", (USER,), tools=tools), "m", NOW)
        self.channel = "2" if tools else "1"
        self.tell(id=2, result={"state": {"session": {"id": "S"}}})

    def tell(self, **message: Any) -> Sequence[Step]:
        return self.session.receive(json.dumps({"channelId": self.channel, "message": message}))

    def notify(self, method: str, **params: Any) -> Sequence[Step]:
        return self.tell(method=method, params={"sessionId": "S", **params})

    def says(self, words: str) -> Sequence[Step]:
        entry = {"id": "a1", "type": "message", "role": "assistant"}
        content = [{"type": "text", "text": words}]
        return self.notify("history/entryAdded", entry={**entry, "content": content})

    def fails(self, said: Said) -> Failed:
        details = {"httpStatus": said.status} if said.status else {}
        error = {"message": said.words, "code": said.code, "details": details}
        turn = {"id": "T", "status": "failed", "error": error, "stopReason": None}
        (failed,) = self.notify("turn/completed", turn=turn)
        assert isinstance(failed, Failed)
        return failed


@every
@late
def test_A7_each_sentence_of_a_waiting_process(said: Said, late: bool) -> None:
    waiting = Waiting()
    if late:
        assert Text("wor") in waiting.says("wor")
    assert waiting.fails(said).code is (said.later if late else said.means)


@every
def test_A7_each_sentence_after_the_results_of_tools(said: Said) -> None:
    tool = Tool("look", "", {"type": "object"})
    waiting = Waiting((tool,))
    params = {"callbackId": "client_tool:E", "name": "client.look", "toolCallId": "c1", "input": {}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    waiting.session.called(7, line)
    entry = {"id": "effect-E", "type": "effect", "title": "client.look"}
    waiting.notify("history/entryAdded", entry=entry | {"state": {"status": "running"}})
    steps = waiting.tell(id=4, error={"code": "not_found", "message": "Unknown"})
    assert Done(Finish.TOOL_CALLS) in steps
    calls = (ToolCall("c1", "look", "{}"),)
    turns = (USER, Message(Role.ASSISTANT, "", calls), Message(Role.TOOL, "r", answers="c1"))
    waiting.session.resume(Request("m", turns, tools=(tool,)), NOW)
    assert waiting.fails(said).code is said.means, "of this answer nothing has come"


@pytest.mark.parametrize("method", [1, 2, 3], ids=["initialize", "session/start", "turn/start"])
@every
def test_A7_each_sentence_instead_of_a_beginning(said: Said, method: int) -> None:
    session = VibeSession(Wanted("m"), lambda wanted: {})
    session.start()
    session.ask(Request("m", (USER,)), "m", NOW)
    state = {"id": 2, "result": {"state": {"session": {"id": "S"}}}}
    if method == 3:
        session.receive(json.dumps({"channelId": "1", "message": state}))
    error = {"message": said.words, "code": said.code, "data": {"httpStatus": said.status}}
    line = json.dumps({"channelId": "1", "message": {"id": method, "error": error}})
    (failed,) = session.receive(line)
    assert isinstance(failed, Failed) and failed.code is said.means


@pytest.mark.parametrize("words", ["9007199254740993 exceeds safe integer domain", "new words"])
def test_N1_what_it_does_not_take_of_a_client_counts_against_nobody(words: str) -> None:
    waiting = Waiting((Tool("look", "", {"type": "object"}),))
    error = {"message": words, "code": "internal_error"}
    (failed,) = waiting.tell(id=3, error=error)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.field) == (INCAPABLE, "tools")
