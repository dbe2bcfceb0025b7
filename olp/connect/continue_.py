"""Continue: a model in `config.yaml`, shared by its extensions and its command `cn`."""

from __future__ import annotations

from olp.connect import yamltext
from olp.connect.base import Client, ClientFile, Snippet, Target

_HEAD = ("name: My models", "version: 1.0.0", "schema: v1")
"""Required at the beginning of every `config.yaml`."""


def _merge(old: str, target: Target) -> str:
    fields: dict[str, yamltext.Value] = {
        "name": "OLP",
        "provider": "openai",
        "model": target.model,
        "apiBase": target.base,
        "apiKey": target.key,
        "roles": ("chat", "edit", "apply"),
        "capabilities": ("tool_use", "image_input") if target.sees else ("tool_use",),
        "defaultCompletionOptions": {"contextLength": target.context, "maxTokens": target.output},
    }
    return yamltext.put_item(old, fields, under="models", head=_HEAD)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet("~/.continue/config.yaml", "yaml", _merge("", target)),
        Snippet("and then, in a terminal", "sh", "cn -p 'Say hello.'\n"),
    )


CLIENT = Client(
    "continue",
    "Continue, its program cn included",
    _snippets,
    notes=("`cn` takes images from the clipboard in its window, and none with `-p`.",),
    files=(
        ClientFile(
            {"linux": ("$CONTINUE_GLOBAL_DIR", "~/.continue")},
            ("config.yaml",),
            _merge,
        ),
    ),
    also=("cn",),
)
