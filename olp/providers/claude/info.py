"""Static facts about Claude Code, and the settings that make it safe and lean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from olp.events import Usage
from olp.model import PRIVATE_DIR, Capability
from olp.providers.base import OPENING_S, ProviderInfo
from olp.providers.shared.wire import count, table

INFO = ProviderInfo(
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
    can=tuple(Capability),
)

FLAGS = (
    *("-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose"),
    *("--tools", "", "--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"),
    *("--no-session-persistence", "--permission-mode", "dontAsk"),
)

QUIET = {
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "MAX_STRUCTURED_OUTPUT_RETRIES": "1",  # includes the first attempt
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

ELSEWHERE = {"CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1"}
"""Set when the owner configured another base URL: on an unknown 400 the CLI would ask that endpoint
again, dropping one of its betas each time.
"""

PLACES = {
    **dict.fromkeys(("TMPDIR", "CLAUDE_CODE_TMPDIR", "XDG_RUNTIME_DIR"), PRIVATE_DIR),
    "CLAUDE_CODE_PLUGIN_CACHE_DIR": f"{PRIVATE_DIR}/plugins",
}
"""Temporary files, the plugin store, and the socket on which a process takes messages from other
processes of its user. All lie in the run folder, which is private and deleted afterwards.
"""

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
"""Settings for the client's tools: descriptions and results are neither truncated nor moved to
files, and a call may wait as long as OLP does.
"""

MAX_SCHEMA_ARG = 32_000
"""Bytes of a JSON Schema passed in argv, well under Linux's 128 KiB limit for one argument."""

SCHEMA_TOOL = "StructuredOutput"


def usage_of(usage: Mapping[str, Any], cost: float | None = None) -> Usage:
    """Token counts from a `usage` object of a message or a result."""
    cached = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input=count(usage.get("input_tokens")) + cached + written,
        output=count(usage.get("output_tokens")),
        cached=cached,
        cache_written=written,
        reasoning=count(table(usage.get("output_tokens_details")).get("thinking_tokens")),
        cost=cost if cost is not None and cost >= 0 else None,
    )
