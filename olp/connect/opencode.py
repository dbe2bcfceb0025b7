"""opencode: a provider in `opencode.json`, in a form that both of its versions read.

Images are only sent to a model described as accepting them, and long conversations are only
compacted for a model with a limit.
"""

from __future__ import annotations

from olp.connect import jsonc
from olp.connect.base import PATIENCE_S, Client, ClientFile, Snippet, Target

_SCHEMA = '{\n  "$schema": "https://opencode.ai/config.json"\n}\n'


def _merge(old: str, target: Target) -> str:
    model = {
        "name": f"OLP {target.model}",
        "tool_call": True,
        "attachment": target.sees,
        "modalities": {"input": target.inputs, "output": ["text"]},
        "limit": {"context": target.context, "output": target.output},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "OLP",
        "options": {
            "baseURL": target.base,
            "apiKey": target.key,
            "timeout": PATIENCE_S * 1000,
        },
        "models": {target.model: model},
    }
    return jsonc.set_in(old if old.strip() else _SCHEMA, ("provider", "olp"), provider)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet("~/.config/opencode/opencode.json", "json", _merge("", target)),
        Snippet("and then", "sh", f"opencode run -m olp/{target.model} 'Say hello.'\n"),
    )


CLIENT = Client(
    "opencode",
    "opencode",
    _snippets,
    files=(
        ClientFile(
            {"linux": ("$XDG_CONFIG_HOME/opencode", "~/.config/opencode")},
            ("opencode.json", "opencode.jsonc"),
            _merge,
        ),
    ),
)
