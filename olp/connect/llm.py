"""The command `llm`: an entry in `extra-openai-models.yaml`, and the key in its key store."""

from __future__ import annotations

from olp.connect import jsonc, yamltext
from olp.connect.base import Client, ClientFile, Snippet, Target

_APP = "io.datasette.llm"
_FILE = "extra-openai-models.yaml"
_FOLDERS = {
    "linux": ("$LLM_USER_PATH", f"$XDG_CONFIG_HOME/{_APP}", f"~/.config/{_APP}"),
    "darwin": ("$LLM_USER_PATH", f"~/Library/Application Support/{_APP}"),
    "win32": ("$LLM_USER_PATH", f"$APPDATA/{_APP}", f"~/{_APP}"),
}
_STORE = '{\n  "// Note": "This file stores secret API credentials. Do not share!"\n}\n'
"""The initial content of llm's key store."""


def _merge(old: str, target: Target) -> str:
    fields: dict[str, yamltext.Value] = {
        "model_id": "olp",
        "model_name": target.model,
        "api_base": target.base,
        "api_key_name": "olp",
        "supports_tools": True,
        "supports_schema": True,
        "vision": target.sees,
    }
    return yamltext.put_item(old, fields, under=None)


def _merge_key(old: str, target: Target) -> str:
    return jsonc.set_in(old if old.strip() else _STORE, ("olp",), target.key)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return (
        Snippet(f"~/.config/{_APP}/{_FILE}", "yaml", _merge("", target)),
        Snippet("a terminal; it asks for the key", "sh", "llm keys set olp\n"),
        Snippet("and then", "sh", "llm -m olp 'Say hello.'\n"),
    )


CLIENT = Client(
    "llm",
    "llm (the command line tool)",
    _snippets,
    notes=(
        'Where the file belongs on your system: `dirname "$(llm logs path)"`.',
        "`llm keys set olp` wants a key in any case; with keys off, type anything. `--write` puts "
        "it there as well.",
    ),
    files=(
        ClientFile(_FOLDERS, (_FILE,), _merge, holds_key=False),
        ClientFile(_FOLDERS, ("keys.json",), _merge_key),
    ),
)
