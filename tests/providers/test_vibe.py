"""Vibe's driver on what the real CLI printed and reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from olp.events import Done, ErrorCode, Failed, Finish, Started, Usage
from olp.providers.base import CloseInput, Exit, Settle, Write
from olp.providers.vibe.answer import REPORT_S, Driver
from tests.providers.replay import (
    GARBAGE,
    NOW,
    WORDS,
    Played,
    Recording,
    names,
    play,
    replay,
    short,
)

FAILURES = {
    # A used-up plan looks like any 429 here: no words of it are known (docs say nothing else).
    "quota": ErrorCode.RATE_LIMITED,
    "throttle": ErrorCode.RATE_LIMITED,
    "credit": ErrorCode.QUOTA_EXHAUSTED,
    "overloaded": ErrorCode.OVERLOADED,
    "error500": ErrorCode.OVERLOADED,
    "auth": ErrorCode.AUTH_MISSING,
    "nologin": ErrorCode.AUTH_MISSING,
    "badreq": ErrorCode.BAD_REQUEST,
    "model": ErrorCode.MODEL_NOT_FOUND,
    "context": ErrorCode.CONTEXT_TOO_LONG,
    "miderr": ErrorCode.VENDOR_CUT,
    "drop": ErrorCode.VENDOR_CUT,
    "len_retry": ErrorCode.VENDOR_CUT,
}
ANSWERS = {
    "ok": WORDS,
    "think": WORDS,
    "len": WORDS,
    "say_unicode": "Grüße 👋 日本",
    "json_text": '{"answer": 42}',
}


def driver(prompt: str = "hi") -> Driver:
    return Driver(prompt, "mistral-medium-3.5", now=NOW)


def replayed(name: str) -> Played:
    return replay(driver, "vibe", name)


def told(
    *entries: dict[str, Any],
    code: int | None = 0,
    stderr: str = "",
    report: dict[str, Any] | None = None,
) -> Played:
    files = {"out/export.json": json.dumps(report).encode()} if report is not None else {}
    return play(driver(), [json.dumps(e) for e in entries], Exit(code, stderr, files))


def message(text: str, outcome: dict[str, Any] | None = None, **resume: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "outcome": outcome,
    } | resume


COMMITTED = {"type": "committed"}
DISCARDED = {"type": "discarded", "cause": "error"}
RETRY = {"type": "discarded", "cause": "retry"}


# --- the recordings ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("vibe"))
def test_C6_every_recording_ends_exactly_once(name: str) -> None:
    assert isinstance(replayed(name).end, Done | Failed)


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_A7_each_failure_is_told_apart(name: str) -> None:
    failed = replayed(name).failed
    assert failed.code is FAILURES[name]
    assert failed.detail


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_N1_each_answer_comes_whole_and_once(name: str) -> None:
    played = replayed(name)
    assert played.text == ANSWERS[name]
    assert played.end == Done(Finish.LENGTH if name == "len" else Finish.STOP)


@pytest.mark.parametrize("name", [name for name in names("vibe") if name.startswith("evil_")])
def test_M2_a_model_that_asks_for_a_tool_gets_nothing_done(name: str) -> None:
    """The entry that shows the tool ends the process; without one the CLI had refused by itself."""
    played = replayed(name)
    if isinstance(played.end, Done):
        assert "error" in played.text and "InvalidToolCall" in played.text
    else:
        assert "its own tool" in played.failed.detail
        assert played.text == ""


@pytest.mark.parametrize("tool", ["bash", "edit", "read_file", "run_typescript", "write_file"])
def test_M2_each_tool_with_hands_ends_the_process(tool: str) -> None:
    assert replayed(f"evil_{tool}").failed.code is ErrorCode.SPAWN_FAILED


def test_N1_usage_and_cost_come_from_the_report() -> None:
    usage = replayed("ok").usage
    assert (usage.input, usage.output) == (25, 15)
    assert usage.cost is not None


def test_C3_an_answer_begins_with_a_word_of_the_vendors_and_not_with_the_echo_of_the_prompt() -> (
    None
):
    recording = Recording.load("vibe", "ok")
    echo = next(i for i, line in enumerate(recording.lines) if '"role":"user"' in line)
    assert not play(driver(), recording.lines[: echo + 1], Exit(None)).events[:-1]
    assert replayed("ok").events[0] == Started()
    assert Started() not in replayed("overloaded").events


def test_N1_the_echo_of_the_prompt_is_not_the_answer() -> None:
    echo = Recording.load("vibe", "ok").line(type="message", role="user")
    assert echo["content"][0]["text"] not in replayed("ok").text


def test_C2_thinking_is_reasoning_and_no_text() -> None:
    assert replayed("think").reasoning == "let me think about this"


def test_C6_the_answer_does_not_wait_for_the_process_longer_than_for_the_report() -> None:
    steps = replayed("ok").steps
    assert [s for s in steps if isinstance(s, Settle)] == [Settle(REPORT_S)]
    assert REPORT_S <= 5


@pytest.mark.parametrize("name", ["auth", "nologin"])
def test_A8_a_missing_login_says_the_exact_command(name: str) -> None:
    assert "vibe --setup" in replayed(name).failed.detail


def test_A9_an_answer_that_the_cli_would_ask_for_again_is_a_failure_at_once() -> None:
    played = replayed("len_retry")
    assert played.used < played.of


@pytest.mark.parametrize("name", ["miderr", "drop", "len_retry"])
def test_A3_what_came_of_a_broken_stream_does_not_stand_in_the_way_of_the_next_hop(
    name: str,
) -> None:
    """It is told at the very end, when the failure is known too."""
    assert replayed(name).text == ""


@pytest.mark.parametrize(
    ("name", "status"), [("overloaded", 503), ("error500", 500), ("credit", 402), ("quota", 429)]
)
def test_A7_the_vendors_status_is_kept(name: str, status: int) -> None:
    assert replayed(name).failed.status == status


@pytest.mark.parametrize("keep", [0, 1])
def test_C7_an_end_before_the_answer_is_committed_is_no_success(keep: int) -> None:
    lines = Recording.load("vibe", "ok").lines[:keep]
    for code in (0, 1, 137, None):
        assert play(driver(), lines, Exit(code)).failed.code is ErrorCode.SPAWN_FAILED


# --- entries that were not recorded --------------------------------------------------------------


@pytest.mark.parametrize("prompt", ["hello ü", "/clear", "@/etc/passwd", "!ls"])
def test_M1_the_prompt_goes_to_standard_input_alone(prompt: str) -> None:
    assert list(driver(prompt).start()) == [Write(prompt.encode()), CloseInput()]


@pytest.mark.parametrize("kind", ["effect", "callback", "server_tool", "new"])
def test_M2_an_entry_of_a_tool_ends_the_process_and_so_does_one_that_nobody_knows(
    kind: str,
) -> None:
    played = told({"id": "x", "type": kind, "title": "bash"}, message("x", COMMITTED))
    assert played.failed.code is ErrorCode.SPAWN_FAILED
    assert played.used == 1


@pytest.mark.parametrize("kind", ["effect", "callback"])
def test_M2_an_entry_of_a_tool_ends_the_process_although_it_has_no_id(kind: str) -> None:
    assert told({"type": kind}, message("x", COMMITTED)).failed.code is ErrorCode.SPAWN_FAILED


@pytest.mark.parametrize("role", ["user", "system", "tool", None])
def test_N1_only_what_the_assistant_says_is_the_answer(role: Any) -> None:
    assert isinstance(told(message("x", COMMITTED, role=role)).end, Failed)


@pytest.mark.parametrize("outcome", [None, {}, DISCARDED])
def test_N1_only_a_committed_message_is_the_answer(outcome: Any) -> None:
    assert isinstance(told(message("x", outcome)).end, Failed)


@pytest.mark.parametrize(
    ("code", "report", "end"),
    [
        (0, {"outcome": "finished"}, Done()),
        (None, None, Done()),
        (0, None, Done()),
        (3, {"outcome": "length"}, Done(Finish.LENGTH)),
    ],
)
def test_C6_a_committed_answer_and_its_ends(code: int | None, report: Any, end: Done) -> None:
    assert told(message("x", COMMITTED), code=code, report=report).end == end


@pytest.mark.parametrize(
    ("code", "report"),
    [
        (2, {"outcome": "infrastructure_failure"}),
        (1, None),
        (-9, None),
        (3, {"outcome": "refusal"}),
        (0, {"outcome": "token_limit"}),
    ],
)
def test_C7_a_committed_answer_of_a_run_that_failed_is_no_success(code: int, report: Any) -> None:
    assert isinstance(told(message("x", COMMITTED), code=code, report=report).end, Failed)


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("rate_limit", ErrorCode.RATE_LIMITED),
        ("context_too_long", ErrorCode.CONTEXT_TOO_LONG),
        ("invalid_api_key", ErrorCode.AUTH_MISSING),
        ("invalid_model", ErrorCode.MODEL_NOT_FOUND),
        ("incomplete_stream", ErrorCode.SPAWN_FAILED),
        ("refusal", ErrorCode.BAD_REQUEST),
        ("internal_error", ErrorCode.UNKNOWN),
        ("new_code", ErrorCode.UNKNOWN),
    ],
)
def test_A7_the_code_of_the_report_decides(code: str, trouble: ErrorCode) -> None:
    report = {"outcome": "infrastructure_failure", "error": {"code": code, "message": "words"}}
    assert told(code=2, report=report).failed.code is trouble


def test_A7_a_rate_limit_that_speaks_of_the_plan_is_the_quota() -> None:
    error = {"code": "rate_limit", "message": "You have reached your monthly usage limit"}
    failed = told(code=2, report={"outcome": "infrastructure_failure", "error": error}).failed
    assert failed.code is ErrorCode.QUOTA_EXHAUSTED


def test_N1_a_report_without_usage_is_no_crash() -> None:
    for usage in (None, {}, {"input_tokens": None}, {"input_tokens": 0, "output_tokens": 0}):
        report: dict[str, Any] = {"outcome": "finished", "usage": usage}
        played = told(message("x", COMMITTED), report=report)
        assert played.end == Done()
        assert not any(isinstance(event, Usage) for event in played.events), "it has not counted"
    report = {"outcome": "finished", "usage": {"input_tokens": 9, "cached_input_tokens": 4}}
    assert told(message("x", COMMITTED), report=report).usage == Usage(input=9, cached=4)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_S10_a_broken_report_is_no_report(data: bytes) -> None:
    lines = [json.dumps(message("x", COMMITTED))]
    assert play(driver(), lines, Exit(0, "", {"out/export.json": data})).end == Done()
    assert isinstance(play(driver(), [], Exit(2, "", {"out/export.json": data})).end, Failed)


@pytest.mark.parametrize(
    "line",
    [
        *GARBAGE,
        '{"id": "x", "type": "notice", "level": "info", "message": "x"}',
        '{"id": "x", "type": "checkpoint", "kind": "x"}',
    ],
    ids=short,
)
def test_S10_a_garbage_line_is_passed_over(line: str) -> None:
    lines = [line, json.dumps(message("x", COMMITTED)), line]
    played = play(driver(), lines, Exit(0))
    assert (played.text, played.end) == ("x", Done())


@pytest.mark.parametrize("field", ["content", "outcome", "role", "type"])
def test_S10_a_field_that_is_null_is_no_crash(field: str) -> None:
    entry = message("x", COMMITTED) | {field: None}
    assert isinstance(told(entry, code=1).end, Done | Failed)


def test_A9_a_model_that_would_come_back_for_more_is_not_let() -> None:
    driver = Driver("hi", "m", now=NOW)
    (failed,) = driver.exited(Exit(3, stderr="Stopped: turn_limit\n"))
    assert isinstance(failed, Failed) and failed.by_model
    assert failed.code is ErrorCode.SPAWN_FAILED
