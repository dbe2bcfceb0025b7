"""Vibe's own tools, as far as a tool of the client's can stand in for them."""

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
"""Its own tools that ask before they do something: as the CLI and as the model calls them."""

_READS_LINES = 2000
"""What the CLI adds to a call of `read_file` that says nothing of it."""


def written(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the model wrote them: the CLI shows them in names of its own."""
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
        out["offset"] = first - 1  # the model counts lines from 0, and is shown to count from 1
    return {name: value for name, value in out.items() if value is not None}


def fitted(arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """The arguments under the names that the client's tool has for them: `file_path` may be its
    `filePath`."""
    known = {_plain(name): name for name in table(tool.parameters.get("properties"))}
    return {known.get(_plain(name), name): value for name, value in arguments.items()}


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z]", "", name.lower())
    return "path" if plain in ("filepath", "file", "filename") else plain
