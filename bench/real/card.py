"""Plays the catalogue on every way."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.real.faults import Fault
from bench.real.judge import Kind, Verdict, fail
from bench.real.scene import Scene, Way
from tests.real.install import Found

CHAINS = (("claude", "codex"), ("codex", "claude"), ("vibe", "claude"))
TRANSPORTS = ("auto", "oneshot")
"""The transports that are played, and published, where none is named."""

LONGEST_S = 300.0
"""One fault on one way that takes longer has failed."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault on one way. `seconds` is the longest that a client waited, `hops` who answered
    each request, `asked` how often each hop's vendor was asked, `codes` the failed hops' codes."""

    fault: str
    chain: str
    mode: str
    transport: str
    verdict: Kind
    what: str
    seconds: float = 0.0
    hops: tuple[int | None, ...] = ()
    asked: tuple[int, ...] = ()
    codes: tuple[str, ...] = ()

    @property
    def way(self) -> str:
        """The name of its column."""
        return f"{self.chain}, {self.mode}, {self.transport}"


def ways(chains: Sequence[tuple[str, ...]], transports: Sequence[str]) -> list[Way]:
    """Every way, in the order of the columns."""
    return [
        Way(chain, stream, transport)
        for transport in transports
        for chain in chains
        for stream in (False, True)
    ]


async def play(fault: Fault, way: Way, found: Mapping[str, Found]) -> Cell:
    """One fault on one way. Whatever goes wrong in it is a failed verdict."""
    with tempfile.TemporaryDirectory(prefix="olp-real-", ignore_cleanup_errors=True) as folder:
        scene = Scene(Path(folder), found, way)
        verdict = judged(fault, way, await _verdict(fault, scene))
    replies = scene.replies
    answers = [reply.answer for reply in replies if reply.answer is not None]
    return Cell(
        fault.id,
        way.chain_name,
        way.mode,
        way.transport,
        verdict.kind,
        verdict.what,
        round(max((reply.seconds for reply in replies), default=0.0), 2),
        tuple(reply.hop for reply in replies),
        tuple(map(sum, zip(*(reply.asked for reply in replies), strict=True))),
        tuple(dict.fromkeys(code for answer in answers for code in answer.codes)),
    )


async def _verdict(fault: Fault, scene: Scene) -> Verdict:
    try:
        async with asyncio.timeout(LONGEST_S):
            return await fault.run(scene)
    except TimeoutError:
        return fail(f"something took too long (at most {LONGEST_S:g} s in all)")
    except Exception as error:
        return fail(f"{type(error).__name__}: {error}"[:300])


def judged(fault: Fault, way: Way, verdict: Verdict) -> Verdict:
    """`verdict`, failed where it is safe and may not be: a whole answer was possible."""
    if verdict.kind == "safe" and not fault.may_be_safe(way):
        return fail(f"only safe, where it must pass: {verdict.what}")
    return verdict


async def play_all(
    faults: Sequence[Fault],
    on: Sequence[Way],
    found: Mapping[str, Found],
    at_once: int,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Cell]:
    """Every fault on every way, a few at the same time, in the order of the table."""
    free = asyncio.Semaphore(at_once)
    began, done = time.monotonic(), 0

    async def one(fault: Fault, way: Way) -> Cell:
        nonlocal done
        async with free:
            cell = await play(fault, way, found)
        done += 1
        total = len(faults) * len(on)
        spent = time.monotonic() - began
        progress(f"{done}/{total} {spent:4.0f} s  {cell.fault} {cell.way}: {cell.verdict}")
        return cell

    return await asyncio.gather(*(one(fault, way) for way in on for fault in faults))


def to_stderr(line: str) -> None:
    """A line of progress, over the one before on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line[:110]}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)
