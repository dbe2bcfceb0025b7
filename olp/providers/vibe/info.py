"""What is known of Vibe, and what its failures say."""

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
"""Its own tools that have a switch: what does not obey it is told to the model all the same."""

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
"""Entries of its history that do nothing. Of what nobody knows it is taken that it may."""

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
"""What its code of an error says by itself, the same in all its ways of being started."""

BACKEND = "backend_error"
"""Its code for a request to the vendor that went wrong, whatever the reason."""

_FORBIDDEN = re.compile(r"invalid api key\. please", re.IGNORECASE)
"""What it makes of any 403. Where the login itself is refused it says where the key came from."""

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
    """The failure that `text` tells of, with vibe's own `code` and the vendor's `status` where they
    are told. `began` says that the vendor had begun to answer: what breaks off then is a cut. `now`
    is None before anything was asked, when nothing can be told of a limit."""
    status = status or http_status(text)
    if _is_refused_at_the_door(text, status):
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


def _is_refused_at_the_door(text: str, status: int | None) -> bool:
    """Whether it is a 403, which is a page or a block in front of the vendor: a login that is
    refused gets a 401."""
    if status == 403:
        return classify(text, PATTERNS) in (None, ErrorCode.AUTH_MISSING) or is_blocked(text)
    return status is None and _FORBIDDEN.search(text) is not None


def _error_code(text: str, code: str | None, status: int | None) -> ErrorCode:
    known = CODES.get(code or "")
    said = classify(text, PATTERNS)
    # The vendor's 429 is the same for a plan that is used up, unless its words say so.
    if known in (None, ErrorCode.RATE_LIMITED) and said is ErrorCode.QUOTA_EXHAUSTED:
        known = said
    if found := known or said or by_status(status):
        return found
    broken = is_transport_fault(text) or _BROKEN_STREAM.search(text) is not None
    if status is None and (broken or code == BACKEND):
        return ErrorCode.SPAWN_FAILED
    return ErrorCode.UNKNOWN
