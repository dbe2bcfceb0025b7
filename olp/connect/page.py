"""The page at `/connect`: connection instructions for users with a key.

It has no script, loads nothing, and its only style sheet is allowed by hash, so that nothing else
could run or be displayed even if a text were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from olp.connect.base import ANY_KEY, Client, Target

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }
pre { background: #f3f3f3; padding: .8rem; overflow-x: auto; border-radius: 4px; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
dt { font-weight: 600; } dd { margin: 0 0 .6rem; } .where { color: #555; margin-bottom: .2rem; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b; } pre { background: #2a2a2a; } .where { color: #aaa; }
}
"""

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Response headers for the page."""


def page(target: Target, models: Sequence[str], clients: Iterable[Client], *, name: str) -> str:
    """The whole document. `name` is the name of the key, empty where none is needed."""
    return "".join(_document(target, models, clients, name))


def _document(
    target: Target, models: Sequence[str], clients: Iterable[Client], name: str
) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>Connect to OLP</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    yield "<h1>Connect to OLP</h1>\n"
    if name:
        yield f"<p>Hello {escape(name)}.</p>\n"
    yield f"<dl>\n<dt>Base URL</dt><dd><code>{escape(target.base)}</code></dd>\n"
    free = target.key == ANY_KEY
    key = "none is needed; type anything" if free else "the one that you were given"
    yield f"<dt>API key</dt><dd>{key}</dd>\n<dt>Models</dt><dd>"
    yield ", ".join(f"<code>{escape(model)}</code>" for model in models)
    yield "</dd>\n</dl>\n<h2>Programs</h2>\n"
    for client in clients:
        yield from _client(client, target)
    yield "</body>\n</html>\n"


def _client(client: Client, target: Target) -> Iterator[str]:
    yield f"<details>\n<summary>{escape(client.title)}</summary>\n"
    for text in filter(None, (client.cannot, client.warning)):
        yield f"<p><strong>{escape(text)}</strong></p>\n"
    for snippet in client.snippets(target):
        yield f'<p class="where">{escape(snippet.where)}</p>\n<pre>{escape(snippet.text)}</pre>\n'
    for note in client.notes:
        yield f"<p>{escape(note)}</p>\n"
    yield "</details>\n"
