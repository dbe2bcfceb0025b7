"""The effective configuration: each value with its source, for display.

Values that may be secrets are hidden, because the output ends up in bug reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from olp.config.load import Loaded
from olp.config.options import toml, toml_key
from olp.config.schema import Config

HIDDEN = "***"
"""Shown in place of a value that may be a secret."""


@dataclass(frozen=True, slots=True)
class Value:
    """An effective value. `source` is `default`, `FILE:LINE`, a variable or a flag."""

    key: str
    value: Any
    source: str


def provenance(loaded: Loaded, providers: Iterable[str]) -> list[Value]:
    """Every value, in the order of the schema. `providers` are included even if the configuration
    does not mention them.
    """
    config = loaded.config
    values: list[Value] = []
    for section in Config.__struct_fields__:
        if section == "providers":
            for name in dict.fromkeys((*providers, *config.providers)):
                values += _values(loaded, (section, name), config.provider(name))
        elif section == "chains":
            for name, chain in config.chains.items():
                values += _values(loaded, (section, name), chain)
        else:
            values += _values(loaded, (section,), getattr(config, section))
    return values


def _values(loaded: Loaded, path: tuple[str, ...], given: Any) -> Iterator[Value]:
    if not isinstance(given, msgspec.Struct):
        yield _value(loaded, path, given)
        return
    for key, value in msgspec.structs.asdict(given).items():
        yield _value(loaded, (*path, key), _without_secrets(key, value))


def _value(loaded: Loaded, path: tuple[str, ...], value: Any) -> Value:
    sources = loaded.sources
    inner = (source for at, source in sources.items() if at[: len(path)] == path)
    plain = list(value) if isinstance(value, tuple) else value
    return Value(".".join(map(toml_key, path)), plain, sources.get(path) or next(inner, "default"))


_SECRET = re.compile(r"key|token|secret|password|auth|credential", re.IGNORECASE)


def _without_secrets(key: str, value: Any) -> Any:
    match key:
        case "env":
            return dict.fromkeys(value, HIDDEN)
        case "config":
            return _hidden(value)
        case "args":
            return [_argument(word) for word in value]
        case _:
            return value


def _hidden(table: Any) -> Any:
    if isinstance(table, list):
        return [_hidden(item) for item in table]
    if not isinstance(table, dict):
        return table
    return {k: HIDDEN if _secret(k, v) else _hidden(v) for k, v in table.items()}


def _secret(key: str, value: Any) -> bool:
    return isinstance(value, str) and _SECRET.search(key) is not None


def _argument(word: str) -> str:
    name, equals, _ = word.partition("=")
    return f"{name}={HIDDEN}" if equals and _SECRET.search(name) else word


def table(values: Sequence[Value]) -> str:
    """The values as text: one assignment with its source per line."""
    rows = [(_assignment(value), value.source) for value in values]
    width = min(max(len(left) for left, _ in rows), 60)
    return "\n".join(f"{left:{width}}  # {source}" for left, source in rows)


def _assignment(value: Value) -> str:
    return f"{value.key} = {toml(value.value)}" if value.value is not None else f"{value.key} unset"
