"""Instructions for connecting clients, one module per client.

A module that defines `CLIENT` is picked up. Everything here is pure text, so that the command line
and the page at `/connect` show the same, and every snippet can be parsed in a test.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from olp.connect.base import Client


def all_clients() -> Mapping[str, Client]:
    """Every client by name, in alphabetical order."""
    found: list[Client] = []
    for module in pkgutil.iter_modules(__path__):
        client = getattr(importlib.import_module(f"{__name__}.{module.name}"), "CLIENT", None)
        if client is not None:
            found.append(client)
    return {client.name: client for client in sorted(found, key=lambda c: c.name)}
