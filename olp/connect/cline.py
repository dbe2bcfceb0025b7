"""Cline: the command `cline` has a file of providers, the extension uses the editor's settings."""

from __future__ import annotations

from olp.connect import jsonc
from olp.connect.base import PATIENCE_S, Client, ClientFile, Snippet, Target, values

_EMPTY = '{\n  "version": 1,\n  "modes": {},\n  "providers": {}\n}\n'
_KIND = "openai-compatible"
_WRITTEN = "2026-01-01T00:00:00.000Z"
"""Timestamp of the entry, which Cline requires. It is constant, so that an unchanged entry gives an
unchanged file.
"""


def _merge(old: str, target: Target) -> str:
    settings = {
        "provider": _KIND,
        "apiKey": target.key,
        "model": target.model,
        "baseUrl": target.base,
        "contextWindow": target.context,
        "timeout": PATIENCE_S * 1000,
    }
    entry = {"settings": settings, "updatedAt": _WRITTEN, "tokenSource": "manual"}
    new = jsonc.set_in(old if old.strip() else _EMPTY, ("providers", _KIND), entry)
    return jsonc.set_default(new, ("lastUsedProvider",), _KIND)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    fields = values(
        API_Provider="OpenAI Compatible",
        Base_URL=target.base,
        API_Key=target.key,
        Model_ID=target.model,
        Context_Window_Size=str(target.context),
        Supports_Images="yes" if target.sees else "no",
    )
    return (
        Snippet("the extension: the gear of its panel, API Configuration", "values", fields),
        Snippet(
            "the program cline: ~/.cline/data/settings/providers.json", "json", _merge("", target)
        ),
        Snippet("and then", "sh", f"cline -P {_KIND} 'Say hello.'\n"),
    )


CLIENT = Client(
    "cline",
    "Cline",
    _snippets,
    notes=(
        "`--write` is for the program `cline`; enter the extension's settings by hand.",
        "Attach a file by its path: `cline 'What is this? @./picture.png'`.",
    ),
    files=(
        ClientFile(
            {
                "linux": (
                    "$CLINE_DATA_DIR/settings",
                    "$CLINE_DIR/data/settings",
                    "~/.cline/data/settings",
                )
            },
            ("providers.json",),
            _merge,
        ),
    ),
)
