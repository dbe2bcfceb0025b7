"""Answers that were asked for as JSON: where that stands in what the model says, and whether it is
what was asked for."""

from __future__ import annotations

import json
from typing import Any

from olp.formats.schema import Budget, TooMuch, bounded, boundless, mismatch
from olp.formats.text import JsonText
from olp.model import JsonFormat

__all__ = ["Budget", "JsonText", "TooMuch", "bounded", "boundless", "conform", "fault", "mismatch"]


def conform(text: str, wanted: JsonFormat) -> tuple[str, str | None]:
    """The JSON text of an answer, and what is wrong with it (None when it conforms)."""
    found = JsonText(wanted)
    body = found.feed(text) + found.end()
    return body, found.code or fault(body, wanted)


def fault(body: str, wanted: JsonFormat) -> str | None:
    """What is wrong with the JSON text `body`, if anything."""
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
