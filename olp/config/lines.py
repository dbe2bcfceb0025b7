"""Finds the line of a TOML text in which a value is written.

The standard library's parser does not say where a value stood, and a message without a line is
half a message. This is a scan for table headers and keys, not a second parser: where it cannot
tell, it answers with the nearest enclosing table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[\[?\s*(?P<path>[^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_ASSIGN = re.compile(
    r"""\s*(?P<path>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"))*)\s*="""
)


def lines_of(text: str) -> list[str]:
    """The lines as an editor shows them, whatever they end with. The mark that some editors put at
    the beginning of a file is no part of the first."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _parts(dotted: str) -> tuple[str, ...]:
    found = re.findall(r"""[\w-]+|"[^"]*"|'[^']*'""", dotted)
    return tuple(part.strip("\"'") for part in found)


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line (from 1) where `path` is set, or its nearest enclosing key or table; else None.
    The tables of a list, `[[name]]`, are called by their number, from 0."""
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
