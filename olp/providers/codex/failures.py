"""Codex's error codes and texts, and how a turn ends that the vendor did not complete.

The app-server sends a code for most failures; `codex exec` sends only text, for some codes the
vendor's own sentence. A refusal is an answer of its own kind: it ends the turn with the vendor's
text, and no other hop is tried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Finish, Text
from olp.providers.base import login_hint
from olp.providers.codex.info import INFO
from olp.providers.shared.notices import (
    Patterns,
    by_status,
    classify,
    http_status,
    is_blocked,
    is_transport_fault,
    plain,
    reset_time,
)
from olp.providers.shared.wire import parse_line, table, text

REFUSALS = frozenset(
    {"cyberPolicy", "bioPolicy", "misalignmentPolicyViolation", "inferenceHookDenied"}
)
"""Codes for a refusal by the vendor's policy, or by a rule of the user's workspace there."""

CODES: Mapping[str, ErrorCode | None] = {
    "usageLimitExceeded": ErrorCode.QUOTA_EXHAUSTED,
    "sessionBudgetExceeded": ErrorCode.QUOTA_EXHAUSTED,
    "rateLimitExceeded": ErrorCode.RATE_LIMITED,
    "flexUnavailable": ErrorCode.OVERLOADED,
    "policyCapacityUnavailable": ErrorCode.OVERLOADED,
    "serverOverloaded": ErrorCode.OVERLOADED,
    "internalServerError": ErrorCode.OVERLOADED,
    "unauthorized": ErrorCode.AUTH_MISSING,
    "badRequest": ErrorCode.BAD_REQUEST,
    "contextWindowExceeded": ErrorCode.CONTEXT_TOO_LONG,
    "modelNotFound": ErrorCode.MODEL_NOT_FOUND,
    "responseStreamDisconnected": ErrorCode.VENDOR_CUT,
    "responseStreamConnectionFailed": ErrorCode.SPAWN_FAILED,
    "threadRollbackFailed": ErrorCode.SPAWN_FAILED,
    "sandboxError": ErrorCode.SPAWN_FAILED,
    "tooManyDenials": ErrorCode.SPAWN_FAILED,
    "activeTurnNotSteerable": ErrorCode.SPAWN_FAILED,
    "httpConnectionFailed": None,
    "responseTooManyFailedAttempts": None,
    "other": None,
}
"""The meaning of each code; None where it depends on the status or the text sent with it."""

PATTERNS: Patterns = (
    (r"you've (hit|reached) your (workspace )?(usage|credit) limit", ErrorCode.QUOTA_EXHAUSTED),
    (r"the usage limit has been reached|^usage limit reached", ErrorCode.QUOTA_EXHAUSTED),
    (r"out of credits|hit your spend cap|quota exceeded", ErrorCode.QUOTA_EXHAUSTED),
    (r"exceeded your current quota|^(session )?budget reached", ErrorCode.QUOTA_EXHAUSTED),
    (r"rollout token budget exhausted", ErrorCode.QUOTA_EXHAUSTED),
    (r"to use codex with your chatgpt plan", ErrorCode.QUOTA_EXHAUSTED),
    (r"ran out of room in the model's context window|context_length", ErrorCode.CONTEXT_TOO_LONG),
    (r"exceeds the context window", ErrorCode.CONTEXT_TOO_LONG),
    (r"does not exist or you do not have access|model_not_found", ErrorCode.MODEL_NOT_FOUND),
    (r"model is not supported when using codex", ErrorCode.MODEL_NOT_FOUND),
    (r"model requires a newer version of codex", ErrorCode.MODEL_NOT_FOUND),
    (r"access program (is not enabled|cannot be used)", ErrorCode.MODEL_NOT_FOUND),
    (r"^invalid image\b|^image poisoning|image data you provided", ErrorCode.BAD_REQUEST),
    (r"^invalid audio\b|^audio input\b|^duplicate tool: ", ErrorCode.BAD_REQUEST),
    (r"\b401 unauthorized|\(401\)|missing environment variable", ErrorCode.AUTH_MISSING),
    (r"access token could not be refreshed|not (logged|signed) in", ErrorCode.AUTH_MISSING),
    (r"session could not be refreshed|(log|sign) (out and sign )?in again", ErrorCode.AUTH_MISSING),
    (r"(chatgpt|api key) (login|auth) is (required|unavailable)", ErrorCode.AUTH_MISSING),
    (r"last status: 429|too many requests|rate limit", ErrorCode.RATE_LIMITED),
    (r"at capacity|capacity (is )?unavailable|last status: 5\d\d", ErrorCode.OVERLOADED),
    (r"experiencing high (demand|load)|server (is )?overloaded", ErrorCode.OVERLOADED),
    (r"stream disconnected before completion: error sending request", ErrorCode.SPAWN_FAILED),
    (r"stream disconnected before completion|^incomplete response", ErrorCode.VENDOR_CUT),
    (r"error while reading the server response", ErrorCode.VENDOR_CUT),
    (r"connection failed|error sending request|workspace routing", ErrorCode.SPAWN_FAILED),
    (r"waiting for network|request timed out|status 3\d\d\b", ErrorCode.SPAWN_FAILED),
    (r"^(internal|fatal|sandbox) error|^turn aborted|^interrupted\b", ErrorCode.SPAWN_FAILED),
    (r"^timeout waiting for child|^spawn failed|^session configured", ErrorCode.SPAWN_FAILED),
    (r"codex-linux-sandbox|usage accounting failed|^unsupported operation", ErrorCode.SPAWN_FAILED),
    (r"^no thread with id|^agent thread limit|error loading config", ErrorCode.SPAWN_FAILED),
)

_REFUSED = re.compile(
    r"\bflagged\b|\bviolat(es?|ed|ing|ions?)\b|\b(usage|content|safety) polic(y|ies)\b"
    r"|\bsafety (systems?|reasons)\b|\b(was|been) (blocked|rejected|refused)\b"
    r"|inference hook (blocked|denied)|^invalid prompt\b|^invalid request\.$",
    re.IGNORECASE,
)
"""Refusal texts of the vendor, and those the CLI substitutes where the vendor sent none."""

_INCOMPLETE = re.compile(
    r"incomplete response returned, reason: (max_output_tokens|content_filter)", re.IGNORECASE
)
_RETRY = re.compile(r"^(reconnecting\.\.\.|falling back from websockets)", re.IGNORECASE)
_NO_REASON_TO_RETRY = (ErrorCode.UNKNOWN, ErrorCode.BAD_REQUEST, ErrorCode.MODEL_NOT_FOUND)
_PAGE = re.compile(r"<(?:!doctype|html)\b.*", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title>\s*(.*?)\s*</title>", re.IGNORECASE | re.DOTALL)


def announces_retry(message: str) -> bool:
    """Whether the CLI reports that it is about to ask its vendor again."""
    return _RETRY.match(message) is not None


def is_known_error(message: str, *, log: bool = False) -> bool:
    """Whether `message` is a known error or refusal text of Codex.

    With `log` it is standard error, in which connection errors may be unrelated and are ignored.
    """
    found = classify(message, PATTERNS)
    elsewhere = log and found in (ErrorCode.SPAWN_FAILED, ErrorCode.VENDOR_CUT)
    return (found is not None and not elsewhere) or _is_refusal(message)


def failure_events(
    message: str, now: datetime, *, info: object = None, spoke: bool = False
) -> list[Event]:
    """How a turn ends that the vendor did not complete: cut by a limit, refused, or failed.

    `message` and `info` are the CLI's error text and code (`codexErrorInfo`). `spoke` says that
    text was sent before: a broken connection then becomes VENDOR_CUT, since the answer is cut.
    """
    name, status = _parse_info(info)
    if cut := _INCOMPLETE.search(message):
        by_limit = cut[1].lower() == "max_output_tokens"
        return [Done(Finish.LENGTH if by_limit else Finish.CONTENT_FILTER)]
    if name in REFUSALS or _is_refusal(message):
        words = [] if spoke else [Text(plain(message))]
        return [*words, Done(Finish.CONTENT_FILTER)]
    failed = _failure(message, CODES.get(name), status or http_status(message), now)
    if spoke and failed.code is ErrorCode.SPAWN_FAILED:
        failed = replace(failed, code=ErrorCode.VENDOR_CUT)
    return [failed]


def retry_events(message: str, now: datetime, *, spoke: bool = False) -> list[Event]:
    """How a turn ends when the CLI is about to retry because of `message`.

    Whatever the status, this is never a request that the vendor rejected: a proxy that does not
    support WebSockets answers 404.
    """
    events = failure_events(message, now, spoke=spoke)
    reason = ErrorCode.VENDOR_CUT if spoke else ErrorCode.SPAWN_FAILED
    return [
        replace(event, code=reason)
        if isinstance(event, Failed) and event.code in _NO_REASON_TO_RETRY
        else event
        for event in events
    ]


def _parse_info(info: object) -> tuple[str, int | None]:
    """The app-server's error code, and the HTTP status that comes with some of them."""
    if isinstance(info, str):
        return info, None
    name, more = next(iter(table(info).items()), ("", None))
    status = table(more).get("httpStatusCode")
    return name, status if isinstance(status, int) and 100 <= status <= 599 else None


def _is_refusal(message: str) -> bool:
    """Whether `message` is a refusal, as plain text or inside JSON. A text that names a status or
    matches another failure is not.
    """
    named = http_status(message) is not None or classify(message, PATTERNS) is not None
    return not named and _REFUSED.search(plain(message)) is not None


def _failure(message: str, known: ErrorCode | None, status: int | None, now: datetime) -> Failed:
    error_code = _error_code(message, known, status)
    limited = error_code in (ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED)
    auth = error_code is ErrorCode.AUTH_MISSING
    return Failed(
        error_code,
        login_hint(INFO) if auth else _readable(plain(message)) or "codex gave no reason",
        status,
        reset_time(message, now) if limited else None,
        model_limit="usage limit for " in message and "another model" in message,
    )


def _error_code(message: str, known: ErrorCode | None, status: int | None) -> ErrorCode:
    # the CLI passes on the body of a rejected request unchanged
    page = _PAGE.match(message.lstrip()) is not None
    if page or (status == 403 and is_blocked(message)):
        return ErrorCode.SPAWN_FAILED
    found = known or classify(message, PATTERNS) or _by_body(message) or by_status(status)
    if found:
        return found
    elsewhere = status is not None and (status < 400 or status == 451)
    return ErrorCode.SPAWN_FAILED if elsewhere or is_transport_fault(message) else ErrorCode.UNKNOWN


def _by_body(message: str) -> ErrorCode | None:
    """Classify the vendor's JSON body, which the CLI passes on for a 400."""
    body = parse_line(message)
    error = table(body.get("error"))
    if text(error.get("code")) == "context_length_exceeded":
        return ErrorCode.CONTEXT_TOO_LONG
    return ErrorCode.BAD_REQUEST if error or "detail" in body or "message" in body else None


def _readable(message: str) -> str:
    """`message` with an HTML page replaced by its title."""
    page = _PAGE.search(message)
    if page is None:
        return message
    title = _TITLE.search(page[0])
    return f"{message[: page.start()]}{title[1] if title else 'an HTML page'}"


def error_events(error: Mapping[str, Any], now: datetime, *, spoke: bool = False) -> list[Event]:
    """How a turn ends for an error object of the app-server."""
    message = text(error.get("message")) or ""
    return failure_events(message, now, info=error.get("codexErrorInfo"), spoke=spoke)
