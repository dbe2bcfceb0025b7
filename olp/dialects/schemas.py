"""Checks the JSON Schema that a client sends, before anything is started for it."""

from __future__ import annotations

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
    return None
