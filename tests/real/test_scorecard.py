"""docs/scorecard.md says of the real CLIs what is true today."""

from __future__ import annotations

import pytest

from bench import page
from bench.failover import SCORECARD
from bench.real.card import CHAINS, TRANSPORTS, Cell, play_all, ways
from bench.real.faults import FAULTS
from bench.real.scene import HOPS
from bench.real.tell import short_of, verdicts_of

from .conftest import Clis

AT_ONCE = 2
QUICK = ("S10",)
"""What the tests play: a fault of a stream that each CLI reports in its own way."""


def as_written(cells: list[Cell]) -> list[str]:
    """Where the page tells something else."""
    told = verdicts_of(page.parts_of(SCORECARD.read_text("utf-8"))["real"])
    assert len(told) == len(FAULTS) * len(ways(CHAINS, TRANSPORTS))
    return [
        f"{cell.fault} {cell.way}: {cell.verdict} ({cell.what}), {told[cell.fault, cell.way]} there"
        for cell in cells
        if cell.verdict != told[cell.fault, cell.way]
    ]


@pytest.mark.timeout(300)
async def test_P_what_breaks_in_mid_stream_never_looks_whole(clis: Clis) -> None:
    found = {name: clis.need(name) for name in HOPS}
    faults = [fault for fault in FAULTS if fault.id in QUICK]
    cells = await play_all(faults, ways(CHAINS, ["auto"]), found, AT_ONCE)
    assert (short_of(cells, []), as_written(cells)) == ([], [])
