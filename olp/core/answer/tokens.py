"""A rough count of tokens, for what a CLI does not count itself.

No vendor's tokenizer is at hand, and the four of them differ; four bytes of UTF-8 to a token is
the usual estimate. It is used where a CLI has no limit of its own, and where a process was ended
before it could report.
"""

from __future__ import annotations

import json

from olp.model import Request

BYTES_PER_TOKEN = 4

MEDIA_TOKENS = 1000
"""Tokens that an image or a file is reckoned at."""


def estimate(text: str) -> int:
    """About how many tokens `text` has; 0 only for no text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def asked(request: Request) -> int:
    """About how many tokens a request has, its tools, calls and images too."""
    count = sum(estimate(message.text) for message in request.messages)
    count += sum(estimate(call.arguments) for m in request.messages for call in m.calls)
    count += sum(estimate(json.dumps(tool.parameters)) for tool in request.tools)
    return count + sum(MEDIA_TOKENS * len(message.media) for message in request.messages)


TYPICAL_ANSWER = 1000
"""Tokens that an answer is reckoned at before it is there."""


def likely(request: Request) -> int:
    """About how many tokens a request and its answer will have, as far as can be told before."""
    limit = TYPICAL_ANSWER if request.max_tokens is None else request.max_tokens
    return asked(request) + min(limit, TYPICAL_ANSWER)


def cut(text: str, size: int) -> str:
    """The start of `text` that is at most `size` bytes of UTF-8, cut between characters."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
