"""Patterns for Claude Code's error texts, its own and its vendor's.

The wordings change between versions and old ones stay in use, so this lists all that are known
since 2.0. An account's state may come as an HTTP 400, formatted as `API Error: 400` with the
vendor's JSON; `words_of` extracts the sentence, so that a pattern can be anchored at its beginning.
The anchor matters because an answer may talk about limits too.
"""

from __future__ import annotations

import re

from olp.events import ErrorCode, Failed
from olp.providers.base import login_hint
from olp.providers.claude.info import INFO
from olp.providers.shared.notices import (
    LOOKED_AT,
    Patterns,
    by_status,
    classify,
    http_status,
    is_transport_fault,
    plain,
)

_Q, _A = ErrorCode.QUOTA_EXHAUSTED, ErrorCode.AUTH_MISSING

PATTERNS: Patterns = (
    (r"not your usage limit|temporarily limiting requests", ErrorCode.RATE_LIMITED),
    (r"request rejected \(429\)", ErrorCode.RATE_LIMITED),
    (r"^you've (hit|reached|used) (all )?your\b.*\b(limit|usage|credits?)\b", _Q),
    (r"^(you're|your org(anization)? is|the organization is) out of (extra )?usage", _Q),
    (r"^your (org(anization)?|team|group)('s)? usage credits are (capped|used up)", _Q),
    (r"^claude (ai |code )?usage limit reached", _Q),
    (
        r"^((your|session|daily|weekly|monthly|usage|plan|team|\d+-hour|opus|sonnet|haiku|fable) )*"
        r"limit reached\b",
        _Q,
    ),
    (r"^third-party apps now draw from your extra usage", _Q),
    (r"^extra usage is required for|^usage credits required for", _Q),
    (r"^usage credits ran out|^out of usage credits", _Q),
    (r"credit balance is too low|usage credits required", _Q),
    (r"requires? usage credits|(now )?(runs on|uses) usage credits|^usage credits aren't", _Q),
    (r"(^|your )[\w' ]*spend(ing)? limit|would exceed your [\w' ]*limit", _Q),
    (r"your seat type doesn't include|usage allocation has been disabled", _Q),
    (r"your group's usage limit is set to|^usage is paused for your organization", _Q),
    (r"^this service is disabled for your org|^you have reached your specified", _Q),
    (r"^the long context beta is not yet available for this subscription", _Q),
    (
        r"could not refresh your login because|oauth token: (another|the disk)",
        ErrorCode.SPAWN_FAILED,
    ),
    (r"blocked before it reached anthropic", ErrorCode.SPAWN_FAILED),
    (r"please run /login|not logged in|invalid api key|oauth token", _A),
    (r"failed to authenticate|could not resolve authentication", _A),
    (r"disabled claude subscription access|disabled organization", _A),
    (r"^login (expired|reached its time limit)|^your account does not have access", _A),
    (r"disabled api key authentication|invalid auth token|updated our consumer terms", _A),
    (r"organization has been disabled|account (has been|is) (disabled|suspended|on hold)", _A),
    (
        r"prompt is too long|request too large|input length and .max_tokens. exceed",
        ErrorCode.CONTEXT_TOO_LONG,
    ),
    (r"^(image was|pdf) too large|^claude[\w.-]* can't help with this", ErrorCode.BAD_REQUEST),
    (r"issue with the selected model|is not available with the claude", ErrorCode.MODEL_NOT_FOUND),
    (r"unrecognized_model", ErrorCode.MODEL_NOT_FOUND),
    (r"overloaded|api error: 5\d\d|is experiencing high load", ErrorCode.OVERLOADED),
    (r"request timed out|may be incomplete|connection error", ErrorCode.SPAWN_FAILED),
    (r"unable to connect to api|self-signed certificate", ErrorCode.SPAWN_FAILED),
    (r"isn't available in this environment", ErrorCode.SPAWN_FAILED),
)

KINDS = {
    "rate_limit": ErrorCode.RATE_LIMITED,
    "billing_error": ErrorCode.QUOTA_EXHAUSTED,
    "authentication_failed": ErrorCode.AUTH_MISSING,
    "oauth_org_not_allowed": ErrorCode.AUTH_MISSING,
    "account_on_hold": ErrorCode.AUTH_MISSING,
    "model_not_found": ErrorCode.MODEL_NOT_FOUND,
    "overloaded": ErrorCode.OVERLOADED,
    "server_error": ErrorCode.OVERLOADED,
    "invalid_request": ErrorCode.BAD_REQUEST,
}

MODEL_LIMITS = ("seven_day_opus", "seven_day_sonnet", "seven_day_overage_included")
"""Window kinds (`rateLimitType`) that limit a single model; the last one is Fable's."""

CODES = {
    "usage_limit_reached": _Q,
    "model_requires_usage_credits": _Q,
    "long_context_credits_required": _Q,
    "credit_balance_low": _Q,
    "network_edge_blocked": ErrorCode.SPAWN_FAILED,
    "connection_failed": ErrorCode.SPAWN_FAILED,
    "computer_slept": ErrorCode.SPAWN_FAILED,
    "no_response": ErrorCode.SPAWN_FAILED,
    "gateway_content_type": ErrorCode.SPAWN_FAILED,
    "tls_untrusted_ca": ErrorCode.SPAWN_FAILED,
    "tls_cert_signature_failure": ErrorCode.SPAWN_FAILED,
    "invalid_credential_header": _A,
    "org_disabled_credential": _A,
    "api_key_auth_disabled": _A,
    "stored_login_refused": _A,
    "oauth_refresh_store_refused": _A,
    "named_profile_unusable": _A,
    "gateway_signin_required": _A,
    "gateway_session_expired": _A,
}
"""The meaning of the CLI's own failure code (`api_error`), where it sends one."""

_MODEL = r"(?:claude )?(?:opus|sonnet|haiku|fable|mythos)(?: [\d.]+)?"

_OF_A_MODEL = re.compile(
    rf"\byour (?:[\w-]+ )?{_MODEL}\b[\w. -]* limit|\bto keep using {_MODEL}|^{_MODEL}\b.* limit"
    rf"|^[\w-]+ {_MODEL} limit|^{_MODEL}\b.*(?:usage credits|not included)",
    re.IGNORECASE,
)

_OF_LARGE_REQUESTS = re.compile(r"long context|\b1m context", re.IGNORECASE)

_PREFIX = re.compile(r"^\s*api error:?\s*(?:\(?\d{3}\)?:?\s*)?", re.IGNORECASE)


def words_of(message: str) -> str:
    """The sentence in an error text: without `API Error: 400` and the vendor's JSON. A text that
    would be empty otherwise stays as it is.
    """
    message = message[:LOOKED_AT]
    bare = plain(_PREFIX.sub("", message))
    return bare if bare.strip() and not message.lower().startswith("api error: 5") else message


def names_a_model(words: str) -> bool:
    """Whether a limit is for one model only, so that the plan's other models can be used."""
    return _OF_A_MODEL.search(words.replace("\u2019", "'")) is not None


def of_large_requests(words: str) -> bool:
    """Whether a limit is for long-context requests only, so that smaller ones can be sent."""
    return _OF_LARGE_REQUESTS.search(words) is not None


_UNASKED = re.compile(r"couldn't (confirm|check)|unable to validate|network error", re.IGNORECASE)


def refused_model(message: str) -> Failed:
    """The failure for a rejected `set_model`.

    The CLI asks its vendor about a name it does not know, and that request can fail like any other.
    """
    words = words_of(message).replace("\u2019", "'")
    status = http_status(message)
    error_code = classify(words, PATTERNS) or by_status(status)
    if error_code is None and (_UNASKED.search(words) or is_transport_fault(words)):
        error_code = ErrorCode.SPAWN_FAILED
    return Failed(
        error_code or ErrorCode.MODEL_NOT_FOUND,
        login_hint(INFO) if error_code is _A else message or "the CLI did not take the model",
        status,
        model_limit=names_a_model(words),
    )
