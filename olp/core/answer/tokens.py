"""Token estimates, for limits that a CLI does not enforce and usage that it did not report.

The vendors' tokenizers differ and are not available here; the usual estimate is four bytes of UTF-8
per token.
"""

from __future__ import annotations

import json

from olp.model import Request

BYTES_PER_TOKEN = 4

MEDIA_TOKENS = 1000
"""Estimated tokens of an image or a file."""


def estimate(text: str) -> int:
    """Estimated tokens of `text`; 0 only for empty text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def asked(request: Request) -> int:
    """Estimated tokens of a request, with tools, calls and images."""
    count = sum(estimate(message.text) for message in request.messages)
    count += sum(estimate(call.arguments) for m in request.messages for call in m.calls)
    count += sum(estimate(json.dumps(tool.parameters)) for tool in request.tools)
    return count + sum(MEDIA_TOKENS * len(message.media) for message in request.messages)


TYPICAL_ANSWER = 1000
"""Tokens assumed for an answer in advance."""


def likely(request: Request) -> int:
    """Estimated tokens of a request and its answer, in advance."""
    limit = TYPICAL_ANSWER if request.max_tokens is None else request.max_tokens
    return asked(request) + min(limit, TYPICAL_ANSWER)


def cut(text: str, size: int) -> str:
    """Cut `text` to at most `size` bytes of UTF-8, between characters."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
