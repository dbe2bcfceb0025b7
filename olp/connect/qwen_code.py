"""Qwen Code: a provider in `settings.json` under its own name, so that others are kept."""

from __future__ import annotations

from olp.connect import jsonc
from olp.connect.base import PATIENCE_S, Client, ClientFile, Snippet, Target

_KEY = "OLP_API_KEY"


def _merge(old: str, target: Target) -> str:
    model = {
        "id": target.model,
        "name": f"OLP {target.model}",
        "baseUrl": target.base,
        "envKey": _KEY,
        "generationConfig": {
            "timeout": PATIENCE_S * 1000,
            "contextWindowSize": target.context,
            "modalities": {"image": target.sees},
        },
    }
    new = jsonc.set_in(old, ("modelProviders", "olp"), [model])
    new = jsonc.set_in(new, ("providerProtocol", "olp"), "openai")
    new = jsonc.set_in(new, ("env", _KEY), target.key)
    if not _is_free(old):
        return new
    new = jsonc.set_in(new, ("security", "auth", "selectedType"), "openai")
    return jsonc.set_in(new, ("model", "name"), target.model)


def _is_free(old: str) -> bool:
    """Whether no model other than ours was chosen as the default."""
    settings = jsonc.parse(old) if old.strip() else {}
    chosen = settings.get("model", {}).get("name") if "model" in settings else None
    known = settings.get("modelProviders", {}).get("olp", ())
    return ("security" not in settings and chosen is None) or chosen in [m["id"] for m in known]


def _snippets(target: Target) -> tuple[Snippet, ...]:
    command = f"qwen --auth-type openai --model {target.model}\n"
    return (
        Snippet("~/.qwen/settings.json", "json", _merge("", target)),
        Snippet("and then", "sh", command),
    )


CLIENT = Client(
    "qwen-code",
    "Qwen Code",
    _snippets,
    notes=(
        "A variable OLP_API_KEY of the environment counts before the key in the file.",
        "Where the file chooses another model already, `/model` in Qwen Code chooses this one.",
    ),
    files=(ClientFile({"linux": ("$QWEN_HOME", "~/.qwen")}, ("settings.json",), _merge),),
    also=("qwen",),
)
