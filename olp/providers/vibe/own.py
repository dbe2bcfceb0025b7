"""Vibe's own tools, as far as the client's tools can replace them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from olp.model import Tool
from olp.providers.shared.wire import count, rows, table

OWN = {
    "file_system.bash": "bash",
    "file_system.read_file": "read_file",
    "file_system.write_file": "write_file",
    "file_system.search_replace": "edit",
}
"""Its own tools that ask for approval: the CLI's name of each, and the model's."""

_READS_LINES = 2000
"""The `limit` that the CLI adds to a `read_file` call without one."""


def written(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the model wrote them; the CLI reports them under names of its own."""
    change = next(iter(rows(shown.get("changes"))), {})
    path = shown.get("filePath")
    if change:
        out = {"file_path": path, "old_string": change.get("oldString")}
        replace_all = {"replace_all": True} if change.get("replaceAll") is True else {}
        return out | {"new_string": change.get("newString")} | replace_all
    out = {"path": path} if path is not None else {}
    out |= {name: value for name, value in shown.items() if name != "filePath"}
    if count(out.get("limit")) == _READS_LINES:
        del out["limit"]
    if first := count(out.get("offset")):
        out["offset"] = first - 1  # the model counts lines from 0, the CLI reports them from 1
    return {name: value for name, value in out.items() if value is not None}


def fitted(arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """Rename arguments to the properties of the client's tool, e.g. `file_path` to `filePath`."""
    known = {_plain(name): name for name in table(tool.parameters.get("properties"))}
    return {known.get(_plain(name), name): value for name, value in arguments.items()}


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z]", "", name.lower())
    return "path" if plain in ("filepath", "file", "filename") else plain
