"""Checks the JSON Schema that a client sends, before anything is started for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def schema_problem(schema: dict[str, Any]) -> str | None:
    """What is wrong with a JSON Schema itself, or None."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema, Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return f"{error.message} (at {error.json_path})"
    except RecursionError:
        return "it is nested too deeply"
    except (AttributeError, TypeError, ValueError):
        return "its $schema is not the address of a JSON Schema dialect"
    return _dangling(schema)


def _dangling(schema: dict[str, Any]) -> str | None:
    """The first `$ref` that leads nowhere inside the schema. Nothing outside is ever looked up."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for ref in _refs(schema):
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
