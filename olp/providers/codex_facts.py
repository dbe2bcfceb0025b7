"""What is known of Codex, and what its failures say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from olp.events import Failed, Trouble
from olp.model import Ability
from olp.providers.base import Facts, login_hint
from olp.providers.notices import Patterns, by_status, classify, plain, reset_time
from olp.providers.wire import parse_line

FACTS = Facts(
    name="codex",
    rank=2,
    title="OpenAI Codex",
    program="codex",
    install="npm install -g @openai/codex@latest",
    login="codex login",
    tested=("0.160.0", "0.171.0"),
    models=("gpt-5.5", "gpt-5.4"),
    native=(
        "../../codex-*/vendor/*/bin/codex",
        "../node_modules/@openai/codex-*/vendor/*/bin/codex",
        "../vendor/*/bin/codex",
    ),
    user_login=(".codex/auth.json",),
    windows=("five_hour", "seven_day", "credits"),
    inert_tools=("apply_patch",),
    can=(Ability.TOOLS, Ability.IMAGES, Ability.SCHEMA, Ability.EFFORT),
)

NO_SYSTEM = "You are a helpful assistant."
"""Stands in for a missing system prompt: without one the CLI would send its own of 20 kB."""

PATTERNS: Patterns = (
    (r"you've (hit|reached) your usage limit", Trouble.QUOTA_EXHAUSTED),
    (r"out of credits|hit your spend cap|quota exceeded", Trouble.QUOTA_EXHAUSTED),
    (r"to use codex with your chatgpt plan", Trouble.QUOTA_EXHAUSTED),
    (r"ran out of room in the model's context window|context_length", Trouble.CONTEXT_TOO_LONG),
    (r"does not exist or you do not have access|model_not_found", Trouble.MODEL_NOT_FOUND),
    (r"model is not supported when using codex", Trouble.MODEL_NOT_FOUND),
    (r"\b401 unauthorized|\b403 forbidden|missing environment variable", Trouble.AUTH_MISSING),
    (r"access token could not be refreshed|not logged in|log out and sign", Trouble.AUTH_MISSING),
    (r"last status: 429|too many requests|rate limit", Trouble.RATE_LIMITED),
    (r"at capacity|experiencing high demand|last status: 5\d\d", Trouble.OVERLOADED),
    (r"stream disconnected before completion|connection", Trouble.SPAWN_FAILED),
)

LASTING = (Trouble.AUTH_MISSING, Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)

CODES: Mapping[str, Trouble] = {
    "usageLimitExceeded": Trouble.QUOTA_EXHAUSTED,
    "sessionBudgetExceeded": Trouble.QUOTA_EXHAUSTED,
    "rateLimitExceeded": Trouble.RATE_LIMITED,
    "serverOverloaded": Trouble.OVERLOADED,
    "internalServerError": Trouble.OVERLOADED,
    "unauthorized": Trouble.AUTH_MISSING,
    "badRequest": Trouble.BAD_REQUEST,
    "contextWindowExceeded": Trouble.CONTEXT_TOO_LONG,
    "modelNotFound": Trouble.MODEL_NOT_FOUND,
    "responseStreamDisconnected": Trouble.SPAWN_FAILED,
    "responseStreamConnectionFailed": Trouble.SPAWN_FAILED,
}


def explain(text: str, known: Trouble | None, status: int | None, now: datetime) -> Failed:
    """The failure that `text` tells of, as far as nothing better is `known`."""
    said = known or classify(text, PATTERNS) or by_body(text) or by_status(status)
    trouble = said or Trouble.UNKNOWN
    limited = trouble in (Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)
    auth = trouble is Trouble.AUTH_MISSING
    return Failed(
        trouble,
        login_hint(FACTS) if auth else plain(text) or "codex gave no reason",
        status,
        reset_time(text, now) if limited else None,
        model_limit="usage limit for " in text and "another model" in text,
    )


def by_body(text: str) -> Trouble | None:
    """A refused request is told as the upstream's JSON body, without its status."""
    body = parse_line(text)
    error = body.get("error")
    kind = str(error.get("type") or error.get("code") or "") if isinstance(error, dict) else ""
    if kind == "context_length_exceeded":
        return Trouble.CONTEXT_TOO_LONG
    return Trouble.BAD_REQUEST if "invalid" in kind or "detail" in body else None


def explained(error: Mapping[str, Any], now: datetime) -> Failed:
    """The failure that the app-server tells of, in a code and in words."""
    info = error.get("codexErrorInfo")
    status = None
    if isinstance(info, dict) and info:
        name, more = next(iter(info.items()))
        status = more.get("httpStatusCode") if isinstance(more, dict) else None
    else:
        name = str(info)
    said = str(error.get("message") or "codex gave no reason")
    return explain(said, CODES.get(name), status, now)
