"""Converts the values of a configuration one by one, with error messages for users.

msgspec validates them, but stops at the first error and names Python types. Here invalid values are
left out, so that the rest can be checked and used.
"""

from __future__ import annotations

import difflib
import re
import shlex
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from olp.config.options import Option, toml
from olp.config.problem import SECRET

Path = tuple[str, ...]
Wrong = Callable[[str, Path], None]
"""Called with an error message and the path of the key."""

_NUMBERS = ("number", "whole number")


def table(
    kind: type[Struct], raw: Any, path: Path, options: Mapping[str, Option], wrong: Wrong
) -> Any:
    """A `kind` with all valid values of `raw`; None if a required one is missing or invalid."""
    if not isinstance(raw, dict):
        wrong(f"{_name(path)}: {_plain(raw)} where a table is needed: [{_name(path)}]", path)
        raw = {}
    hints = typing.get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    for field in structs.fields(kind):
        if field.name in raw:
            here = (*path, field.name)
            found = _value(hints[field.name], raw[field.name], here, options.get(field.name), wrong)
            if found is not msgspec.UNSET:
                values[field.name] = found
        if field.required and field.name not in values:
            if field.name not in raw:
                wrong(f"{_name(path)}: {field.name} is missing", path)
            return None
    return kind(**values)


def _value(kind: Any, value: Any, path: Path, option: Option | None, wrong: Wrong) -> Any:
    """The converted value, or UNSET if it is invalid."""
    inner = typing.get_args(kind)
    if (
        inner
        and isinstance(inner[0], type)
        and issubclass(inner[0], Struct)
        and type(value) is list
    ):
        found = [table(inner[0], v, (*path, str(n)), {}, wrong) for n, v in enumerate(value)]
        return tuple(item for item in found if item is not None)
    whole = option is not None and option.kind == "whole number"
    if whole and type(value) is float and value.is_integer():
        value = int(value)
    try:
        # TOML has nan, which passes all bounds.
        if value != value:
            raise msgspec.ValidationError("not a number")
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        wrong(f"{_name(path)}: {_why(path, value, option, str(error))}", path)
        return msgspec.UNSET


def chain(value: Any, path: Path, wrong: Wrong) -> tuple[str, ...] | None:
    """Convert the short form of a chain; None if it is invalid."""
    if isinstance(value, str):
        hops = [hop for hop in re.split(r"[\s,>]+", value) if hop]
        wrong(f"{_name(path)}: a chain is a list of hops: {path[-1]} = {toml(hops)}", path)
        return None
    try:
        return msgspec.convert(value, tuple[str, ...])
    except msgspec.ValidationError as error:
        option = Option(path[-1], "", "list of strings", "", (), None, None, False)
        wrong(f"{_name(path)}: {_why(path, value, option, str(error))}", path)
        return None


# --- error messages ----------------------------------------------------------------------------


def _why(path: Path, value: Any, option: Option | None, error: str) -> str:
    key = path[-1]
    if option is None:
        return re.sub(r" - at `.*`$", "", error)
    if option.choices:
        return _choice(key, value, option.choices)
    match option.kind:
        case "number" | "whole number":
            return _number(key, value, option)
        case "true or false":
            return _truth(key, value)
        case "list of strings":
            return _list(key, value)
        case "table":
            return _table(key, value)
        case _:
            return _text(key, value, option)


def _choice(key: str, value: Any, choices: tuple[str, ...]) -> str:
    possible = f"allowed: {' or '.join(map(toml, choices))}"
    if not isinstance(value, str):
        return f"{_plain(value)} is not allowed; {possible}"
    near = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
    meant = f"did you mean {toml(near[0])}? " if near else ""
    return f"{toml(value)} is not allowed; {meant}{'(' + possible + ')' if near else possible}"


def _number(key: str, value: Any, option: Option) -> str:
    if isinstance(value, str):
        if found := re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*(%|[A-Za-z]*)\s*", value):
            return f"{toml(value)} is text; write the number alone: {key} = {found[1]}"
        return f"{toml(value)} is not a {option.kind}"
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return f"{_plain(value)} is not a {option.kind}"
    if isinstance(value, float) and option.kind == "whole number":
        return f"{value} is not a whole number"
    percent = "percent" in key
    return f"{value} is {'not a percentage' if percent else 'out of range'}: {option.bounds}"


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _truth(key: str, value: Any) -> str:
    word = str(value).strip().lower()
    if word in (*_TRUE, *_FALSE):
        return f"write it as {key} = {'true' if word in _TRUE else 'false'}, without quotes"
    return f"{_plain(value)} is neither true nor false"


def _list(key: str, value: Any) -> str:
    if isinstance(value, str):
        parts = _words(value) if key in ("command", "args") else re.split(r"\s*[,;]\s*", value)
        meant = "" if SECRET.search(value) else f": {key} = {toml([p for p in parts if p])}"
        return f"a list is needed{meant}"
    if isinstance(value, list):
        odd = next(item for item in value if not isinstance(item, str))
        return f"each entry of the list is text in quotes, and {_plain(odd)} is not"
    return f'{_plain(value)} where a list is needed: {key} = ["…"]'


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _text(key: str, value: Any, option: Option) -> str:
    if value == "":
        return "it must not be empty"
    if isinstance(value, str):
        return f"{toml(value)} does not have the form that is needed: {option.about}"
    if isinstance(value, bool | int | float):
        return f"text needs quotes: {key} = {toml(str(value).lower())}"
    return f"{_plain(value)} where text in quotes is needed"


def _table(key: str, value: Any) -> str:
    if isinstance(value, dict):
        name = next(name for name, inner in value.items() if not isinstance(inner, str))
        return f"the value of {name} needs quotes"
    example = '{ NAME = "value" }'
    return f"a table is needed: {key} = {example}"


def _plain(value: Any) -> str:
    """A value of the wrong type: literally for scalars, otherwise only its type."""
    match value:
        case float() if value != value:
            return "nan"
        case bool() | int() | float():
            return toml(value)
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date"


def _name(path: Path) -> str:
    return ".".join(path)
