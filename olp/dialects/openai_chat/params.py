"""What the parameters of a chat completion mean here: honoured, ignored and said so, or refused.

Nothing is dropped in silence. A parameter that would change what the client gets and cannot be
honoured is refused with its name; one that only colours the answer is listed in a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from olp.errors import RequestError

HONOURED = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "reasoning_effort",
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
    }
)


def _truthy(value: Any) -> bool:
    return bool(value)


_REFUSED: Mapping[str, tuple[Any, str]] = {
    "n": (lambda value: value != 1, "only one answer to a request can be given (n = 1)"),
    "logprobs": (_truthy, "no CLI reports log probabilities"),
    "top_logprobs": (_truthy, "no CLI reports log probabilities"),
    "audio": (_truthy, "audio output is not supported"),
    "modalities": (lambda value: value != ["text"], "only the modality 'text' is supported"),
    "web_search_options": (lambda value: value is not None, "web search is switched off"),
}


def refuse_unsupported(body: Mapping[str, Any]) -> None:
    """RequestError 400 for the first parameter that asks for what cannot be given."""
    for name, (asks, reason) in _REFUSED.items():
        value = body.get(name)
        if value is not None and asks(value):
            raise RequestError(
                f"Unsupported parameter {name!r}: {reason}.",
                code="unsupported_parameter",
                param=name,
            )


def ignored(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters that were given and have no effect, sorted."""
    given = {name for name, value in body.items() if value is not None}
    return tuple(sorted(given - HONOURED - _REFUSED.keys()))
