"""Checks that an answer is the JSON that was asked for.

The vendors' own schema modes are used where a CLI has one, but what reaches the client is checked
here in every case: an answer that does not conform is an error and not a success.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex

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
    kind = _bounded(validator_for(schema, _default()))
    validator = kind(schema, registry=Registry())
    try:
        error = best_match(validator.iter_errors(value))
    except Unresolvable as unresolvable:
        return f"the schema refers to {unresolvable.ref!r}, which it does not define"
    except RecursionError:
        return "the schema refers to itself without end"
    except (_TooMuch, TimeoutError):
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

PATTERN_S = 0.05
"""Seconds that one regular expression of a schema may take."""


class _TooMuch(Exception):
    """The check has taken more steps than it may."""


def _bounded(base: Any) -> Any:
    """A validator like `base` that counts its steps, and whose patterns end in time."""
    from jsonschema.validators import extend

    left = [MAX_STEPS]

    def counted(check: Check) -> Check:
        def run(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
            left[0] -= 1
            if left[0] < 0:
                raise _TooMuch
            yield from check(validator, rule, instance, schema) or ()

        return run

    rules = {name: counted(check) for name, check in base.VALIDATORS.items()}
    own = {"pattern": counted(_pattern), "patternProperties": counted(_pattern_properties)}
    extended: Any = extend(  # type: ignore[no-untyped-call]
        base, {name: own.get(name, rule) for name, rule in rules.items()}
    )
    return extended


Check = Callable[[Any, Any, Any, Any], Iterator[Any]]


def _found(pattern: str, text: str) -> bool:
    return regex.search(pattern, text, timeout=PATTERN_S) is not None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and not _found(pattern, instance):
        yield ValidationError("does not match the pattern")


def _pattern_properties(validator: Any, rules: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in rules.items():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _default() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator
