"""Checks the JSON Schemas that a client sends, before a process is started for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from olp.formats import Budget, TooMuch, bounded, boundless

_TOO_MUCH = "it takes too long to check"

MAX_REFS = 2000
"""The most distinct `$ref` values in one schema."""


def schema_problem(schema: dict[str, Any], budget: Budget | None = None) -> str | None:
    """The problem with a JSON Schema itself, or None. Several schemas can share a `budget`."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    try:
        kind = validator_for(schema, Draft202012Validator)
        own = validator_for(kind.META_SCHEMA, kind)
        check = bounded(own, budget)(kind.META_SCHEMA, format_checker=own.FORMAT_CHECKER)
        error = next(check.iter_errors(schema), None)
        if error is not None:
            return f"{error.message} (at {error.json_path})"
        return boundless(schema) or _dangling(schema)
    except (TooMuch, TimeoutError):
        return _TOO_MUCH
    except RecursionError:
        return "it is nested too deeply"
    except (AttributeError, TypeError, ValueError):
        return "its $schema is not the address of a JSON Schema dialect"


def _dangling(schema: dict[str, Any]) -> str | None:
    """An error message for the first `$ref` that cannot be resolved inside the schema, else None.
    External references are never fetched.
    """
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    # Crawl once instead of for each lookup.
    registry = Registry().with_resource("", DRAFT202012.create_resource(schema)).crawl()
    resolver = registry.resolver()
    refs = dict.fromkeys(_refs(schema))
    if len(refs) > MAX_REFS:
        raise TooMuch
    for ref in refs:
        try:
            resolver.lookup(ref)
        except (Unresolvable, ValueError, TypeError, AttributeError):
            return f"it refers to {ref!r}, which it does not define"
    return None


def _refs(node: Any) -> Iterator[str]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str):
                yield ref
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
