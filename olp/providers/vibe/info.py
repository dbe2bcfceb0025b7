"""Static facts about Vibe, and the classification of its failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from olp.events import ErrorCode, Failed
from olp.model import Capability
from olp.providers.base import ProviderInfo, login_hint
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

OWN_TOOLS = ("bash", "write_file", "edit", "read_file", "run_typescript", "skill")
"""Its own tools that have a permission setting. Forbidden ones are still listed to the model."""

INFO = ProviderInfo(
    name="vibe",
    rank=3,
    title="Mistral Vibe",
    program="vibe",
    install="uv tool install mistral-vibe (or: pipx install mistral-vibe)",
    login="vibe --setup",
    tested=("3.0.2", "3.0.2"),
    models=("mistral-medium-3.5",),
    keeps_max_tokens=True,
    user_login=(".vibe/.env",),
    passes=("MISTRAL_API_KEY",),
    can=(Capability.TOOLS, Capability.IMAGES, Capability.SCHEMA, Capability.EFFORT),
    inert_tools=(*OWN_TOOLS, "search_tool_functions"),
)

HARMLESS_ENTRIES = ("message", "notice", "checkpoint")
"""History entries that run nothing. Unknown types are assumed to run something."""

CODES: Mapping[str, ErrorCode] = {
    "rate_limit": ErrorCode.RATE_LIMITED,
    "context_too_long": ErrorCode.CONTEXT_TOO_LONG,
    "compaction_failed": ErrorCode.CONTEXT_TOO_LONG,
    "invalid_api_key": ErrorCode.AUTH_MISSING,
    "unauthorized": ErrorCode.AUTH_MISSING,
    "invalid_model": ErrorCode.MODEL_NOT_FOUND,
    "incomplete_stream": ErrorCode.SPAWN_FAILED,
    "refusal": ErrorCode.BAD_REQUEST,
    "invalid_image_attachment": ErrorCode.BAD_REQUEST,
    "images_not_supported": ErrorCode.INCAPABLE,
}
"""The meaning of its error codes that need no further look; the same in all its modes."""

BACKEND = "backend_error"
"""Its error code for any failed request to the vendor."""

_FORBIDDEN = re.compile(r"invalid api key\. please", re.IGNORECASE)
"""Its message for any 403. If the login itself is rejected, it names the source of the key."""

PATTERNS: Patterns = (
    (r"missing \S+ environment variable|invalid api key|unauthorized", ErrorCode.AUTH_MISSING),
    (r"spending limit|payment_required|quota|out of credits", ErrorCode.QUOTA_EXHAUSTED),
    (r"monthly (usage )?limit|usage limit", ErrorCode.QUOTA_EXHAUSTED),
    (
        r"piped prompt exceeds|too large for model with|maximum context length",
        ErrorCode.CONTEXT_TOO_LONG,
    ),
    (r"invalid_model|invalid model|not found in configuration", ErrorCode.MODEL_NOT_FOUND),
    (r"is not available on \S+\.\s+switch to another", ErrorCode.MODEL_NOT_FOUND),
    (r"conflicts with a built-in|valid typescript identifier", ErrorCode.INCAPABLE),
    (r"tool vibe cannot offer", ErrorCode.INCAPABLE),
    (r"image is too large", ErrorCode.INCAPABLE),
    (r"rate limit", ErrorCode.RATE_LIMITED),
)

_BROKEN_STREAM = re.compile(
    r"validation errors? for unmarshaller|stream ended without a finish reason"
    r"|stopped sending output|attempted to access streaming response content",
    re.IGNORECASE,
)


def explain(
    text: str,
    code: str | None,
    now: datetime | None,
    *,
    status: int | None = None,
    began: bool = False,
) -> Failed:
    """The failure for the error message `text`, vibe's own `code` and the vendor's `status`.

    `began` says that the vendor had begun to answer: a transport fault is then VENDOR_CUT. `now` is
    an aware local time, or None before any request, when there is no reset time to parse.
    """
    status = status or http_status(text)
    if _is_forbidden(text, status):
        error_code, status = ErrorCode.SPAWN_FAILED, 403
        text = "Mistral answered with status 403: it, or what stands before it, blocks this server"
    else:
        error_code = _error_code(text, code, status)
    if error_code is ErrorCode.AUTH_MISSING:
        return Failed(error_code, login_hint(INFO), status)
    if error_code is ErrorCode.SPAWN_FAILED and began:
        error_code = ErrorCode.VENDOR_CUT
    limited = error_code in (ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED)
    resets_at = reset_time(text, now) if limited and now is not None else None
    return Failed(error_code, plain(text), status, resets_at)


def _is_forbidden(text: str, status: int | None) -> bool:
    """Whether it is a 403, which comes from a proxy or a block in front of the vendor: a rejected
    login gets a 401.
    """
    if status == 403:
        return classify(text, PATTERNS) in (None, ErrorCode.AUTH_MISSING) or is_blocked(text)
    return status is None and _FORBIDDEN.search(text) is not None


def _error_code(text: str, code: str | None, status: int | None) -> ErrorCode:
    known = CODES.get(code or "")
    by_text = classify(text, PATTERNS)
    # The vendor sends 429 for an exhausted plan too; only the text tells them apart.
    if known in (None, ErrorCode.RATE_LIMITED) and by_text is ErrorCode.QUOTA_EXHAUSTED:
        known = by_text
    if found := known or by_text or by_status(status):
        return found
    broken = is_transport_fault(text) or _BROKEN_STREAM.search(text) is not None
    if status is None and (broken or code == BACKEND):
        return ErrorCode.SPAWN_FAILED
    return ErrorCode.UNKNOWN
