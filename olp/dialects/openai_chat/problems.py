"""What msgspec finds wrong with a request, as an error of this API: the path of the field, and what
would be right there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from olp.errors import RequestError

_STEP = re.compile(r"\.(\w+)|\[(?:\d+|\.\.\.)\]")


def problem_at(path: str, error: msgspec.ValidationError, kind: type) -> RequestError:
    """The 400 for a value of `kind` that stands at `path`, which is empty for the body itself."""
    message, _, at = str(error).partition(" - at `$")
    inner = at.removesuffix("`")
    param = f"{path}{inner}".lstrip(".") or None
    if allowed := _allowed(kind, inner):
        message = f"{message}; it is one of {', '.join(allowed)}"
    return RequestError(f"{param or 'body'}: {message}", param=param)


def _allowed(kind: type, path: str) -> list[str]:
    """The words that may stand at `path` of a value of `kind`, where only certain ones may."""
    types: list[Any] = [inspect.type_info(kind)]
    for step in _STEP.finditer(path):
        types = [inner for one in types for inner in _inside(one, step[1])]
    return [str(word) for one in types for word in _words(one)]


def _inside(kind: Any, name: str | None) -> Iterator[Any]:
    """The types of the field `name`, or of the elements where that is None."""
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
