"""pi: a provider in `models.json`."""

from __future__ import annotations

from olp.connect import jsonc
from olp.connect.base import Client, ClientFile, Snippet, Target


def _merge(old: str, target: Target) -> str:
    model = {
        "id": target.model,
        "name": f"OLP {target.model}",
        "input": target.inputs,
        "contextWindow": target.context,
        "maxTokens": target.output,
    }
    provider = {
        "name": "OLP",
        "baseUrl": target.base,
        "api": "openai-completions",
        "apiKey": target.key,
        "models": [model],
    }
    return jsonc.set_in(old, ("providers", "olp"), provider)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet("~/.pi/agent/models.json", "json", _merge("", target)),
        Snippet("and then", "sh", f"pi --model olp/{target.model}\n"),
    )


CLIENT = Client(
    "pi",
    "pi (the coding agent)",
    _snippets,
    notes=("`/model` in pi chooses it, and Ctrl+S there makes it the default.",),
    files=(
        ClientFile(
            {"linux": ("$PI_CODING_AGENT_DIR", "~/.pi/agent")},
            ("models.json",),
            _merge,
        ),
    ),
)
