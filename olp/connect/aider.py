"""aider: options in `.aider.conf.yml`. The prefix `openai/` makes it speak the OpenAI API."""

from __future__ import annotations

from olp.connect import yamltext
from olp.connect.base import Client, ClientFile, Snippet, Target


def _fields(target: Target) -> dict[str, str]:
    return {
        "openai-api-base": target.base,
        "openai-api-key": target.key,
        "model": f"openai/{target.model}",
    }


def _snippets(target: Target) -> tuple[Snippet, ...]:
    text = yamltext.set_keys("", _fields(target))
    return (Snippet("~/.aider.conf.yml, or the one of a project", "yaml", text),)


def _merge(old: str, target: Target) -> str:
    return yamltext.set_keys(old, _fields(target))


CLIENT = Client(
    "aider",
    "aider",
    _snippets,
    notes=(
        "aider says that it does not know the model. That is harmless; "
        "`--no-show-model-warnings` silences it.",
    ),
    file=ClientFile({"linux": ("~/.aider.conf.yml",)}, _merge),
)
