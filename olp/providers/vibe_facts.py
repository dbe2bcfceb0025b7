"""What is known of Vibe, and what its failures say."""

from __future__ import annotations

from datetime import datetime

from olp.events import Failed, Trouble
from olp.model import Ability
from olp.providers.base import Facts, login_hint
from olp.providers.notices import Patterns, by_status, classify, http_status, plain, reset_time

FACTS = Facts(
    name="vibe",
    rank=3,
    title="Mistral Vibe",
    program="vibe",
    install="uv tool install mistral-vibe (or: pipx install mistral-vibe)",
    login="vibe --setup",
    tested=("2.26.0", "3.0.2"),
    models=("mistral-medium-3.5",),
    keeps_max_tokens=True,
    user_login=(".vibe/.env",),
    passes=("MISTRAL_API_KEY",),
    can=(Ability.TOOLS, Ability.IMAGES, Ability.SCHEMA, Ability.EFFORT),
    apart=((Ability.TOOLS, Ability.IMAGES),),
    inert_tools=(
        *("bash", "write_file", "edit", "read_file", "run_typescript", "skill"),
        "search_tool_functions",
    ),
)

PATTERNS: Patterns = (
    (r"missing \S+ environment variable|invalid api key|unauthorized", Trouble.AUTH_MISSING),
    (r"spending limit|payment_required|quota|out of credits", Trouble.QUOTA_EXHAUSTED),
    (r"monthly (usage )?limit|usage limit", Trouble.QUOTA_EXHAUSTED),
    (
        r"piped prompt exceeds|too large for model with|maximum context length",
        Trouble.CONTEXT_TOO_LONG,
    ),
    (r"invalid_model|invalid model|not found in configuration", Trouble.MODEL_NOT_FOUND),
    (r"conflicts with a built-in|valid typescript identifier", Trouble.INCAPABLE),
    (r"image is too large", Trouble.INCAPABLE),
    (r"rate limit", Trouble.RATE_LIMITED),
    (r"peer closed connection|incomplete chunked read|connection", Trouble.SPAWN_FAILED),
    (r"validation errors? for unmarshaller", Trouble.SPAWN_FAILED),
)


def explain(text: str, known: Trouble | None, now: datetime) -> Failed:
    """The failure that `text` tells of, as far as nothing better is `known`. The vendor's 429 is
    the same for a plan that is used up, unless its words say so."""
    status = http_status(text)
    said = classify(text, PATTERNS)
    if known in (None, Trouble.RATE_LIMITED) and said is Trouble.QUOTA_EXHAUSTED:
        known = said
    trouble = known or said or by_status(status) or Trouble.UNKNOWN
    if trouble is Trouble.AUTH_MISSING:
        return Failed(trouble, login_hint(FACTS), status)
    limited = trouble in (Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)
    return Failed(trouble, plain(text), status, reset_time(text, now) if limited else None)
