"""Reads a model entry of `/v1/models`, as far as client configurations need it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from olp.connect.base import Target

_SEES = frozenset({"vision", "image", "images", "image_input"})


def with_told(target: Target, entry: Any) -> Target:
    """`target` with the context window and image support in `entry`, from `/v1/models`. Missing or
    unknown values leave it unchanged.
    """
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
