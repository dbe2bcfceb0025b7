"""Checks that an answer is the JSON that was asked for.

The vendors' own schema modes are used where a CLI has one, but what reaches the client is checked
here in every case: an answer that does not conform is an error and not a success.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from olp.model import JsonFormat

_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n(?P<body>.*?)\n?```\Z", re.DOTALL)


def conform(text: str, wanted: JsonFormat) -> tuple[str, str | None]:
    """The JSON text of an answer, a Markdown fence around it taken off, and what is wrong with it
    (None when it conforms)."""
    body = text.strip()
    if fence := _FENCE.match(body):
        body = fence["body"].strip()
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except ValueError as error:
        return body, f"not JSON: {error}"
    except RecursionError:
        return body, "not JSON that can be read: it is nested too deeply"
    if wanted.schema is None:
        return body, None if isinstance(value, dict) else "not a JSON object"
    return body, _mismatch(value, wanted.schema)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _mismatch(value: Any, schema: Mapping[str, Any]) -> str | None:
    from jsonschema.exceptions import UnknownType, best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # Without a registry of its own jsonschema would fetch what a `$ref` names: a page, or a file.
    validator = validator_for(schema, _default())(schema, registry=Registry())
    try:
        error = best_match(validator.iter_errors(value))
    except Unresolvable as unresolvable:
        return f"the schema refers to {unresolvable.ref!r}, which it does not define"
    except RecursionError:
        return "the schema refers to itself without end"
    except (UnknownType, ArithmeticError, AttributeError, TypeError, ValueError, re.error):
        # Older dialects' own schemas let through what their rules then trip over.
        return "the schema cannot be applied to the answer"
    if error is None:
        return None
    return f"it breaks the schema at {error.json_path} (rule {error.validator!r})"


def _default() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator
