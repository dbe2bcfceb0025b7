"""Continue: a model in `config.yaml`."""

from __future__ import annotations

from olp.connect import yamltext
from olp.connect.base import Client, ClientFile, Snippet, Target

_HEAD = ("name: My models", "version: 1.0.0", "schema: v1")
"""What every `config.yaml` must begin with."""


def _merge(old: str, target: Target) -> str:
    fields = {
        "name": "OLP",
        "provider": "openai",
        "model": target.model,
        "apiBase": target.base,
        "apiKey": target.key,
        "roles": ("chat", "edit", "apply"),
        "capabilities": ("tool_use", "image_input"),
    }
    return yamltext.put_item(old, fields, under="models", head=_HEAD)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (Snippet("~/.continue/config.yaml", "yaml", _merge("", target)),)


CLIENT = Client(
    "continue",
    "Continue",
    _snippets,
    file=ClientFile({"linux": ("~/.continue/config.yaml",)}, _merge),
)
