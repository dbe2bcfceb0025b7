"""Static facts about Codex."""

from __future__ import annotations

from olp.model import Capability
from olp.providers.base import ProviderInfo

INFO = ProviderInfo(
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
    can=(Capability.TOOLS, Capability.IMAGES, Capability.SCHEMA, Capability.EFFORT),
)

NO_SYSTEM = "You are a helpful assistant."
"""Used if the request has no system prompt: otherwise the CLI would send its own of 20 kB."""
