"""opencode: a provider in `opencode.json`. Both of its versions read this form."""

from __future__ import annotations

from olp.connect import jsonc
from olp.connect.base import Client, ClientFile, Snippet, Target

_SCHEMA = '{\n  "$schema": "https://opencode.ai/config.json"\n}\n'
_FOLDER = "~/.config/opencode"


def _merge(old: str, target: Target) -> str:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "OLP",
        "options": {"baseURL": target.base, "apiKey": target.key},
        "models": {target.model: {"name": f"OLP {target.model}", "tool_call": True}},
    }
    return jsonc.set_in(old if old.strip() else _SCHEMA, ("provider", "olp"), provider)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet(f"{_FOLDER}/opencode.json", "json", _merge("", target)),
        Snippet("and then", "sh", f"opencode run -m olp/{target.model} 'Say hello.'\n"),
    )


CLIENT = Client(
    "opencode",
    "opencode",
    _snippets,
    file=ClientFile(
        {"linux": (f"{_FOLDER}/opencode.json", f"{_FOLDER}/opencode.jsonc")},
        _merge,
    ),
)
