"""The X-OLP-Fallback-Detail header: the result of each hop, escaped for a header."""

from __future__ import annotations

import json
from collections.abc import Sequence

from olp.events import HopRecord

MESSAGE_LIMIT = 200
"""Characters of one error message, including the ellipsis."""

VALUE_LIMIT = 4096
"""Bytes of the whole header value, after escaping."""


def detail_value(records: Sequence[HopRecord]) -> str:
    """The header's value: a JSON array in ASCII, at most `VALUE_LIMIT` bytes.

    Records that do not fit are dropped from the end, and a last element counts them.
    """
    items = [_item(record) for record in records]
    kept = len(items)
    while True:
        value = _array(items[:kept], omitted=len(items) - kept)
        if len(value) <= VALUE_LIMIT or kept == 0:
            return value
        kept -= 1


def _array(items: Sequence[str], omitted: int) -> str:
    tail = [json.dumps({"truncated": True, "omitted_hops": omitted})] if omitted else []
    return f"[{','.join([*items, *tail])}]"


def _item(record: HopRecord) -> str:
    return json.dumps(
        {
            "hop": record.hop,
            "provider": record.provider,
            "model": record.model,
            "code": record.code,
            "error_message": _shorten(record.error_message),
            "trigger_type": record.trigger_type.value,
        },
        ensure_ascii=True,
        separators=(",", ":"),
    ).replace("\x7f", "\\u007f")


def _shorten(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "\u2026"
