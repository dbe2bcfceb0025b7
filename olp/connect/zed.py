"""Zed: a provider in `settings.json`. Zed keeps keys in the system's keychain, not in the file."""

from __future__ import annotations

from olp.connect import jsonc
from olp.connect.base import Client, ClientFile, Snippet, Target

CONTEXT_TOKENS = 200_000
"""What Zed cuts a conversation to. The smallest window of the models behind `auto`."""


def _merge(old: str, target: Target) -> str:
    provider = {
        "api_url": target.base,
        "available_models": [
            {
                "name": target.model,
                "display_name": f"OLP {target.model}",
                "max_tokens": CONTEXT_TOKENS,
                "capabilities": {"tools": True, "images": True},
            }
        ],
    }
    return jsonc.set_in(old, ("language_models", "openai_compatible", "olp"), provider)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet("~/.config/zed/settings.json", "json", _merge("", target)),
        Snippet(
            "agent: open settings, LLM Providers, olp",
            "values",
            f"API key: {target.key}\n",
        ),
    )


CLIENT = Client(
    "zed",
    "Zed",
    _snippets,
    notes=(
        "The key is typed into Zed, or taken from the variable OLP_API_KEY of the environment "
        "that Zed is started in.",
    ),
    file=ClientFile(
        {
            "linux": ("~/.config/zed/settings.json",),
            "win32": ("%APPDATA%/Zed/settings.json",),
        },
        _merge,
        holds_key=False,
    ),
)
