"""What programs ask of other servers and OLP does not do, each with what it does instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from olp.errors import RequestError
from olp.server import headers

_CHAT = "OLP serves only chat completions, at POST /v1/chat/completions"
_NONE = "no CLI supports this"

_UNKNOWN: Mapping[str, str] = {
    "embeddings": f"OLP has no embeddings ({_NONE}): use another server for them, such as Ollama",
    "rerank": f"OLP has no reranking ({_NONE})",
    "images": f"OLP generates no images ({_NONE}); it accepts them in chat messages at "
    "POST /v1/chat/completions",
    "videos": f"OLP generates no videos ({_NONE})",
    "audio": f"OLP has no audio ({_NONE}): use another server for it",
    "realtime": f"OLP has no audio ({_NONE})",
    "moderations": f"OLP has no moderation ({_NONE}); a model can be prompted for it at POST "
    "/v1/chat/completions",
    "responses": f"OLP does not support the Responses API. {_CHAT}: most programs have a "
    "setting 'chat completions'",
    "completions": "OLP has no text completions: send the prompt as a message to POST "
    "/v1/chat/completions",
    "engines": "OLP has no text completions: send the prompt as a message to POST "
    "/v1/chat/completions",
    "messages": f"OLP does not support Anthropic's API. {_CHAT}",
    "complete": f"OLP does not support Anthropic's API. {_CHAT}",
    "api": f"OLP does not support Ollama's API. {_CHAT}: set your program to 'OpenAI compatible'",
    "v1beta": f"OLP does not support Gemini's API. {_CHAT}",
    "files": "OLP stores no files: send them in chat messages at POST /v1/chat/completions",
    "uploads": "OLP stores no files: send them in chat messages at POST /v1/chat/completions",
    "vector_stores": f"OLP stores and searches no files. {_CHAT}",
    "batches": f"OLP has no batches: send single requests. {_CHAT}",
    "fine_tuning": f"OLP trains no models ({_NONE})",
    "assistants": f"OLP has no assistants. {_CHAT}",
    "threads": f"OLP stores no conversations: each request must contain its own. {_CHAT}",
    "conversations": f"OLP stores no conversations: each request must contain its own. {_CHAT}",
    "evals": f"OLP runs no evaluations. {_CHAT}",
    "containers": f"OLP runs no code. {_CHAT}",
    "organization": "OLP has keys and people, but no organizations: see `olp keys` and `olp "
    "usage` on its server",
}
"""By the first word of the path behind /v1."""


def nothing_at(path: str, known: Iterable[str]) -> RequestError:
    """The 404 for `path`. `known` are the paths that there are."""
    words = [word for word in path.lower().split("/") if word]
    while words[:1] == ["v1"]:
        words = words[1:]
    if words and words[0] in _UNKNOWN:
        return RequestError(f"{_UNKNOWN[words[0]]}.", status=404, code="unsupported_endpoint")
    near = difflib.get_close_matches(f"/v1/{'/'.join(words)}"[:256], list(known), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "the API is under /v1"
    told = f"there is nothing at {headers.safe(path, 80)}; {hint}"
    return RequestError(told, status=404, code="not_found")
