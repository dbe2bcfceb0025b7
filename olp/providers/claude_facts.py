"""What is known of Claude Code: how it is made safe and lean, and what its failures say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from olp.events import Trouble, Usage
from olp.model import Ability
from olp.providers.base import OPENING_S, Facts
from olp.providers.notices import Patterns

FACTS = Facts(
    name="claude",
    rank=1,
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code@latest",
    login="claude auth login",
    tested=("2.1.300", "2.1.332"),
    models=("sonnet", "opus", "haiku"),
    aliases=("sonnet", "opus", "haiku"),
    keeps_max_tokens=True,
    user_login=(".claude/.credentials.json",),
    passes=("CLAUDE_CODE_OAUTH_TOKEN",),
    opening_s=OPENING_S,
    windows=("five_hour", "seven_day", "credits"),
    can=tuple(Ability),
)

FLAGS = (
    *("-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose"),
    *("--tools", "", "--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"),
    *("--no-session-persistence", "--permission-mode", "dontAsk"),
)

QUIET = {
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "MAX_STRUCTURED_OUTPUT_RETRIES": "1",  # counts the first one, too
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_MODEL_ACCESS_FALLBACK": "1",
    "CLAUDE_CODE_NO_MODEL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    "DISABLE_AUTO_COMPACT": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}

_DAY_MS = "86400000"

BRIDGE = {
    "ENABLE_TOOL_SEARCH": "false",
    "ENABLE_MCP_LARGE_OUTPUT_FILES": "false",
    "MAX_MCP_OUTPUT_TOKENS": "10000000",
    "CLAUDE_CODE_MAX_MCP_DESCRIPTION_LENGTH": "1000000",
    "CLAUDE_CODE_DISABLE_MCP_TASKS": "1",
    "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "0",
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": _DAY_MS,
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": _DAY_MS,
    "MCP_TOOL_TIMEOUT": _DAY_MS,
}
"""The client's tools as they are: neither their texts nor their results are cut or put into files,
and a call waits for as long as OLP does."""

MAX_SCHEMA_ARG = 32_000
"""Bytes of a JSON Schema that may stand in argv, well under Linux's 128 KiB for one argument."""

SCHEMA_TOOL = "StructuredOutput"

PATTERNS: Patterns = (
    (r"not your usage limit|temporarily limiting requests", Trouble.RATE_LIMITED),
    (r"^you've (hit|reached) your\b.*\blimit", Trouble.QUOTA_EXHAUSTED),
    (r"^you're out of (extra )?usage|^your org is out of usage", Trouble.QUOTA_EXHAUSTED),
    (r"^claude ai usage limit reached|^\d+-hour limit reached", Trouble.QUOTA_EXHAUSTED),
    (r"credit balance is too low|usage credits required", Trouble.QUOTA_EXHAUSTED),
    (r"requires usage credits|spend(ing)? limit", Trouble.QUOTA_EXHAUSTED),
    (r"your seat type doesn't include|usage allocation has been disabled", Trouble.QUOTA_EXHAUSTED),
    (r"your group's usage limit is set to", Trouble.QUOTA_EXHAUSTED),
    (r"please run /login|not logged in|invalid api key|oauth token", Trouble.AUTH_MISSING),
    (r"failed to authenticate|could not resolve authentication", Trouble.AUTH_MISSING),
    (r"disabled claude subscription access|disabled organization", Trouble.AUTH_MISSING),
    (r"prompt is too long|request too large", Trouble.CONTEXT_TOO_LONG),
    (r"^(image was|pdf) too large|^api error: .* can't help with this", Trouble.BAD_REQUEST),
    (r"issue with the selected model|is not available with the claude", Trouble.MODEL_NOT_FOUND),
    (r"unrecognized_model", Trouble.MODEL_NOT_FOUND),
    (r"request rejected \(429\)", Trouble.RATE_LIMITED),
    (r"overloaded|api error: 5\d\d", Trouble.OVERLOADED),
    (r"request timed out|may be incomplete|connection error", Trouble.SPAWN_FAILED),
    (r"isn't available in this environment", Trouble.SPAWN_FAILED),
)

KINDS = {
    "rate_limit": Trouble.RATE_LIMITED,
    "billing_error": Trouble.QUOTA_EXHAUSTED,
    "authentication_failed": Trouble.AUTH_MISSING,
    "oauth_org_not_allowed": Trouble.AUTH_MISSING,
    "account_on_hold": Trouble.AUTH_MISSING,
    "model_not_found": Trouble.MODEL_NOT_FOUND,
    "overloaded": Trouble.OVERLOADED,
    "server_error": Trouble.OVERLOADED,
    "invalid_request": Trouble.BAD_REQUEST,
}

MODEL_LIMITS = ("seven_day_opus", "seven_day_sonnet")


def usage_of(usage: Mapping[str, Any], cost: float | None = None) -> Usage:
    """The tokens that a message or a result tells of."""
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    details = usage.get("output_tokens_details") or {}
    return Usage(
        input=(usage.get("input_tokens") or 0) + cached + written,
        output=usage.get("output_tokens") or 0,
        cached=cached,
        cache_written=written,
        reasoning=details.get("thinking_tokens") or 0,
        cost=cost,
    )
