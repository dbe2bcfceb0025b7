"""Error messages for endpoints of other servers that OLP does not implement, with alternatives."""

from __future__ import annotations

from collections.abc import Mapping

_CHAT = "OLP answers chats alone, at POST /v1/chat/completions"
_NONE = "none of its CLIs can do that"

_UNKNOWN: Mapping[str, str] = {
    "embeddings": f"OLP makes no embeddings ({_NONE}): let your program ask another server for "
    "them, such as Ollama",
    "rerank": f"OLP ranks no documents ({_NONE})",
    "images": f"OLP makes no images ({_NONE}); it reads them, as parts of a chat's messages at "
    "POST /v1/chat/completions",
    "videos": f"OLP makes no videos ({_NONE})",
    "audio": f"OLP neither hears nor speaks ({_NONE}): let your program ask another server for it",
    "realtime": f"OLP neither hears nor speaks ({_NONE})",
    "moderations": f"OLP judges no texts ({_NONE}); a model can be asked to, at POST "
    "/v1/chat/completions",
    "responses": f"OLP does not speak the Responses API. {_CHAT}: in most programs that is the "
    "setting 'chat completions'",
    "completions": "OLP does not complete texts: send the prompt as a message to POST "
    "/v1/chat/completions",
    "engines": "OLP does not complete texts: send the prompt as a message to POST "
    "/v1/chat/completions",
    "messages": f"OLP does not speak Anthropic's API. {_CHAT}",
    "complete": f"OLP does not speak Anthropic's API. {_CHAT}",
    "api": f"OLP does not speak Ollama's API. {_CHAT}: give your program the type 'OpenAI "
    "compatible'",
    "v1beta": f"OLP does not speak Gemini's API. {_CHAT}",
    "files": "OLP keeps no files: send them along, as parts of a chat's messages at POST "
    "/v1/chat/completions",
    "uploads": "OLP keeps no files: send them along, as parts of a chat's messages at POST "
    "/v1/chat/completions",
    "vector_stores": f"OLP keeps no files, and searches none. {_CHAT}",
    "batches": f"OLP takes no batches: send the requests one by one. {_CHAT}",
    "fine_tuning": f"OLP trains no models ({_NONE})",
    "assistants": f"OLP keeps no assistants. {_CHAT}",
    "threads": f"OLP keeps no conversations: each request brings its own. {_CHAT}",
    "conversations": f"OLP keeps no conversations: each request brings its own. {_CHAT}",
    "evals": f"OLP runs no evaluations. {_CHAT}",
    "containers": f"OLP runs no code for anybody. {_CHAT}",
    "organization": "OLP knows keys and people, and no organizations: see `olp keys` and `olp "
    "usage` on its server",
}
"""By the first segment of the path after /v1."""


def absent(path: str) -> str | None:
    """What OLP offers instead of what other servers have at `path`."""
    words = [word for word in path.lower().split("/") if word]
    while words[:1] == ["v1"]:
        words = words[1:]
    return _UNKNOWN.get(words[0]) if words else None
