"""Zed: a provider in `settings.json`. Keys are in the system's keychain, not in the file."""

from __future__ import annotations

from olp.connect import jsonc
from olp.connect.base import Client, ClientFile, Snippet, Target


def _merge(old: str, target: Target) -> str:
    provider = {
        "api_url": target.base,
        "available_models": [
            {
                "name": target.model,
                "display_name": f"OLP {target.model}",
                "max_tokens": target.context,
                "max_output_tokens": target.output,
                "capabilities": {"tools": True, "images": target.sees},
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
    files=(
        ClientFile(
            {
                "linux": ("$XDG_CONFIG_HOME/zed", "~/.config/zed"),
                "darwin": ("~/.config/zed",),
                "win32": ("$APPDATA/Zed", "~/Zed"),
            },
            ("settings.json",),
            _merge,
            holds_key=False,
        ),
    ),
)
