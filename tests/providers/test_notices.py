"""What the CLIs say in words."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.events import ErrorCode, Failed
from olp.providers.base import Exit
from olp.providers.claude import answer as claude_answer
from olp.providers.codex import answer as codex_answer
from olp.providers.shared.notices import by_status, classify, http_status, plain, reset_time
from olp.providers.vibe import answer as vibe_answer
from tests.providers.replay import play

HOME = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=HOME)
"""A Monday, at noon."""

QUOTA, RATE, AUTH = ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED, ErrorCode.AUTH_MISSING
OVERLOAD, DEAD = ErrorCode.OVERLOADED, ErrorCode.SPAWN_FAILED
LONG, MODEL, BAD = ErrorCode.CONTEXT_TOO_LONG, ErrorCode.MODEL_NOT_FOUND, ErrorCode.BAD_REQUEST

CLAUDE = [
    ("You've hit your session limit · resets 3:45pm", QUOTA),
    ("You’ve hit your session limit ∙ resets 3:45pm", QUOTA),
    ("You've hit your weekly limit · resets Mon 12:00am", QUOTA),
    ("You've hit your 5-hour limit · resets 5:26am (UTC)", QUOTA),
    ("You've hit your Opus limit · resets 3pm", QUOTA),
    ("You've hit your Sonnet limit · resets 3pm", QUOTA),
    ("You've hit your Fable 5 limit · resets 3pm", QUOTA),
    ("You've hit your usage credit limit", QUOTA),
    ("You've hit your limit · resets 8pm (Europe/Berlin)", QUOTA),
    ("You've reached your weekly limit", QUOTA),
    ("YOU'VE HIT YOUR LIMIT", QUOTA),
    ("You're out of usage credits", QUOTA),
    ("You're out of extra usage", QUOTA),
    ("Your org is out of usage · add funds to continue", QUOTA),
    ("Your org is out of usage · contact your admin", QUOTA),
    ("You've hit your org's monthly spend limit · ask your admin to raise it", QUOTA),
    ("Your seat type doesn't include usage", QUOTA),
    ("Your seat type doesn't include usage credits", QUOTA),
    ("Your seat type doesn't include extra usage", QUOTA),
    ("Your usage allocation has been disabled by your admin", QUOTA),
    ("Your group's usage limit is set to $0", QUOTA),
    ("Fable 5 requires usage credits", QUOTA),
    ("Claude AI usage limit reached|1796021589", QUOTA),
    ("5-hour limit reached ∙ resets 2am", QUOTA),
    ("24-hour limit reached • resets 2am", QUOTA),
    ("Credit balance is too low", QUOTA),
    ("Usage credits required for 1M context", QUOTA),
    ("API Error: spend limit reached (daily; resets 2026-12-01)", QUOTA),
    ("API Error: Server is temporarily limiting requests (not your usage limit)", RATE),
    ("API Error: Request rejected (429) · This request would exceed your rate limit", RATE),
    ("API Error: Repeated 529 Overloaded errors", OVERLOAD),
    ("API Error: 529 Overloaded. This is a server-side issue", OVERLOAD),
    ("API Error: 500 Internal server error", OVERLOAD),
    ("API Error: Overloaded", OVERLOAD),
    ("Request timed out", DEAD),
    ("API Error: Stream ended. The response above may be incomplete.", DEAD),
    ("Not logged in · Please run /login", AUTH),
    ("Invalid API key · Fix external API key", AUTH),
    ("Invalid API key · Please run /login", AUTH),
    ("OAuth token revoked · Please run /login", AUTH),
    ("OAuth token has expired · Please run /login", AUTH),
    ("Please run /login · API Error: 401 Invalid authentication credentials", AUTH),
    ("Failed to authenticate: OAuth session expired and could not be refreshed", AUTH),
    ("Could not resolve authentication method. Expected either apiKey", AUTH),
    ("Your organization has disabled Claude subscription access for Claude Code", AUTH),
    ("Your ANTHROPIC_API_KEY belongs to a disabled organization", AUTH),
    ("There's an issue with the selected model (x). It may not exist", MODEL),
    ("Claude Opus is not available with the Claude Pro plan", MODEL),
    ("Prompt is too long", LONG),
    ("Request too large (max 32MB). Try with a smaller file", LONG),
    ("Image was too large. Double press esc to go back", BAD),
    ("PDF too large (max 100 pages, 20MB)", BAD),
    ("API Error: claude-fable-5 can't help with this request", BAD),
    ("/cost isn't available in this environment.", DEAD),
    ("Something that nobody has seen", ErrorCode.UNKNOWN),
]

VIBE = [
    ("Error: Missing MISTRAL_API_KEY environment variable for mistral provider. Set it", AUTH),
    ("Error: Invalid API key (from env var MISTRAL_API_KEY). Please check your API key", AUTH),
    ("Error: Invalid API key. Please check your API key and try again.", DEAD),
    ("Error: Rate limit exceeded. Please wait a moment before trying again.", RATE),
    ("RateLimitError: Rate limits exceeded. Please wait a moment before trying again.", RATE),
    ("Error: API error occurred: Status 429 Content-Type x. Body: {}", RATE),
    ("Error: API error occurred: Status 503. Body: {}", OVERLOAD),
    ("Error: API error occurred: Status 500. Body: {}", OVERLOAD),
    ("Error: API error occurred: Status 400. Body: {}", BAD),
    ("Error: API error occurred: Status 402. Body: x", QUOTA),
    ("Error: You have reached your spending limit", QUOTA),
    ("Error: API error occurred: Status 400. Body: Prompt is too large for model with 9", LONG),
    ("Error: Active model 'X' not found in configuration.", MODEL),
    ("Error: peer closed connection without sending complete message body", DEAD),
    ("Something that nobody has seen", DEAD),
]


def claude_says(text: str) -> Failed:
    line = {"type": "result", "subtype": "success", "is_error": True, "result": text}
    driver = claude_answer.Driver("hi", structured=False, now=NOW)
    return play(driver, [json.dumps(line)], Exit(1)).failed


def codex_says(text: str) -> Failed:
    line = {"type": "turn.failed", "error": {"message": text}}
    return play(codex_answer.Driver("hi", now=NOW), [json.dumps(line)], Exit(1)).failed


def vibe_says(text: str) -> Failed:
    return play(vibe_answer.Driver("hi", "m", now=NOW), [], Exit(2, text + "\n")).failed


@pytest.mark.parametrize(("text", "trouble"), CLAUDE)
def test_G3_each_wording_of_claude(text: str, trouble: ErrorCode) -> None:
    assert claude_says(text).code is trouble


@pytest.mark.parametrize(("text", "trouble"), VIBE)
def test_G3_each_wording_of_vibe(text: str, trouble: ErrorCode) -> None:
    assert vibe_says(text).code is trouble


def test_A7_a_diagnostic_on_claudes_standard_error_counts() -> None:
    text = '[claude-code:unrecognized_model] {"model": "x"}'
    driver = claude_answer.Driver("hi", structured=False, now=NOW)
    assert play(driver, [], Exit(1, text)).failed.code is MODEL


@pytest.mark.parametrize("says", [claude_says, codex_says, vibe_says])
@given(text=st.text())
def test_S10_no_wording_is_a_crash(says: Any, text: str) -> None:
    assert isinstance(says(text), Failed)


# --- the helpers ---------------------------------------------------------------------------------

NAMED: dict[str, int | None] = {
    "API Error: 529 Overloaded": 529,
    "API Error: (500)": 500,
    "unexpected status 503 Service": 503,
    "unexpected status 503 Service Unavailable: down, url: http://vendor.example:8443/v1": 503,
    "exceeded retry limit, last status: 429 Too Many Requests, request id: 500x": 429,
    "last status: 500": 500,
    "Request rejected (429)": 429,
    "the vendor said no (403)": 403,
    "Status 400 Content-Type": 400,
    "API error occurred: Status 429 Content-Type application/json. Body: {}": 429,
    "error code: 404": 404,
    "Error code: 529 - {'type': 'error'}": 529,
    "Error 503: no upstream": 503,
    "error: 502": 502,
    "status code 503": 503,
    "status code: 503": 503,
    "status_code=503": 503,
    "statusCode: 504": 504,
    '{"status": 503, "message": "x"}': 503,
    '{"error": {"code": 429, "message": "x"}}': 429,
    "HTTP 429": 429,
    "HTTP/1.1 502 Bad Gateway": 502,
    "HTTP/2 503": 503,
    "HTTP status 401": 401,
    "HTTP error 500": 500,
    "429 Too Many Requests": 429,
    "got 502 Bad Gateway from the proxy": 502,
    "404 not found": 404,
    "Server error '503 Service Unavailable' for url 'https://api.vendor.example/v1/chat'": 503,
    "Client error '404 Not Found' for url 'http://127.0.0.1:8500/v1'": 404,
    "<title>504 Gateway Timeout</title>": 504,
    # Other numbers.
    "status 5000": None,
    "status 999": None,
    "status 200": None,
    "500 reasons": None,
    "": None,
    "took 503 ms": None,
    "limit of 429 tokens (500 words)": None,
    "status: 500 tokens were left": None,
    "error 500 ms after the start": None,
    "connect to 10.0.0.1:503 failed": None,
    "http://vendor.example:503/": None,
    "request id 503-429-404": None,
    "version 4.04 (5.00)": None,
    "model gpt-500": None,
    "(4290)": None,
    "Error 404-tolerant": None,
}


@pytest.mark.parametrize("text", NAMED)
def test_A7_the_status_in_an_error_text(text: str) -> None:
    assert http_status(text) == NAMED[text]


@pytest.mark.parametrize("piece", ["500,", "500 ", "(5", "status: ", "again ", "in 1 ", "resets  "])
def test_A7_a_long_text_is_read_in_no_time(piece: str) -> None:
    began = time.process_time()
    http_status(piece * 40_000)
    reset_time(piece * 40_000, NOW)
    assert time.process_time() - began < 2


@given(st.one_of(st.text(), st.lists(st.sampled_from([*NAMED, " ", "503", "(", ")"])).map("".join)))
def test_A7_a_status_is_one_that_stands_there(text: str) -> None:
    found = http_status(text)
    assert found is None or (400 <= found < 600 and str(found) in text)


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (None, None),
        (200, None),
        (418, None),
        (400, BAD),
        (422, BAD),
        (401, AUTH),
        (403, AUTH),
        (402, QUOTA),
        (404, MODEL),
        (413, LONG),
        (429, RATE),
        (500, OVERLOAD),
        (529, OVERLOAD),
    ],
)
def test_A7_what_a_status_means(status: int | None, trouble: ErrorCode | None) -> None:
    assert by_status(status) is trouble


def test_G3_the_first_pattern_wins_whatever_case_and_quotes() -> None:
    patterns = (("it's a b", QUOTA), ("a b", RATE))
    assert classify("well, IT’S A B", patterns) is QUOTA
    assert classify("a b", patterns) is RATE
    assert classify("c", patterns) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain words", "plain words"),
        ('{"error": {"message": "bad thing"}}', "bad thing"),
        ('{"detail": "bad thing"}', "bad thing"),
        ('Status 400. Body: {"message": "bad thing", "code": null}', "bad thing"),
        ('{"message": 5}', '{"message": 5}'),
        ('{"message": ""}', '{"message": ""}'),
        ("a { b", "a { b"),
        ("{}", "{}"),
        ('{"a":' * 100_000, '{"a":' * 100_000),
    ],
    ids=lambda text: repr(text)[:30],
)
def test_K_a_quoted_body_is_told_as_its_sentence(text: str, said: str) -> None:
    assert plain(text) == said
