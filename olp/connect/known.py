"""What a server tells of a model, as far as a client's configuration has a use for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from olp.connect.base import Target

_SEES = frozenset({"vision", "image", "images", "image_input"})


def with_told(target: Target, entry: Any) -> Target:
    """`target` with what `entry`, the model's in `/v1/models`, says of it. What it does not say, or
    not in a form that is known, stays as it is."""
    if not isinstance(entry, Mapping):
        return target
    context = entry.get("context_length")
    if isinstance(context, int) and not isinstance(context, bool) and context > 0:
        target = dataclasses.replace(target, context=context)
    can = entry.get("capabilities")
    if isinstance(can, Mapping):
        can = [name for name, able in can.items() if able]
    if isinstance(can, list):
        target = dataclasses.replace(target, sees=not _SEES.isdisjoint(map(str, can)))
    return target
