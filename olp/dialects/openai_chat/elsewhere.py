"""Error messages for endpoints of other servers that OLP does not implement, with alternatives."""

from __future__ import annotations

from collections.abc import Mapping

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
"""By the first segment of the path after /v1."""


def absent(path: str) -> str | None:
    """What OLP offers instead of what other servers have at `path`."""
    words = [word for word in path.lower().split("/") if word]
    while words[:1] == ["v1"]:
        words = words[1:]
    return _UNKNOWN.get(words[0]) if words else None
