"""Codex's driver on what the real CLI printed."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from olp.events import Done, ErrorCode, Event, Failed, Finish, Started, Usage
from olp.providers.base import CloseInput, Exit, Halt, Write
from olp.providers.codex.answer import Driver
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
    "quota": ErrorCode.QUOTA_EXHAUSTED,
    "throttle": ErrorCode.RATE_LIMITED,
    "credit": ErrorCode.QUOTA_EXHAUSTED,
    "overloaded": ErrorCode.OVERLOADED,
    "error500": ErrorCode.OVERLOADED,
    "auth": ErrorCode.AUTH_MISSING,
    "nologin": ErrorCode.AUTH_MISSING,
    "nologin_builtin": ErrorCode.AUTH_MISSING,
    "badreq": ErrorCode.BAD_REQUEST,
    "model": ErrorCode.MODEL_NOT_FOUND,
    "model_chatgpt": ErrorCode.MODEL_NOT_FOUND,
    "context": ErrorCode.CONTEXT_TOO_LONG,
    "context_400": ErrorCode.CONTEXT_TOO_LONG,
    "miderr": ErrorCode.VENDOR_CUT,
    "drop": ErrorCode.VENDOR_CUT,
    "cut10": ErrorCode.VENDOR_CUT,
    "cut40": ErrorCode.VENDOR_CUT,
    "cut_after_item": ErrorCode.VENDOR_CUT,
    "closed_port": ErrorCode.SPAWN_FAILED,
    "blocked": ErrorCode.SPAWN_FAILED,
    "reconnecting": ErrorCode.SPAWN_FAILED,
    "interrupted": ErrorCode.SPAWN_FAILED,
}
ANSWERS = {
    "ok": WORDS,
    "think": WORDS,
    "len": WORDS,
    "unknown_model": WORDS,
    "ok_code_mode_model": WORDS,
    "say_unicode": "Grüße 👋 日本",
    "json_schema": '{"answer": 42}',
    "rerouted": WORDS,
    "blank": " ",
}
HARMLESS = {
    "evil_shell": "unsupported call: shell",
    "evil_exec_command": "unsupported call: exec_command",
    "evil_exec": "code-mode host is disabled",
    "evil_apply_patch": "No usable execution environment is available.",
}


def driver() -> Driver:
    return Driver("hi", now=NOW)


def replayed(name: str) -> Played:
    return replay(driver, "codex", name)


def told(*messages: dict[str, Any], code: int | None = 0, stderr: str = "") -> Played:
    return play(driver(), [json.dumps(m) for m in messages], Exit(code, stderr))


def item(kind: str, moment: str = "item.completed", **resume: Any) -> dict[str, Any]:
    return {"type": moment, "item": {"id": "item_0", "type": kind} | resume}


def said(text: str) -> dict[str, Any]:
    return item("agent_message", text=text)


def turn_failed(message: str) -> dict[str, Any]:
    return {"type": "turn.failed", "error": {"message": message}}


COMPLETED: dict[str, Any] = {"type": "turn.completed", "usage": {"input_tokens": 1}}


# --- the recordings ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("codex"))
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


@pytest.mark.parametrize("name", names("codex"))
def test_M2_a_model_that_asks_for_a_tool_gets_nothing_done(name: str) -> None:
    """The CLI answers the model that there is no such tool; or the driver ends it."""
    if name.startswith("evil_"):
        played = replayed(name)
        if isinstance(played.end, Done):
            assert played.text.startswith(HARMLESS[name])
        else:
            assert played.failed.code is ErrorCode.SPAWN_FAILED


def test_N1_usage() -> None:
    assert replayed("ok").usage == Usage(25, 15)


def test_C3_the_first_line_is_the_beginning() -> None:
    events = replayed("ok").events
    assert events[0] == Started()
    assert events.count(Started()) == 1


def test_C2_thinking_is_reasoning_and_no_text() -> None:
    assert replayed("think").reasoning == "let me think about this"


def test_E5_a_used_up_plan_tells_when_it_is_reset() -> None:
    line = Recording.load("codex", "quota").line(type="turn.failed")
    clock = re.search(r"again at (\d+):(\d\d) (AM|PM)", line["error"]["message"])
    assert clock is not None
    hour = int(clock[1]) % 12 + 12 * (clock[3] == "PM")
    at = NOW.replace(hour=hour, minute=int(clock[2]))
    expected = at if at > NOW else at + timedelta(days=1)
    assert replayed("quota").failed.resets_at == expected.timestamp()


@pytest.mark.parametrize(
    ("name", "status"), [("overloaded", 503), ("auth", 401), ("throttle", 429), ("quota", None)]
)
def test_A7_the_vendors_status_is_kept_where_it_is_told(name: str, status: int | None) -> None:
    assert replayed(name).failed.status == status


@pytest.mark.parametrize("name", ["auth", "nologin", "nologin_builtin"])
def test_A8_a_missing_login_says_the_exact_command(name: str) -> None:
    assert "codex login" in replayed(name).failed.detail


@pytest.mark.parametrize(("name", "used"), [("reconnecting", 3), ("interrupted", 4)])
def test_A9_what_the_cli_would_try_for_seconds_more_is_a_failure_at_once(
    name: str, used: int
) -> None:
    played = replayed(name)
    assert (played.used, played.text) == (used, "")
    assert played.of > used


@pytest.mark.parametrize("name", ["cut10", "cut40", "cut_after_item", "drop", "miderr"])
def test_G1_a_cut_that_the_cli_reports_gives_no_text(name: str) -> None:
    assert replayed(name).text == ""


def test_A7_a_page_before_the_vendor_is_told_by_its_title() -> None:
    failed = replayed("blocked").failed
    assert (failed.status, failed.detail) == (
        403,
        "unexpected status 403 Forbidden: Just a moment...",
    )


def test_S13_a_refusal_is_told_in_the_vendors_words() -> None:
    played = replayed("refused")
    assert played.end == Done(Finish.CONTENT_FILTER)
    assert played.text.startswith("Invalid prompt: your prompt was flagged")


def test_J4_another_model_that_answers_is_named() -> None:
    assert Started("gpt-5.2") in replayed("rerouted").events


def test_C2_a_warning_is_no_failure() -> None:
    warning = Recording.load("codex", "unknown_model").line(type="item.completed")
    assert warning["item"]["type"] == "error"
    assert replayed("unknown_model").end == Done()


@pytest.mark.parametrize("keep", range(4))
def test_C7_an_end_before_the_turn_is_completed_is_no_success(keep: int) -> None:
    lines = Recording.load("codex", "ok").lines[:keep]
    for code in (0, 1, 137, None):
        assert play(driver(), lines, Exit(code)).failed.code is ErrorCode.SPAWN_FAILED


# --- lines that were not recorded ----------------------------------------------------------------


def test_M1_the_prompt_goes_to_standard_input_alone() -> None:
    steps = Driver("/x @y ü\ud800", now=NOW).start()
    assert list(steps) == [Write("/x @y ü?".encode()), CloseInput()]


def test_C6_the_answer_is_complete_when_the_turn_is() -> None:
    played = told(said("x"), COMPLETED, {"type": "turn.failed", "error": {"message": "late"}})
    assert played.end == Done()
    assert played.used == 2


def test_N1_of_several_messages_the_last_is_the_answer() -> None:
    played = told(said("let me see"), said("one more"), said("the answer"), COMPLETED)
    assert played.text == "the answer"
    assert played.reasoning == "let me seeone more"


def test_A9_a_message_told_twice_is_another_answer_of_the_vendors() -> None:
    played = told(said("let me see"), said("let me see"), COMPLETED)
    assert isinstance(played.end, Failed) and played.end.by_model
    assert (played.used, played.steps[-1]) == (2, Halt())
    many = [said(str(number)) for number in range(9)]
    assert told(*many, COMPLETED).used == 6


def test_N1_a_message_counts_only_when_it_is_complete() -> None:
    early = item("agent_message", "item.started", text="")
    later = item("agent_message", "item.updated", text="half")
    assert told(early, later, said("whole"), COMPLETED).text == "whole"


@pytest.mark.parametrize("moment", ["item.started", "item.updated", "item.completed"])
@pytest.mark.parametrize(
    "kind", ["command_execution", "file_change", "mcp_tool_call", "web_search", "collab", None]
)
def test_M2_an_item_with_hands_ends_the_process(kind: Any, moment: str) -> None:
    played = told(said("x"), item(kind, moment), COMPLETED)
    assert played.failed.code is ErrorCode.SPAWN_FAILED
    assert played.used == 2
    assert played.text == ""


@pytest.mark.parametrize("kind", ["reasoning", "error", "todo_list"])
def test_M2_a_harmless_item_does_not(kind: str) -> None:
    assert told(item(kind, text="x", message="x"), said("y"), COMPLETED).text == "y"


def test_G1_the_text_of_a_broken_stream_is_not_given() -> None:
    played = told(said("half"), turn_failed("stream disconnected before completion: boom"))
    assert [type(event) for event in played.events] == [Started, Failed]
    assert played.failed.code is ErrorCode.VENDOR_CUT


@pytest.mark.parametrize("words", ["Connection failed: error sending request", "turn aborted."])
def test_G1_no_failure_that_the_cli_lives_to_tell_is_taken_for_its_death(words: str) -> None:
    """Only a death is salvaged."""
    assert told(said("half"), turn_failed(words)).failed.code is ErrorCode.VENDOR_CUT
    assert told(turn_failed(words)).failed.code is ErrorCode.SPAWN_FAILED


def test_G3_the_text_of_any_other_failure_is_not() -> None:
    assert told(said("half"), turn_failed("You've hit your usage limit.")).text == ""


def test_G1_an_exit_after_a_word_about_the_vendor_is_what_that_says() -> None:
    notice = {"type": "error", "message": "stream disconnected before completion: boom"}
    played = told(said("half"), notice, code=1)
    assert (played.text, played.failed.code) == ("", ErrorCode.VENDOR_CUT)


def test_G1_the_log_of_a_cli_that_died_is_no_word_about_its_vendor() -> None:
    log = "ERROR models_manager: failed to refresh: Connection failed: error sending request"
    played = told(said("all of it"), code=1, stderr=log)
    assert (played.text, played.failed.code) == ("all of it", ErrorCode.SPAWN_FAILED)


def test_G1_an_exit_after_the_message_gives_the_message() -> None:
    played = told(said("all of it"), code=0)
    assert played.text == "all of it"
    assert played.failed.code is ErrorCode.SPAWN_FAILED


@pytest.mark.parametrize(
    ("message", "finish"),
    [
        ("Incomplete response returned, reason: max_output_tokens", Finish.LENGTH),
        ("Incomplete response returned, reason: content_filter", Finish.CONTENT_FILTER),
    ],
)
def test_N1_an_incomplete_answer_has_its_finish_reason(message: str, finish: Finish) -> None:
    played = told(said("x"), turn_failed(message))
    assert (played.text, played.end) == ("x", Done(finish))


def test_E5_a_limit_of_one_model_is_told_as_such() -> None:
    text = "You've hit your usage limit for GPT-5.5. Switch to another model now, or try again at "
    failed = told(turn_failed(text + "3:45 PM.")).failed
    assert (failed.code, failed.model_limit) == (ErrorCode.QUOTA_EXHAUSTED, True)
    assert failed.resets_at == NOW.replace(hour=15, minute=45).timestamp()


def test_N1_all_counts_of_the_usage() -> None:
    usage = {
        "input_tokens": 9,
        "cached_input_tokens": 4,
        "cache_write_input_tokens": 3,
        "output_tokens": 7,
        "reasoning_output_tokens": 2,
    }
    assert told(said("x"), {"type": "turn.completed", "usage": usage}).usage == Usage(9, 7, 4, 3, 2)


@pytest.mark.parametrize(
    "line",
    [
        *GARBAGE,
        '{"type": "error"}',
        '{"type": "item.updated", "item": {"type": "error"}}',
    ],
    ids=short,
)
def test_S10_a_garbage_line_is_passed_over(line: str) -> None:
    lines = [line, json.dumps(said("x")), line, json.dumps(COMPLETED)]
    played = play(driver(), lines, Exit(0))
    assert (played.text, played.end) == ("x", Done())


@pytest.mark.parametrize("field", ["item", "usage", "error", "message"])
@pytest.mark.parametrize("kind", ["item.completed", "turn.completed", "turn.failed", "error"])
def test_S10_a_field_that_is_null_is_no_crash(kind: str, field: str) -> None:
    played = told({"type": kind, field: None}, code=1)
    end: Event = played.end
    assert isinstance(end, Done | Failed)


def test_A8_words_on_standard_error_count_when_nothing_else_was_said() -> None:
    failed = told(code=1, stderr="warning: x\nNot logged in\n").failed
    assert failed.code is ErrorCode.AUTH_MISSING
