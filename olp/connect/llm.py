"""The command `llm`: an entry in `extra-openai-models.yaml`, and the key in its own store."""

from __future__ import annotations

from olp.connect import yamltext
from olp.connect.base import Client, ClientFile, Snippet, Target

_FILE = "io.datasette.llm/extra-openai-models.yaml"


def _merge(old: str, target: Target) -> str:
    fields = {
        "model_id": "olp",
        "model_name": target.model,
        "api_base": target.base,
        "api_key_name": "olp",
    }
    return yamltext.put_item(old, fields, under=None)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet(f"~/.config/{_FILE}", "yaml", _merge("", target)),
        Snippet("a terminal; it asks for the key", "sh", "llm keys set olp\n"),
        Snippet("and then", "sh", "llm -m olp 'Say hello.'\n"),
    )


CLIENT = Client(
    "llm",
    "llm (the command line tool)",
    _snippets,
    notes=(
        'Where the file belongs on your system: `dirname "$(llm logs path)"`.',
        "`llm keys set olp` wants a key in any case; with keys off, type anything.",
    ),
    file=ClientFile(
        {
            "linux": (f"~/.config/{_FILE}",),
            "darwin": (f"~/Library/Application Support/{_FILE}",),
            "win32": (f"%APPDATA%/{_FILE}",),
        },
        _merge,
        holds_key=False,
    ),
)
