"""Finds the line of a TOML document on which a value is set.

tomllib does not report positions. This is a scan for table headers and keys, not a second parser:
where it cannot determine the line it returns that of the nearest enclosing table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[\[?\s*(?P<path>[^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_ASSIGN = re.compile(
    r"""\s*(?P<path>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"))*)\s*="""
)


def lines_of(text: str) -> list[str]:
    """The lines of a text with any line ending, without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _parts(dotted: str) -> tuple[str, ...]:
    found = re.findall(r"""[\w-]+|"[^"]*"|'[^']*'""", dotted)
    return tuple(part.strip("\"'") for part in found)


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line number (from 1) where `path` is set, or that of its nearest enclosing key or table;
    else None. Tables in an array, `[[name]]`, are addressed by index, from 0.
    """
    wanted = tuple(path)
    best: tuple[int, int] | None = None
    table: tuple[str, ...] = ()
    counts: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(lines_of(text), 1):
        if header := _HEADER.match(line):
            table = here = _parts(header["path"])
            if line.lstrip().startswith("[["):
                counts[here] = counts.get(here, -1) + 1
                table = (*here, str(counts[here]))
                here = table if wanted[: len(table)] == table else here
        elif assign := _ASSIGN.match(line):
            here = table + _parts(assign["path"])
        else:
            continue
        depth = len(here)
        if wanted[:depth] == here and (best is None or depth > best[0]):
            best = (depth, number)
    return best[1] if best else None
