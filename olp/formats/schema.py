"""JSON Schema validation in bounded time, since the schema comes from a client.

The vendors' own schema modes are used where a CLI has one, but every answer is validated here: one
that does not conform is reported as an error.
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
    """Return why `value` does not conform to the schema, if so."""
    from jsonschema.exceptions import UnknownType, best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if boundless(schema):
        return "the schema takes too long to check"
    # With an empty registry; jsonschema's default one fetches URLs and files named by a `$ref`.
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
        # The metaschemas of older drafts accept schemas that make their rules raise.
        return "the schema cannot be applied to the answer"
    if error is None:
        return None
    return f"it breaks the schema at {error.json_path} (rule {error.validator!r})"


MAX_STEPS = 200_000
"""Maximum rules applied in one check: even a small schema can require unbounded work."""

CHECK_S = 1.0
"""CPU seconds for one check."""

PATTERN_S = 0.05
"""Seconds for one regular expression search."""

MAX_PATTERN = 4096
"""Maximum characters of a regular expression."""

MAX_UNROLLED = 10_000
"""Maximum copies that counted repetitions expand to. Compilation makes these copies and, unlike a
search, has no timeout."""

_REPEATED = re.compile(r"\)\s*(?:\+|\{\s*(\d{1,9}))")
_VERBOSE = re.compile(r"\(\?[A-Za-z0-9]*x")


class TooMuch(Exception):
    """The check exceeded its budget."""


class Budget:
    """The remaining budget of one check, or of several that share it."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._until = time.thread_time() + CHECK_S

    def spend(self) -> None:
        """Use one step. Raises TooMuch if none is left."""
        self._steps -= 1
        if self._steps < 0 or time.thread_time() > self._until:
            raise TooMuch

    def found(self, pattern: str, text: str) -> bool:
        """Whether `pattern` matches in `text`. Raises TooMuch or TimeoutError if too slow."""
        self.spend()
        if len(pattern) > MAX_PATTERN or _unrolled(pattern) > MAX_UNROLLED:
            raise TooMuch
        return regex.search(pattern, text, timeout=PATTERN_S) is not None


def _unrolled(pattern: str) -> int:
    """Upper bound of the copies, as if each repeated group were nested in the previous one."""
    if _VERBOSE.search(pattern):
        return MAX_UNROLLED + 1  # a comment may separate a group from its count
    return math.prod(int(found[1] or 1) + 1 for found in _REPEATED.finditer(pattern))


Check = Callable[[Any, Any, Any, Any], Iterator[Any]]


def bounded(base: Any, budget: Budget | None = None) -> Any:
    """Return a validator like `base` for one check, or for several that share `budget`. It raises
    TooMuch or TimeoutError when too slow. Rules that search, or compare pairwise, are replaced."""
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
            # A nested `$schema` would switch to a validator without these rules.
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
    """Return why `schema` cannot be checked in bounded time, if so. The library's rule for
    `unevaluatedProperties` searches with the patterns, without a timeout."""
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
    if len({_hashable(item) for item in instance}) < len(instance):
        yield _error("has an element twice")


def _hashable(value: Any) -> Any:
    """A hashable form, equal for equal JSON values: true differs from 1, but 1 equals 1.0."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("array", tuple(map(_hashable, value)))
        case dict():
            return ("object", frozenset((name, _hashable(inner)) for name, inner in value.items()))
        case _:
            return value


def _default() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator
