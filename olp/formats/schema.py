"""Whether a value conforms to a JSON Schema, in bounded time: the schema comes from a client.

The vendors' own schema modes are used where a CLI has one, but what reaches the client is checked
here in every case: an answer that does not conform is an error and not a success.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import regex


def mismatch(value: Any, schema: Mapping[str, Any]) -> str | None:
    """What of `value` breaks the schema, if anything."""
    from jsonschema.exceptions import UnknownType, best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if boundless(schema):
        return "the schema takes too long to check"
    # Without a registry of its own jsonschema would fetch what a `$ref` names: a page, or a file.
    validator = bounded(validator_for(schema, _default()))(schema, registry=Registry())
    try:
        error = best_match(validator.iter_errors(value))
    except Unresolvable as unresolvable:
        return f"the schema refers to {unresolvable.ref!r}, which it does not define"
    except RecursionError:
        return "the schema refers to itself without end"
    except (TooMuch, TimeoutError):
        return "the schema takes too long to check"
    except (UnknownType, ArithmeticError, AttributeError, TypeError, ValueError, regex.error):
        # Older dialects' own schemas let through what their rules then trip over.
        return "the schema cannot be applied to the answer"
    if error is None:
        return None
    return f"it breaks the schema at {error.json_path} (rule {error.validator!r})"


MAX_STEPS = 200_000
"""Rules that are applied in one check. A schema comes from a client: a small one can ask for more
work than anybody can wait for."""

CHECK_S = 1.0
"""Seconds of the processor that one check may take."""

PATTERN_S = 0.05
"""Seconds that one regular expression of a schema may take."""

MAX_PATTERN = 4096
"""Characters of one regular expression."""

MAX_UNROLLED = 10_000
"""Copies of a part that repeated groups may make of it. Only a search can be ended in time, and not
the compilation, which copies."""

_REPEATED = re.compile(r"\)\s*(?:\+|\{\s*(\d{1,9}))")
_VERBOSE = re.compile(r"\(\?[A-Za-z0-9]*x")


class TooMuch(Exception):
    """The check has taken more than it may."""


class Budget:
    """What one check may still take, or several that share it."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._until = time.thread_time() + CHECK_S

    def spend(self) -> None:
        """One step; TooMuch if there is none left."""
        self._steps -= 1
        if self._steps < 0 or time.thread_time() > self._until:
            raise TooMuch

    def found(self, pattern: str, text: str) -> bool:
        """Whether `pattern` is in `text`; TooMuch or TimeoutError if that takes too long."""
        self.spend()
        if len(pattern) > MAX_PATTERN or _unrolled(pattern) > MAX_UNROLLED:
            raise TooMuch
        return regex.search(pattern, text, timeout=PATTERN_S) is not None


def _unrolled(pattern: str) -> int:
    """At most so many copies, as if each repeated group were inside the one before."""
    if _VERBOSE.search(pattern):
        return MAX_UNROLLED + 1  # a comment could stand between a group and its number
    return math.prod(int(found[1] or 1) + 1 for found in _REPEATED.finditer(pattern))


Check = Callable[[Any, Any, Any, Any], Iterator[Any]]


def bounded(base: Any, budget: Budget | None = None) -> Any:
    """A validator like `base` for one check, or for those that share a `budget`: TooMuch or
    TimeoutError end it in time, whatever the schema and the value are. The rules that search, or
    compare all with all, are our own."""
    from jsonschema.validators import extend

    budget = budget or Budget()

    def counted(check: Check) -> Check:
        def run(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
            budget.spend()
            yield from check(validator, rule, instance, schema) or ()

        return run

    own: dict[str, Check] = {
        "pattern": partial(_pattern, budget),
        "patternProperties": partial(_pattern_properties, budget),
        "additionalProperties": partial(_additional_properties, budget),
        "uniqueItems": _unique_items,
    }
    rules = {name: counted(own.get(name, rule)) for name, rule in base.VALIDATORS.items()}
    extended: Any = extend(base, rules)  # type: ignore[no-untyped-call]

    evolved = extended.evolve

    def evolve(self: Any, **changes: Any) -> Any:
        budget.spend()
        inner = changes.get("schema")
        if isinstance(inner, dict) and "$schema" in inner:
            # A dialect named further down would leave these rules behind.
            changes["schema"] = {name: rule for name, rule in inner.items() if name != "$schema"}
        return evolved(self, **changes)

    extended.evolve = evolve
    return extended


def _error(message: str) -> Exception:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _pattern(budget: Budget, validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not budget.found(pattern, instance):
        yield _error("does not match the pattern")


def _pattern_properties(
    budget: Budget, validator: Any, rules: Any, instance: Any, _: Any
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in rules.items():
        for name, value in instance.items():
            if budget.found(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(
    budget: Budget, validator: Any, rule: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in known or any(budget.found(pattern, name) for pattern in patterns):
            continue
        if validator.is_type(rule, "object"):
            yield from validator.descend(value, rule, path=name)
        elif not rule:
            yield _error("has more properties than it may")


def boundless(schema: Any) -> str | None:
    """What in `schema` cannot be checked in a bounded time, if anything: the library's own rule for
    properties that no other rule looked at searches with the patterns, and without an end."""
    names: set[str] = set()
    waiting, nodes = [schema], 0
    while waiting:
        node = waiting.pop()
        nodes += 1
        if nodes > MAX_STEPS:
            return "it is too large"
        if isinstance(node, dict):
            names.update(node)
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    both = {"unevaluatedProperties", "patternProperties"} <= names
    return "unevaluatedProperties beside patternProperties is not supported" if both else None


def _unique_items(validator: Any, rule: Any, instance: Any, _: Any) -> Iterator[Any]:
    if not rule or not validator.is_type(instance, "array"):
        return
    if len({_frozen(item) for item in instance}) < len(instance):
        yield _error("has an element twice")


def _frozen(value: Any) -> Any:
    """Equal for what is equal in JSON, where true is not 1, and 1 is 1.0."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("array", tuple(map(_frozen, value)))
        case dict():
            return ("object", frozenset((name, _frozen(inner)) for name, inner in value.items()))
        case _:
            return value


def _default() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator
