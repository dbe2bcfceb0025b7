"""Claude Code's driver on what the real CLI printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.events import (
    Done,
    ErrorCode,
    Failed,
    Finish,
    Quota,
    Reads,
    Reasoning,
    Started,
    Text,
    Usage,
)
from olp.providers.base import CloseInput, Exit, Halt, Write
from olp.providers.claude.answer import Driver
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
    "badreq": ErrorCode.BAD_REQUEST,
    "model": ErrorCode.MODEL_NOT_FOUND,
    "context": ErrorCode.CONTEXT_TOO_LONG,
    "slash": ErrorCode.SPAWN_FAILED,
    "miderr": ErrorCode.OVERLOADED,
    "miderr_fallback": ErrorCode.VENDOR_CUT,
    "drop": ErrorCode.VENDOR_CUT,
    "evil_bash": ErrorCode.SPAWN_FAILED,
    "evil_read": ErrorCode.SPAWN_FAILED,
    "evil_write": ErrorCode.SPAWN_FAILED,
}
ANSWERS = {"ok": WORDS, "think": WORDS, "say_unicode": "Grüße 👋 日本", "len": WORDS}


def driver(prompt: str = "hi", *, structured: bool = False) -> Driver:
    return Driver(prompt, structured=structured, now=NOW)


def replayed(name: str) -> Played:
    return replay(lambda: driver(structured=name == "json_schema"), "claude", name)


def told(*messages: dict[str, Any], structured: bool = False, code: int | None = 0) -> Played:
    return play(driver(structured=structured), [json.dumps(m) for m in messages], Exit(code))


def stream(**event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None}


def delta(text: str) -> dict[str, Any]:
    return stream(type="content_block_delta", delta={"type": "text_delta", "text": text})


def result(text: str = "", **resume: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text} | resume


# --- the recordings ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("claude"))
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


def test_N1_the_answer_comes_as_deltas_with_its_usage() -> None:
    played = replayed("ok")
    texts = [event for event in played.events if isinstance(event, Text)]
    assert len(texts) == 6
    assert (played.usage.input, played.usage.output) == (25, 15)
    assert played.usage.cost is not None


def test_C3_the_vendors_message_start_is_the_beginning() -> None:
    events = replayed("ok").events
    assert isinstance(events[0], Started)


def test_J4_the_model_that_answers_is_named() -> None:
    model = Recording.load("claude", "ok").line(type="system", subtype="init")["model"]
    assert replayed("ok").events[0] == Started(model)


def test_C2_thinking_is_reasoning_and_no_text() -> None:
    assert replayed("think").reasoning == "let me think about this"


def test_E2_quota_readings_come_with_an_answer() -> None:
    windows = [w for e in replayed("ok").events if isinstance(e, Quota) for w in e.windows]
    assert {window.name: window.used for window in windows} == {"five_hour": 42, "seven_day": 17}
    assert all(window.resets_at for window in windows)


def test_A7_an_answer_tells_how_much_its_model_can_read() -> None:
    assert [e for e in replayed("ok").events if isinstance(e, Reads)] == [Reads(1_000_000)]


@pytest.mark.parametrize(
    "used",
    [None, [], {}, {"m": 5}, {"m": {}}, {"m": {"contextWindow": "big"}}]
    + [{"m": {"contextWindow": size}} for size in (0, -1, 1.5, True, None)]
    + [{"m": {"contextWindow": 5}, "n": {"contextWindow": 6}}],
)
def test_A7_what_is_no_such_number_is_left_out(used: object) -> None:
    line = {"type": "result", "subtype": "success", "result": "hi", "modelUsage": used}
    events = play(Driver("hi", structured=False, now=NOW), [json.dumps(line)], Exit(0)).events
    assert not [event for event in events if isinstance(event, Reads)]


def test_E5_a_used_up_plan_tells_when_it_is_reset() -> None:
    recording = Recording.load("claude", "quota")
    info = recording.line(type="rate_limit_event")["rate_limit_info"]
    failed = replayed("quota").failed
    assert (failed.status, failed.resets_at) == (429, float(info["resetsAt"]))


def test_A7_a_throttle_is_not_the_quota_although_it_says_usage_limit() -> None:
    failed = replayed("throttle").failed
    assert "not your usage limit" in failed.detail
    assert failed.resets_at is None


@pytest.mark.parametrize(
    ("name", "status"),
    [("overloaded", 529), ("error500", 500), ("auth", 401), ("badreq", 400), ("model", 404)],
)
def test_A7_the_vendors_status_is_kept(name: str, status: int) -> None:
    assert replayed(name).failed.status == status


def test_A8_a_missing_login_says_the_exact_command() -> None:
    for name in ("auth", "nologin"):
        assert "claude auth login" in replayed(name).failed.detail


def test_A9_a_retry_of_the_clis_own_is_a_failure_at_once() -> None:
    played = replayed("auth")
    recording = Recording.load("claude", "auth")
    kinds = [json.loads(line).get("subtype") for line in recording.lines]
    assert played.used == kinds.index("api_retry") + 1 < played.of


def test_A9_a_second_request_at_the_token_limit_is_not_waited_for() -> None:
    played = replayed("len")
    assert played.used < played.of, "the CLI went on, and nobody listens"
    assert played.usage.output == 15


@pytest.mark.parametrize("name", ["miderr", "drop", "miderr_fallback"])
def test_B3_a_broken_stream_gives_what_came_and_then_fails(name: str) -> None:
    played = replayed(name)
    assert played.text == "word0 word1 word2 word3 "
    assert isinstance(played.end, Failed)


def test_A9_a_broken_stream_is_not_asked_for_again_in_silence() -> None:
    played = replayed("miderr_fallback")
    assert played.used < played.of


def test_N1_structured_output_comes_whole() -> None:
    played = replayed("json_schema")
    assert json.loads(played.text) == {"answer": 42}
    assert played.end == Done()


@pytest.mark.parametrize("tool", ["bash", "read", "write"])
def test_M2_a_model_that_asks_for_a_tool_ends_the_process(tool: str) -> None:
    played = replayed(f"evil_{tool}")
    assert tool.capitalize() in played.failed.detail
    assert played.text == ""
    assert played.used < played.of, "before the CLI answers the call"


@pytest.mark.parametrize("keep", range(16))
def test_C7_an_end_before_the_result_is_no_success(keep: int) -> None:
    lines = Recording.load("claude", "ok").lines[:keep]
    for code in (0, 1, 137, None):
        assert play(driver(), lines, Exit(code)).failed.code is ErrorCode.SPAWN_FAILED


# --- lines that were not recorded ----------------------------------------------------------------


def test_M1_the_prompt_goes_to_standard_input_alone() -> None:
    assert list(driver("hello ü").start()) == [Write("hello ü".encode()), CloseInput()]


@pytest.mark.parametrize("prompt", ["/cost", "/clear now", "  /model x", "\n/compact", "//x"])
def test_M1_a_slash_at_the_beginning_is_text(prompt: str) -> None:
    first = driver(prompt).start()[0]
    assert first == Write(f"\n{prompt}".encode())


@pytest.mark.parametrize("prompt", ["@/etc/passwd", "!ls", "#note", "a /cost", "\ud800"])
def test_M1_any_other_prompt_is_not_touched(prompt: str) -> None:
    assert driver(prompt).start()[0] == Write(prompt.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    "resume",
    [{"tools": ["Bash"]}, {"tools": ["StructuredOutput"]}, {"mcp_servers": [{"name": "x"}]}],
)
def test_M2_tools_that_are_announced_end_the_process(resume: dict[str, Any]) -> None:
    init = {"type": "system", "subtype": "init", "tools": [], "mcp_servers": []} | resume
    assert told(init).failed.code is ErrorCode.SPAWN_FAILED


def test_M2_the_schemas_own_tool_is_allowed_only_with_a_schema() -> None:
    init = {"type": "system", "subtype": "init", "tools": ["StructuredOutput"]}
    start = stream(
        type="content_block_start", content_block={"type": "tool_use", "name": "StructuredOutput"}
    )
    answer = result("", structured_output={"a": 1})
    assert told(init, start, answer, structured=True).end == Done()
    assert told(start, answer).failed.code is ErrorCode.SPAWN_FAILED


def test_N1_what_a_sub_agent_says_is_not_the_answer() -> None:
    other = delta("not mine") | {"parent_tool_use_id": "toolu_1"}
    assert told(other, delta("mine"), result("mine")).text == "mine"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_tokens", Finish.LENGTH),
        ("model_context_window_exceeded", Finish.LENGTH),
        ("refusal", Finish.CONTENT_FILTER),
    ],
)
def test_N1_the_vendors_stop_reason_ends_the_answer(reason: str, finish: Finish) -> None:
    start = stream(type="message_start", message={"model": "m", "usage": {"input_tokens": 7}})
    stop = stream(type="message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 3})
    played = told(start, delta("x"), stop, delta("more"), result("xmore"))
    assert played.end == Done(finish)
    assert (played.text, played.usage) == ("x", Usage(7, 3))


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", None])
def test_N1_an_ordinary_stop_waits_for_the_result(reason: str | None) -> None:
    stop = stream(type="message_delta", delta={"stop_reason": reason})
    assert told(delta("x"), stop, result("x")).end == Done()


def test_N1_cached_tokens_are_part_of_the_input() -> None:
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 300,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    played = told(delta("x"), result("x", usage=usage, total_cost_usd=0.5))
    assert played.usage == Usage(321, 5, 20, 300, 2, 0.5)


def test_N1_an_answer_that_did_not_come_as_deltas_is_taken_from_the_result() -> None:
    assert told(result("the answer")).text == "the answer"


@pytest.mark.parametrize(
    ("whole", "text", "ends"),
    [
        ("one two", "one two", True),
        ("one two three", "one two three", True),
        ("one", "one two", True),
        ("", "one two", True),
        ("another answer altogether", "one two", False),
    ],
)
def test_B3_what_the_deltas_lack_is_not_lost_in_silence(whole: str, text: str, ends: bool) -> None:
    played = told(delta("one "), delta("two"), result(whole))
    assert played.text == text
    assert isinstance(played.end, Done) == ends


def test_S18_a_limit_notice_as_prose_with_exit_0_is_a_failure() -> None:
    notice = "You've hit your weekly limit · resets 3pm"
    failed = told(result(notice)).failed
    assert failed.code is ErrorCode.QUOTA_EXHAUSTED
    assert failed.resets_at is not None


@pytest.mark.parametrize(
    "text", ["You've hit your weekly limit", "Not logged in · Please run /login", "No"]
)
def test_G3_a_synthetic_message_is_never_an_answer(text: str) -> None:
    synthetic = {
        "type": "assistant",
        "message": {"model": "<synthetic>", "content": [{"type": "text", "text": text}]},
    }
    for lines in ([synthetic], [synthetic, result(text)]):
        played = told(*lines)
        assert played.text == ""
        assert isinstance(played.end, Failed)


def test_G3_an_answer_about_limits_is_an_answer() -> None:
    text = "You've hit your weekly limit is what the CLI prints."
    assert told(delta(text), result(text)).end == Done()


@pytest.mark.parametrize("kind", ["seven_day_opus", "seven_day_sonnet"])
def test_E5_a_limit_of_one_model_is_told_as_such(kind: str) -> None:
    limit = {"status": "rejected", "resetsAt": 1_800_000_000, "rateLimitType": kind}
    event = {"type": "rate_limit_event", "rate_limit_info": limit}
    failed = told(event, result("x", is_error=True, api_error_status=429)).failed
    assert (failed.code, failed.model_limit) == (ErrorCode.QUOTA_EXHAUSTED, True)


@pytest.mark.parametrize(
    ("resume", "trouble"),
    [
        ({"api_error_status": 529}, ErrorCode.OVERLOADED),
        ({"api_error_status": 500}, ErrorCode.OVERLOADED),
        ({"api_error_status": 401}, ErrorCode.AUTH_MISSING),
        ({"api_error_status": 403}, ErrorCode.AUTH_MISSING),
        ({"api_error_status": 402}, ErrorCode.QUOTA_EXHAUSTED),
        ({"api_error_status": 404}, ErrorCode.MODEL_NOT_FOUND),
        ({"api_error_status": 413}, ErrorCode.CONTEXT_TOO_LONG),
        ({"api_error_status": 400}, ErrorCode.BAD_REQUEST),
        ({"api_error_status": 422}, ErrorCode.BAD_REQUEST),
        ({"api_error_status": 429}, ErrorCode.RATE_LIMITED),
        ({"error": "billing_error"}, ErrorCode.QUOTA_EXHAUSTED),
        ({"error": "billing_error", "api_error_status": 400}, ErrorCode.QUOTA_EXHAUSTED),
        ({"error": "account_on_hold"}, ErrorCode.AUTH_MISSING),
        ({"error": "oauth_org_not_allowed"}, ErrorCode.AUTH_MISSING),
        ({"error": "overloaded"}, ErrorCode.OVERLOADED),
        ({"error": "server_error"}, ErrorCode.OVERLOADED),
        ({"error": "invalid_request"}, ErrorCode.BAD_REQUEST),
        ({"error": "model_not_found"}, ErrorCode.MODEL_NOT_FOUND),
        ({"error": "rate_limit"}, ErrorCode.RATE_LIMITED),
        ({"terminal_reason": "prompt_too_long"}, ErrorCode.CONTEXT_TOO_LONG),
        ({"error": "unknown"}, ErrorCode.UNKNOWN),
        ({}, ErrorCode.UNKNOWN),
    ],
)
def test_A7_an_error_result_goes_by_status_then_kind(resume: Any, trouble: ErrorCode) -> None:
    assert told(result("Something else", is_error=True, **resume)).failed.code is trouble


@pytest.mark.parametrize("subtype", ["error_max_turns", "error_during_execution"])
def test_C7_an_end_that_is_no_success_is_a_failure(subtype: str) -> None:
    assert told(result("", subtype=subtype)).failed.code is ErrorCode.SPAWN_FAILED


def test_N1_a_schema_that_was_not_kept_is_a_mismatch() -> None:
    end = result("", subtype="error_max_structured_output_retries", is_error=True)
    assert told(end, structured=True).failed.code is ErrorCode.FORMAT_MISMATCH


@pytest.mark.parametrize(
    ("id", "error", "ends"), [("s1", True, True), ("s1", None, False), ("t1", True, False)]
)
def test_A9_the_cli_may_not_ask_again_for_a_schema_that_was_not_kept(
    id: str, error: bool | None, ends: bool
) -> None:
    """By then it may have broken the stream off, which is no fault of the vendor's."""
    parser = driver(structured=True)
    block = {"type": "tool_use", "id": "s1", "name": "StructuredOutput", "input": {}}
    assert not parser.receive(json.dumps(stream(type="content_block_start", content_block=block)))
    given = {"type": "tool_result", "tool_use_id": id, "content": "/a: must be integer"}
    content = [given if error is None else {**given, "is_error": error}]
    steps = list(parser.receive(json.dumps({"type": "user", "message": {"content": content}})))
    mismatch = Failed(ErrorCode.FORMAT_MISMATCH, "the model did not keep to the schema")
    assert steps == ([mismatch, Halt()] if ends else [])


@pytest.mark.parametrize(
    "line",
    [
        *GARBAGE,
        '{"type": "system", "subtype": "new_notice"}',
        '{"type": "user"}',
    ],
    ids=short,
)
def test_S10_a_garbage_line_is_passed_over(line: str) -> None:
    lines = [line, json.dumps(delta("x")), line, json.dumps(result("x"))]
    played = play(driver(), lines, Exit(0))
    assert (played.text, played.end) == ("x", Done())


_FIELDS = ["event", "message", "delta", "usage", "rate_limit_info", "content", "tools", "error"]


@given(st.integers(0, 15), st.sampled_from(_FIELDS))
def test_S10_a_field_that_is_missing_or_null_is_no_crash(index: int, field: str) -> None:
    lines = [json.loads(line) for line in Recording.load("claude", "ok").lines]
    for value in ({}, {field: None}):
        broken = {k: v for k, v in lines[index].items() if k != field} | value
        changed = [*lines[:index], broken, *lines[index + 1 :]]
        assert isinstance(told(*changed).end, Done | Failed)


def test_N1_reasoning_that_is_not_text_is_no_reasoning() -> None:
    signature = stream(
        type="content_block_delta", delta={"type": "signature_delta", "signature": "x"}
    )
    assert not any(isinstance(e, Reasoning) for e in told(signature, result("x")).events)
