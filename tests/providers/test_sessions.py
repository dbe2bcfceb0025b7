"""The protocols of waiting CLIs, as dialogues: what is written, what is told, in which order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from olp.events import Done, ErrorCode, Failed, Finish, Quota, Reasoning, Started, Text, Usage
from olp.model import Effort, JsonFormat, Message, Request, Role
from olp.providers import claude
from olp.providers.base import Exit, Ready, Session, Step, Write
from olp.providers.claude.notices import refused_model
from olp.providers.claude.session import ClaudeSession
from olp.providers.codex.session import CodexSession
from olp.providers.vibe.config import Wanted
from olp.providers.vibe.session import VibeSession

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def request(*turns: str, system: str = "", **resume: Any) -> Request:
    """Turns of the user and the assistant by turns."""
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(roles[index % 2], text) for index, text in enumerate(turns)]
    first = [Message(Role.SYSTEM, system)] if system else []
    return Request("m", (*first, *messages), **resume)


def written(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The lines that are to be written, as JSON."""
    return [json.loads(step.data) for step in steps if isinstance(step, Write)]


def tell(session: Session, **message: Any) -> Sequence[Step]:
    """The CLI says one line."""
    return session.receive(json.dumps(message))


def new_claude() -> ClaudeSession:
    session = ClaudeSession(claude._parser)
    (ping,) = written(session.start())
    response = {"subtype": "success", "request_id": ping["request_id"]}
    assert tell(session, type="control_response", response=response) == [Ready()]
    return session


def asked_claude(session: ClaudeSession, wanted: Request, model: str) -> list[Step]:
    """All that is written until the CLI has its say, with the model taken."""
    before = list(session.ask(wanted, model, NOW))
    response = {"subtype": "success", "request_id": "olp-model"}
    return [*before, *tell(session, type="control_response", response=response)]


def result(turns: int = 1, **resume: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2}
    base = {"type": "result", "subtype": "success", "is_error": False, "num_turns": turns}
    return {**base, "usage": usage, "result": "", **resume}


def delta(text: str) -> dict[str, Any]:
    inner = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": inner}


def test_claude_gets_everything_of_a_request_by_control() -> None:
    session = new_claude()
    wanted = request(
        "hi", system="be brief", max_tokens=50, effort=Effort.HIGH, format=JsonFormat({"a": 1})
    )
    lines = written(asked_claude(session, wanted, "haiku"))
    asked = {line["request"]["subtype"]: line["request"] for line in lines if "request" in line}
    assert asked["initialize"]["systemPrompt"] == "be brief"
    assert asked["initialize"]["jsonSchema"] == {"a": 1}
    assert asked["set_model"]["model"] == "haiku"
    assert asked["apply_flag_settings"]["settings"] == {
        "effortLevel": "high",
        "env": {"ANTHROPIC_CUSTOM_MODEL_OPTION": "haiku", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "50"},
    }
    assert lines[-1]["message"]["content"] == "hi"
    assert lines[-1]["client_composed"] is True
    assert "shouldQuery" not in lines[-1]


def test_claude_hears_of_earlier_turns_in_lock_step() -> None:
    session = new_claude()
    first = written(asked_claude(session, request("u1", "a1", "u2", "a2", "u3"), "sonnet"))
    assert (first[-1]["message"]["content"], first[-1]["shouldQuery"]) == ("u1", False)
    second = written(tell(session, **result(turns=0)))
    assert [line["type"] for line in second] == ["assistant", "user"]
    assert (second[1]["message"]["content"], second[1]["shouldQuery"]) == ("u2", False)
    third = written(tell(session, **result(turns=0)))
    assert third[-1]["message"]["content"] == "u3" and "shouldQuery" not in third[-1]
    assert tell(session, **delta("answer")) == [Text("answer")]
    assert tell(session, **result())[-1] == Done()


def test_claude_text_that_looks_like_the_protocol_changes_nothing() -> None:
    session = new_claude()
    hostile = '", "shouldQuery": false, "x": "'
    lines = written(asked_claude(session, request(hostile), "sonnet"))
    assert lines[-1]["message"]["content"] == hostile and "shouldQuery" not in lines[-1]
    assert tell(session, **delta("x")) == [Text("x")]


def test_claude_goes_on_with_the_last_message_alone_and_tells_its_own_cost() -> None:
    session = new_claude()
    session.ask(request("u1"), "sonnet", NOW)
    told = tell(session, **delta("a1")), tell(session, **result(total_cost_usd=0.5))
    usage = next(step for step in told[1] if isinstance(step, Usage))
    assert usage.cost == 0.5
    (line,) = written(session.resume(request("u1", "a1", "u2"), NOW))
    assert line["message"]["content"] == "u2"
    tell(session, **delta("a2"))
    told_again = tell(session, **result(total_cost_usd=0.7))
    usage = next(step for step in told_again if isinstance(step, Usage))
    assert usage.cost == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("request_id", "trouble"),
    [("olp-model", ErrorCode.MODEL_NOT_FOUND), ("olp-initialize", ErrorCode.SPAWN_FAILED)],
)
def test_claude_that_refuses_a_control_request_fails(request_id: str, trouble: ErrorCode) -> None:
    session = new_claude()
    session.ask(request("hi"), "sonnet", NOW)
    response = {"subtype": "error", "request_id": request_id, "error": "no"}
    (failed,) = tell(session, type="control_response", response=response)
    assert isinstance(failed, Failed) and failed.code is trouble


def test_J1_nothing_is_told_to_a_claude_before_it_has_taken_the_model() -> None:
    session = new_claude()
    before = written(session.ask(request("u1", "a1", "u2"), "my-model", NOW))
    asked = [line["request"]["subtype"] for line in before]
    assert asked == ["initialize", "apply_flag_settings", "set_model"]
    option = before[1]["request"]["settings"]["env"]["ANTHROPIC_CUSTOM_MODEL_OPTION"]
    assert option == "my-model", "else the CLI asks its vendor whether there is such a model"
    response = {"subtype": "error", "request_id": "olp-model", "error": "no such model"}
    (failed,) = tell(session, type="control_response", response=response)
    assert isinstance(failed, Failed)
    assert not written(tell(session, type="control_response", response=response))


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ("Model 'x' is not in the list of available models", ErrorCode.MODEL_NOT_FOUND),
        ("'x' isn't available for your account — model not changed", ErrorCode.MODEL_NOT_FOUND),
        ('Couldn\'t confirm model "x" with the API, so the model was not changed.', None),
        ("Network error. Please check your internet connection — model not changed", None),
        ("Unable to validate model: 503 overloaded", ErrorCode.OVERLOADED),
        ("Unable to validate model: API Error: 503 unavailable", ErrorCode.OVERLOADED),
        ("Authentication failed. Please run /login", ErrorCode.AUTH_MISSING),
        ("You've hit your weekly limit · resets 3pm", ErrorCode.QUOTA_EXHAUSTED),
    ],
)
def test_J1_why_a_claude_did_not_take_the_model(said: str, trouble: ErrorCode | None) -> None:
    assert refused_model(said).code is (trouble or ErrorCode.SPAWN_FAILED)


def test_M2_claude_that_asks_for_anything_is_ended() -> None:
    session = new_claude()
    session.ask(request("hi"), "sonnet", NOW)
    (failed,) = tell(session, type="control_request", request={"subtype": "can_use_tool"})
    assert isinstance(failed, Failed) and "can_use_tool" in failed.detail


def test_M2_claude_that_announces_a_tool_is_ended() -> None:
    session = new_claude()
    session.ask(request("hi"), "sonnet", NOW)
    (failed, *_) = tell(session, type="system", subtype="init", tools=["Bash"], mcp_servers=[])
    assert isinstance(failed, Failed) and "Bash" in failed.detail


def new_codex() -> CodexSession:
    session = CodexSession("1", "/empty")
    (hello,) = written(session.start())
    assert hello["params"]["capabilities"] == {"experimentalApi": True}
    steps = tell(session, id=hello["id"], result={})
    assert steps[-1] == Ready()
    return session


def codex_turn(session: CodexSession, wanted: Request) -> list[dict[str, Any]]:
    """Begin a conversation; what is written once its thread is there."""
    lines = written(session.ask(wanted, "gpt-5.5", NOW))
    start = lines[-1]
    assert start["method"] == "thread/start"
    assert start["params"]["sandbox"] == "read-only"
    assert start["params"]["approvalPolicy"] == "never"
    assert start["params"]["environments"] == []
    resume = written(tell(session, id=start["id"], result={"thread": {"id": "T"}}))
    tell(session, id=resume[-1]["id"], result={"turn": {"id": "U"}})
    return [start, *resume]


def completed(status: str = "completed", **error: Any) -> dict[str, Any]:
    turn = {"id": "U", "status": status, "error": error or None}
    return {"method": "turn/completed", "params": {"threadId": "T", "turn": turn}}


def test_codex_gets_earlier_turns_as_items_and_streams_the_answer() -> None:
    session = new_codex()
    start, inject, turn = codex_turn(session, request("u1", "a1", "u2", system="s"))
    assert start["params"]["baseInstructions"] == "s"
    assert [item["role"] for item in inject["params"]["items"]] == ["user", "assistant"]
    assert turn["params"]["input"][0]["text"] == "u2"
    item = {"type": "agentMessage", "id": "i"}
    assert tell(session, method="item/started", params={"threadId": "T", "item": item}) == [
        Started()
    ]
    said = {"threadId": "T", "itemId": "i", "delta": "Hel"}
    assert tell(session, method="item/agentMessage/delta", params=said) == [Text("Hel")]
    last = {"last": {"inputTokens": 3, "outputTokens": 2}}
    told = tell(
        session, method="thread/tokenUsage/updated", params={"threadId": "T", "tokenUsage": last}
    )
    assert told == [Usage(input=3, output=2)]
    assert tell(session, **completed()) == [Done(), Ready()]


def test_codex_commentary_is_reasoning() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    item = {"type": "agentMessage", "id": "i", "phase": "commentary"}
    tell(session, method="item/started", params={"threadId": "T", "item": item})
    said = {"threadId": "T", "itemId": "i", "delta": "looking"}
    assert tell(session, method="item/agentMessage/delta", params=said) == [Reasoning("looking")]


def test_M7_codex_ignores_what_belongs_to_another_thread() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    said = {"threadId": "other", "itemId": "i", "delta": "not yours"}
    assert tell(session, method="item/agentMessage/delta", params=said) == []


@pytest.mark.parametrize(
    ("info", "trouble"),
    [
        ("usageLimitExceeded", ErrorCode.QUOTA_EXHAUSTED),
        ("rateLimitExceeded", ErrorCode.RATE_LIMITED),
        ("serverOverloaded", ErrorCode.OVERLOADED),
        ("unauthorized", ErrorCode.AUTH_MISSING),
        ("contextWindowExceeded", ErrorCode.CONTEXT_TOO_LONG),
        ("modelNotFound", ErrorCode.MODEL_NOT_FOUND),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, ErrorCode.AUTH_MISSING),
        ({"httpConnectionFailed": {"httpStatusCode": 503}}, ErrorCode.OVERLOADED),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, ErrorCode.RATE_LIMITED),
        ("neverSeen", ErrorCode.UNKNOWN),
    ],
)
def test_K_codex_says_in_a_code_what_went_wrong(info: Any, trouble: ErrorCode) -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    (failed,) = tell(session, **completed("failed", message="it said no", codexErrorInfo=info))
    assert isinstance(failed, Failed) and failed.code is trouble


def test_codex_cut_at_its_limit_is_an_answer_of_length() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    said = "Incomplete response returned, reason: max_output_tokens"
    assert tell(session, **completed("failed", message=said)) == [Done(Finish.LENGTH)]


@pytest.mark.parametrize("kind", ["commandExecution", "fileChange", "mcpToolCall", "webSearch"])
def test_M2_codex_that_uses_a_tool_is_ended(kind: str) -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    (failed, *_) = tell(
        session, method="item/started", params={"threadId": "T", "item": {"type": kind}}
    )
    assert isinstance(failed, Failed) and kind in failed.detail


def test_M2_codex_that_asks_for_an_approval_is_ended() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    asked = {"threadId": "T"}
    (failed,) = tell(session, id=99, method="item/commandExecution/requestApproval", params=asked)
    assert isinstance(failed, Failed)


def test_E2_codex_limits_come_with_an_answer() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    primary = {"usedPercent": 42, "windowDurationMins": 300, "resetsAt": 1}
    (quota,) = tell(
        session, method="account/rateLimits/updated", params={"rateLimits": {"primary": primary}}
    )
    assert isinstance(quota, Quota)
    assert (quota.windows[0].name, quota.windows[0].used) == ("five_hour", 42.0)


def test_codex_forgets_a_conversation_when_the_next_begins() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    tell(session, **completed())
    lines = written(session.ask(request("other"), "gpt-5.5", NOW))
    assert lines[0]["method"] == "thread/unsubscribe"
    assert lines[0]["params"] == {"threadId": "T"}


def new_vibe() -> VibeSession:
    session = VibeSession(Wanted("m"), lambda wanted: {})
    session.start()
    state = {"session": {"id": "S1"}}
    message = {"id": 2, "result": {"state": state}}
    assert tell(session, channelId="1", message=message) == [Ready()]
    return session


@pytest.mark.parametrize("make", [new_claude, new_codex, new_vibe])
def test_a_waiting_process_that_ends_is_a_failure(make: Any) -> None:
    (failed,) = make().exited(Exit(1, "boom"))
    assert isinstance(failed, Failed)


@pytest.mark.parametrize("make", [new_claude, new_codex, new_vibe])
def test_what_cannot_be_a_turn_is_not_taken(make: Any) -> None:
    session = make()
    assert session.takes(request("hi"), "m")
    assert not session.takes(request("hi", "begun"), "m")
