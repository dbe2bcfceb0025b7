"""Translates msgspec's validation errors into errors of this API, with the path of the field and
the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from olp.errors import RequestError

_STEP = re.compile(r"\.(\w+)|\[(?:\d+|\.\.\.)\]")


def problem_at(path: str, error: msgspec.ValidationError, kind: type) -> RequestError:
    """The 400 error for a value of type `kind` at `path`; an empty path is the body itself."""
    message, _, at = str(error).partition(" - at `$")
    inner = at.removesuffix("`")
    param = f"{path}{inner}".lstrip(".") or None
    if allowed := _allowed(kind, inner):
        message = f"{message}; it is one of {', '.join(allowed)}"
    return RequestError(f"{param or 'body'}: {message}", param=param)


def _allowed(kind: type, path: str) -> list[str]:
    """The literals allowed at `path` of a value of type `kind`, if only some are."""
    types: list[Any] = [inspect.type_info(kind)]
    for step in _STEP.finditer(path):
        types = [inner for one in types for inner in _inside(one, step[1])]
    return [str(word) for one in types for word in _words(one)]


def _inside(kind: Any, name: str | None) -> Iterator[Any]:
    """The types of the field `name`, or of list elements if it is None."""
    match kind:
        case inspect.UnionType(types=types):
            for one in types:
                yield from _inside(one, name)
        case inspect.StructType(fields=fields):
            yield from (field.type for field in fields if field.encode_name == name)
        case inspect.ListType(item_type=item) if name is None:
            yield item


def _words(kind: Any) -> Iterator[Any]:
    match kind:
        case inspect.UnionType(types=types):
            for one in types:
                yield from _words(one)
        case inspect.LiteralType(values=values):
            yield from values
