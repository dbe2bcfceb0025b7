"""The public APIs that OLP speaks: one file or folder each, and this folder is the list of them.

A module that defines `DIALECT` is one; docs/dialects.md tells how to add another.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

from olp.dialects.base import Dialect


def all_dialects() -> Sequence[Dialect]:
    """Every dialect by rank. The first one formats the errors of paths that no dialect owns."""
    found: list[Dialect] = []
    for module in pkgutil.iter_modules(__path__):
        dialect = getattr(importlib.import_module(f"{__name__}.{module.name}"), "DIALECT", None)
        if dialect is not None:
            found.append(dialect)
    return sorted(found, key=lambda one: one.rank)


def dialect_at(path: str, dialects: Sequence[Dialect]) -> Dialect:
    """The dialect that formats an error at `path`."""
    return next((one for one in dialects if one.owns(path)), dialects[0])
