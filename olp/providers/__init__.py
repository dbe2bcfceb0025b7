"""The CLIs that OLP can drive: one file each, and this folder is the list of them.

A file that defines `PROVIDER` is one; docs/providers.md writes a new one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from olp.providers.base import Provider


def all_providers() -> Mapping[str, Provider]:
    """Every provider by name, in the order of preference."""
    found: list[Provider] = []
    for module in pkgutil.iter_modules(__path__):
        provider = getattr(importlib.import_module(f"{__name__}.{module.name}"), "PROVIDER", None)
        if provider is not None:
            found.append(provider)
    return {p.info.name: p for p in sorted(found, key=lambda p: p.info.rank)}
