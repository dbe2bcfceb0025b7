"""A rough count of tokens, for what a CLI does not count itself.

No vendor's tokenizer is at hand, and the four of them differ; four bytes of UTF-8 to a token is
the usual estimate. It is used where a CLI has no limit of its own, and where a process was ended
before it could report.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate(text: str) -> int:
    """About how many tokens `text` has; 0 only for no text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def cut(text: str, size: int) -> str:
    """The start of `text` that is at most `size` bytes of UTF-8, cut between characters."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
