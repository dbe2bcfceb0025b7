"""aider: options in `.aider.conf.yml`, and the model's properties in a second file.

The prefix `openai/` selects the OpenAI API. Without the second file aider knows nothing about the
model: no images, no limits, and a warning at each start.
"""

from __future__ import annotations

from typing import Any

from olp.connect import jsonc, yamltext
from olp.connect.base import Client, ClientFile, Snippet, Target

_EDITS = {"edit-format": "diff"}
"""The format aider uses for models it knows to be good. With others it rewrites whole files."""


def _fields(target: Target) -> dict[str, str]:
    return {
        "openai-api-base": target.base,
        "openai-api-key": target.key,
        "model": f"openai/{target.model}",
    }


def _facts(target: Target) -> dict[str, Any]:
    return {
        "litellm_provider": "openai",
        "mode": "chat",
        "max_input_tokens": target.context,
        "max_output_tokens": target.output,
        "supports_vision": target.sees,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
    }


def _merge(old: str, target: Target) -> str:
    return yamltext.set_keys(old, _fields(target), _EDITS)


def _merge_facts(old: str, target: Target) -> str:
    return jsonc.set_in(old, (f"openai/{target.model}",), _facts(target))


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet("~/.aider.conf.yml, or the one of a project", "yaml", _merge("", target)),
        Snippet("~/.aider.model.metadata.json", "json", _merge_facts("", target)),
    )


CLIENT = Client(
    "aider",
    "aider",
    _snippets,
    files=(
        ClientFile({"linux": ("~",)}, (".aider.conf.yml",), _merge),
        ClientFile({"linux": ("~",)}, (".aider.model.metadata.json",), _merge_facts, False),
    ),
)
