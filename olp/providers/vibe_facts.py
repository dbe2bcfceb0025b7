"""What is known of Vibe, and what its failures say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from olp.events import Failed, Trouble
from olp.model import Ability
from olp.providers.base import Facts, login_hint
from olp.providers.notices import (
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

FACTS = Facts(
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
    can=(Ability.TOOLS, Ability.IMAGES, Ability.SCHEMA, Ability.EFFORT),
    inert_tools=(*OWN_TOOLS, "search_tool_functions"),
)

HARMLESS_ENTRIES = ("message", "notice", "checkpoint")
"""Entries of its history that do nothing. Of what nobody knows it is taken that it may."""

CODES: Mapping[str, Trouble] = {
    "rate_limit": Trouble.RATE_LIMITED,
    "context_too_long": Trouble.CONTEXT_TOO_LONG,
    "compaction_failed": Trouble.CONTEXT_TOO_LONG,
    "invalid_api_key": Trouble.AUTH_MISSING,
    "unauthorized": Trouble.AUTH_MISSING,
    "invalid_model": Trouble.MODEL_NOT_FOUND,
    "incomplete_stream": Trouble.SPAWN_FAILED,
    "refusal": Trouble.BAD_REQUEST,
    "invalid_image_attachment": Trouble.BAD_REQUEST,
    "images_not_supported": Trouble.INCAPABLE,
}
"""What its code of an error says by itself, the same in all its ways of being started."""

BACKEND = "backend_error"
"""Its code for a request to the vendor that went wrong, whatever the reason."""

_FORBIDDEN = re.compile(r"invalid api key\. please", re.IGNORECASE)
"""What it makes of any 403. Where the login itself is refused it says where the key came from."""

PATTERNS: Patterns = (
    (r"missing \S+ environment variable|invalid api key|unauthorized", Trouble.AUTH_MISSING),
    (r"spending limit|payment_required|quota|out of credits", Trouble.QUOTA_EXHAUSTED),
    (r"monthly (usage )?limit|usage limit", Trouble.QUOTA_EXHAUSTED),
    (
        r"piped prompt exceeds|too large for model with|maximum context length",
        Trouble.CONTEXT_TOO_LONG,
    ),
    (r"invalid_model|invalid model|not found in configuration", Trouble.MODEL_NOT_FOUND),
    (r"is not available on \S+\.\s+switch to another", Trouble.MODEL_NOT_FOUND),
    (r"conflicts with a built-in|valid typescript identifier", Trouble.INCAPABLE),
    (r"tool vibe cannot offer", Trouble.INCAPABLE),
    (r"image is too large", Trouble.INCAPABLE),
    (r"rate limit", Trouble.RATE_LIMITED),
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
        trouble, status = Trouble.SPAWN_FAILED, 403
        text = "Mistral answered with status 403: it, or what stands before it, blocks this server"
    else:
        trouble = _trouble(text, code, status)
    if trouble is Trouble.AUTH_MISSING:
        return Failed(trouble, login_hint(FACTS), status)
    if trouble is Trouble.SPAWN_FAILED and began:
        trouble = Trouble.VENDOR_CUT
    limited = trouble in (Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)
    resets_at = reset_time(text, now) if limited and now is not None else None
    return Failed(trouble, plain(text), status, resets_at)


def _is_refused_at_the_door(text: str, status: int | None) -> bool:
    """Whether it is a 403, which is a page or a block in front of the vendor: a login that is
    refused gets a 401."""
    if status == 403:
        return classify(text, PATTERNS) in (None, Trouble.AUTH_MISSING) or is_blocked(text)
    return status is None and _FORBIDDEN.search(text) is not None


def _trouble(text: str, code: str | None, status: int | None) -> Trouble:
    known = CODES.get(code or "")
    said = classify(text, PATTERNS)
    # The vendor's 429 is the same for a plan that is used up, unless its words say so.
    if known in (None, Trouble.RATE_LIMITED) and said is Trouble.QUOTA_EXHAUSTED:
        known = said
    if found := known or said or by_status(status):
        return found
    broken = is_transport_fault(text) or _BROKEN_STREAM.search(text) is not None
    if status is None and (broken or code == BACKEND):
        return Trouble.SPAWN_FAILED
    return Trouble.UNKNOWN
