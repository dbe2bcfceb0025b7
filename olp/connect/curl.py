"""curl: a single test request."""

from __future__ import annotations

import json
import shlex

from olp.connect.base import Client, Snippet, Target


def _snippets(target: Target) -> tuple[Snippet, ...]:
    body = {
        "model": target.model,
        "stream": True,
        "messages": [{"role": "user", "content": "Say hello."}],
    }
    text = (
        f"curl -N {shlex.quote(target.base + '/chat/completions')} \\\n"
        f"  -H {shlex.quote('Authorization: Bearer ' + target.key)} \\\n"
        f"  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(json.dumps(body))}\n"
    )
    return (Snippet("a terminal", "sh", text),)


CLIENT = Client("curl", "curl", _snippets)
