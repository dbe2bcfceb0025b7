"""What came of the catalogue: as text, as JSON, and as its part of docs/scorecard.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.real.card import Cell
from bench.real.faults import FAULTS
from bench.real.judge import KINDS
from bench.real.scene import HOPS, Way
from tests.real.install import Found

LEAST = {"streaming": 11, "buffered": 14}
"""So many of the sixteen must pass on each way."""

TRANSPORT = {
    "auto": "CLIs that wait for requests (OLP's default)",
    "oneshot": 'one process a request (`transport = "oneshot"`)',
}


def column(cells: Sequence[Cell], way: Way) -> list[Cell]:
    """The cells of one way."""
    return [cell for cell in cells if cell.way == way.name]


def totals(cells: Sequence[Cell]) -> str:
    """`pass/partial/safe/fail` of these cells, as four numbers."""
    counts = Counter(cell.verdict for cell in cells)
    return "/".join(str(counts[kind]) for kind in KINDS)


def short_of(cells: Sequence[Cell], on: Sequence[Way]) -> list[str]:
    """What is wanted and was not reached; only whole columns are held to their numbers."""
    short = [f"{cell.fault} {cell.way} failed" for cell in cells if cell.verdict == "fail"]
    for way in on:
        mine = column(cells, way)
        passed = sum(cell.verdict == "pass" for cell in mine)
        if len(mine) == len(FAULTS) and passed < LEAST[way.mode]:
            short.append(f"{way.name}: only {passed} pass")
    return short


def table(cells: Sequence[Cell], on: Sequence[Way]) -> Iterator[str]:
    """One table a transport, and below it what is behind everything that is not a pass."""
    for transport in dict.fromkeys(way.transport for way in on):
        mine = [way for way in on if way.transport == transport]
        chains = list(dict.fromkeys(way.chain_name for way in mine))
        yield f"{'':49} " + " ".join(f"{name:20}" for name in chains) + f"  ({transport})"
        yield f"{'':4} {'fault':44} " + " ".join(f"{way.mode:10}" for way in mine)
        for fault in FAULTS:
            row = [cell for way in mine for cell in column(cells, way) if cell.fault == fault.id]
            if row:
                told = " ".join(f"{cell.verdict:10}" for cell in row)
                yield f"{fault.id:4} {fault.name:44} {told}"
        sums = " ".join(f"{totals(column(cells, way)):10}" for way in mine)
        yield f"{'':4} {'pass/partial/safe/fail':44} {sums}"
    for cell in cells:
        if cell.verdict != "pass":
            yield (
                f"{cell.fault} {cell.way}: {cell.verdict}: {cell.what}; {cell.seconds:.1f} s, "
                f"hops {list(cell.hops)}, asked {list(cell.asked)}, {','.join(cell.codes)}"
            )


def as_json(cells: Sequence[Cell], on: Sequence[Way], found: Mapping[str, Found]) -> dict[str, Any]:
    """Everything."""
    return {
        "clis": {name: one.version for name, one in found.items()},
        "totals": {way.name: totals(column(cells, way)) for way in on},
        "short_of": short_of(cells, on),
        "cells": [asdict(cell) for cell in cells],
    }


def part(cells: Sequence[Cell], on: Sequence[Way], found: Mapping[str, Found]) -> str:
    """The real part of docs/scorecard.md."""
    versions = ", ".join(f"{name} {one.version}" for name, one in found.items())
    lines = [f"The last run, with {versions}:"]
    for transport in dict.fromkeys(way.transport for way in on):
        mine = [way for way in on if way.transport == transport]
        lines += ["", f"### {_title(transport)}", ""]
        lines += _columns(cells, mine)
    lines += ["", "What stands behind whatever is not a pass:", "", *_behind(cells)]
    lines += ["", "How each fault is told, and what is looked at:", ""]
    lines += [f"- **{fault.id}** {fault.told}.{_safe(fault.safe_on)}" for fault in FAULTS]
    return "\n".join(lines)


def verdicts_of(written: str) -> dict[tuple[str, str], str]:
    """What the part tells of each fault on each way (`claude → codex, buffered, auto`)."""
    found, transport, names = {}, "", [""]
    heads = {f"### {_title(name)}": name for name in TRANSPORT}
    for line in written.splitlines():
        transport = heads.get(line, transport)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| | fault |"):
            names = cells[2:]
        elif re.match(r"\| S\d\d \|", line):
            for name, verdict in zip(names, cells[2:], strict=True):
                found[cells[0], f"{name}, {transport}"] = verdict
    return found


def _title(transport: str) -> str:
    told = TRANSPORT[transport]
    return f"{told[0].upper()}{told[1:]}"


def _columns(cells: Sequence[Cell], on: Sequence[Way]) -> Iterator[str]:
    yield f"| | fault | {' | '.join(f'{way.chain_name}, {way.mode}' for way in on)} |"
    yield f"|---|---|{'---|' * len(on)}"
    columns = [{cell.fault: cell.verdict for cell in column(cells, way)} for way in on]
    for fault in FAULTS:
        told = " | ".join(mine.get(fault.id, "-") for mine in columns)
        yield f"| {fault.id} | {fault.name} | {told} |"
    sums = " | ".join(totals(column(cells, way)) for way in on)
    yield f"| | pass/partial/safe/fail | {sums} |"


def _behind(cells: Sequence[Cell]) -> list[str]:
    """One line for each fault and what a client got, with the ways on which it got that."""
    seen: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        if cell.verdict != "pass":
            where = f"{cell.chain} {cell.mode} ({cell.transport})"
            seen.setdefault((cell.fault, cell.verdict, cell.what), []).append(where)
    lines = [f"- **{f}** {v}: {w} ({'; '.join(on)})" for (f, v, w), on in sorted(seen.items())]
    return lines or ["- nothing"]


def _safe(on: Sequence[str]) -> str:
    if not on:
        return ""
    clis = "" if len(on) == len(HOPS) else f" of {' and '.join(on)}"
    return f" Streamed{clis}, *safe* is the most that can be had"
