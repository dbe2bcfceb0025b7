"""JSON answers: extraction from the model's text, and validation."""

from __future__ import annotations

import json
from typing import Any

from olp.formats.schema import Budget, TooMuch, bounded, boundless, mismatch
from olp.formats.text import JsonText
from olp.model import JsonFormat

__all__ = ["Budget", "JsonText", "TooMuch", "bounded", "boundless", "conform", "fault", "mismatch"]


def conform(text: str, wanted: JsonFormat) -> tuple[str, str | None]:
    """Return the JSON text of an answer and why it does not conform (None if it does)."""
    found = JsonText(wanted)
    body = found.feed(text) + found.end()
    return body, found.code or fault(body, wanted)


def fault(body: str, wanted: JsonFormat) -> str | None:
    """Return why the JSON text `body` does not conform, if so."""
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except ValueError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "not JSON that can be read: it is nested too deeply"
    if wanted.schema is None:
        return None if isinstance(value, dict) else "not a JSON object"
    return mismatch(value, wanted.schema)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")
