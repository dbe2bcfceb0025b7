"""The CLIs that OLP can drive, one module or package each.

A module that defines `PROVIDER` is picked up; docs/providers.md explains how to write one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from olp.providers.base import Provider


def all_providers() -> Mapping[str, Provider]:
    """Every provider by name, ordered by rank."""
    found: list[Provider] = []
    for module in pkgutil.iter_modules(__path__):
        provider = getattr(importlib.import_module(f"{__name__}.{module.name}"), "PROVIDER", None)
        if provider is not None:
            found.append(provider)
    return {p.info.name: p for p in sorted(found, key=lambda p: p.info.rank)}
