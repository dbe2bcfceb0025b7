"""Every sentence that Claude Code is known to say instead of an answer, in each of its shapes.

From the CLI's own text (2.0 to 2.1) and from its vendor's errors. The same words come as a result
without deltas, as a message of the model `<synthetic>`, and behind `API Error: 400`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from olp.events import ErrorCode, Failed
from olp.providers.base import Exit
from olp.providers.claude.answer import Driver
from tests.providers.replay import NOW, play

Q, A = ErrorCode.QUOTA_EXHAUSTED, ErrorCode.AUTH_MISSING
PLAN, MODEL, LARGE = "plan", "model", "large requests"

LIMITS: Sequence[tuple[str, str]] = (
    ("Claude AI usage limit reached|1800000000", PLAN),
    ("Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).", PLAN),
    ("Claude Code usage limit reached", PLAN),
    ("5-hour limit reached ∙ resets 6pm", PLAN),
    ("Session limit reached ∙ resets 6pm", PLAN),
    ("Weekly limit reached ∙ resets Dec 3, 9am", PLAN),
    ("Limit reached · resets 3pm (UTC) · /upgrade to Max or turn on /extra-usage", PLAN),
    ("Opus weekly limit reached ∙ resets Dec 3, 9am", MODEL),
    ("Weekly Opus limit reached · resets 9am", MODEL),
    ("You've hit your limit · resets 3pm (UTC)", PLAN),
    ("You’ve hit your session limit · resets 3:30am (UTC)", PLAN),
    ("You've hit your 5-hour limit · resets 5:26am (UTC)", PLAN),
    ("You've hit your weekly limit · resets Dec 3, 9am (UTC)", PLAN),
    ("You've hit your weekly Opus limit · resets Dec 3, 9am (UTC)", MODEL),
    ("You've hit your Opus limit · resets 9am (UTC)", MODEL),
    ("You've hit your Sonnet limit · resets 9am (UTC)", MODEL),
    ("You've reached your Fable limit. It resets 9am.", MODEL),
    ("You've hit your monthly spend limit.", PLAN),
    ("You've hit your channel's monthly spend limit.", PLAN),
    ("You've hit your org's monthly usage limit", PLAN),
    ("You've hit your org's monthly spend limit · visit claude.ai to raise it", PLAN),
    ("You're out of extra usage · resets Dec 1, 2am (UTC)", PLAN),
    (
        "You're out of extra usage. Add more at claude.ai/settings/usage and keep going.",
        PLAN,
    ),
    (
        "Third-party apps now draw from your extra usage, not your plan limits. "
        "Add more at claude.ai/settings/usage and keep going.",
        PLAN,
    ),
    (
        "You're out of usage credits. Run /usage-credits to keep using Fable 5 or /model to "
        "switch models.",
        MODEL,
    ),
    ("You're out of usage credits · /usage-credits to buy more", PLAN),
    ("Your organization is out of usage credits.", PLAN),
    ("Your organization's usage credits are capped or used up right now.", PLAN),
    ("Fable 5 requires usage credits. Switch models to continue.", MODEL),
    ("Fable 5 now runs on usage credits", MODEL),
    ("Usage credits ran out before the response was finished.", PLAN),
    ("spend limit reached · resets Aug 8 · request an increase at https://go.example.com", PLAN),
    ("Extra usage is required for long context requests.", LARGE),
    ("Usage credits required for 1M context · run /usage-credits to turn them on", LARGE),
    ("Credit balance is too low", PLAN),
    (
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
        PLAN,
    ),
    ("Your seat type doesn't include Claude Code usage", PLAN),
    ("Your group's usage limit is set to $0", PLAN),
    (
        "This request would exceed your account's monthly spend limit. Please try again later.",
        PLAN,
    ),
)

OTHERS: Sequence[tuple[str, ErrorCode]] = (
    ("Not logged in · Please run /login", A),
    ("Invalid API key · Please run /login", A),
    ("OAuth token revoked · Please run /login", A),
    ("OAuth token has expired. Please obtain a new token or refresh your existing token.", A),
    ("Failed to authenticate. API Error: 401 Invalid authentication credentials", A),
    ("Your organization has disabled Claude subscription access for Claude Code", A),
    ("This organization has been disabled.", A),
    ("Prompt is too long", ErrorCode.CONTEXT_TOO_LONG),
    ("Request too large (max 32MB). Try with a smaller file.", ErrorCode.CONTEXT_TOO_LONG),
    (
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
        ErrorCode.CONTEXT_TOO_LONG,
    ),
    ("There's an issue with the selected model (x). It may not exist.", ErrorCode.MODEL_NOT_FOUND),
    ("API Error: Request rejected (429) · this may be a temporary", ErrorCode.RATE_LIMITED),
    ("Server is temporarily limiting requests (not your usage limit)", ErrorCode.RATE_LIMITED),
    ("API Error: 529 Overloaded. This is a server-side issue", ErrorCode.OVERLOADED),
    ("API Error: 500 Internal server error", ErrorCode.OVERLOADED),
    ("API Error: Connection error.", ErrorCode.SPAWN_FAILED),
    ("Request timed out", ErrorCode.SPAWN_FAILED),
    ("API Error: Unable to connect to API (ECONNREFUSED)", ErrorCode.SPAWN_FAILED),
    ("API Error: JSON Parse error: Unexpected EOF", ErrorCode.SPAWN_FAILED),
    (
        "API Error: Unable to connect to API: Self-signed certificate detected",
        ErrorCode.SPAWN_FAILED,
    ),
)


def lines(shape: str, said: str) -> list[dict[str, Any]]:
    """What the CLI prints for `said`."""
    if shape == "as a 400":
        said = "API Error: 400 " + json.dumps(
            {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
        )
    synthetic = {
        "type": "assistant",
        "error": "invalid_request" if shape == "as a 400" else "unknown",
        "message": {"model": "<synthetic>", "content": [{"type": "text", "text": said}]},
    }
    status = {"api_error_status": 400} if shape == "as a 400" else {}
    failing = shape != "as a plain result"
    end = {"type": "result", "subtype": "success", "is_error": failing, "result": said, **status}
    return [synthetic, end] if failing else [end]


def failure(shape: str, said: str) -> Failed:
    driver = Driver("hi", structured=False, now=NOW)
    return play(driver, [json.dumps(line) for line in lines(shape, said)], Exit(1)).failed


@pytest.mark.parametrize("shape", ["as a plain result", "synthetic", "as a 400"])
@pytest.mark.parametrize(("said", "scope"), LIMITS, ids=[said[:40] for said, _ in LIMITS])
def test_G3_each_notice_of_a_limit_is_one_in_every_shape(shape: str, said: str, scope: str) -> None:
    failed = failure(shape, said)
    assert failed.code is Q
    assert (failed.model_limit, failed.request_limit) == (scope == MODEL, scope == LARGE)


@pytest.mark.parametrize(("said", "trouble"), OTHERS, ids=[said[:40] for said, _ in OTHERS])
def test_A7_each_other_failure_is_known_by_its_words(said: str, trouble: ErrorCode) -> None:
    assert failure("synthetic", said).code is trouble


@pytest.mark.parametrize(
    "said",
    [
        "Your limit of patience was reached, and the story ends.",
        "The speed limit reached its maximum in 1974.",
        "If you see 'Session limit reached', wait for the reset.",
        "Usage limits are described in the documentation.",
    ],
)
def test_G3_an_answer_that_speaks_of_limits_is_an_answer(said: str) -> None:
    driver = Driver("hi", structured=False, now=NOW)
    played = play(driver, [json.dumps(lines("as a plain result", said)[0])], Exit(0))
    assert played.text == said


@pytest.mark.parametrize(
    "page",
    [
        "API Error: 403 <!DOCTYPE html><html><head><title>Just a moment...</title></head></html>",
        "API Error: 403 Your country, region, or territory is not supported",
    ],
)
def test_A7_a_403_that_is_a_block_is_a_vendor_that_cannot_be_reached(page: str) -> None:
    end = {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "result": page,
        "api_error_status": 403,
    }
    failed = play(Driver("hi", structured=False, now=NOW), [json.dumps(end)], Exit(1)).failed
    assert failed.code is ErrorCode.SPAWN_FAILED
    assert failed.detail == page
