"""What a client gets when a CLI or its vendor fails.

25 faults on a real `olp serve` with scripted fake CLIs (bench/faults.py), or, with `--real`,
sixteen that mock vendors tell the real CLIs over HTTP (bench/real). The exit code is 1 if anything
fails, or if less passes on the real CLIs than is wanted.

    bench/failover [--only S08 …] [--json] [--at-once 2] [--write docs/scorecard.md]
    bench/failover --real [--chain codex-claude …] [--transport oneshot …] [--only S08 …] …
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench import page
from bench.faults import FAULTS, ROOT, Fault, Kind, Stage, Tables, Verdict, Wrong, fail
from bench.real import command
from tests.fakes import NAMES, install

SCORECARD = ROOT / "docs" / "scorecard.md"
MODES = {False: "buffered", True: "streaming"}
LONGEST_S = 60.0
"""A fault that takes longer has failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fault in one mode. `hops` are those of each answer, `seconds` is the longest that a
    client waited, `spawns` how often each CLI was started."""

    fault: str
    mode: str
    verdict: Kind
    what: str
    hops: list[int]
    seconds: float
    spawns: dict[str, int]


@dataclass
class Row:
    """One fault in both modes."""

    fault: Fault
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def buffered(self) -> Outcome:
        return self.outcomes["buffered"]

    @property
    def streaming(self) -> Outcome:
        return self.outcomes["streaming"]


# --- playing -----------------------------------------------------------------------------------


async def play(
    fault: Fault,
    stream: bool,
    fakes: Path,
    *,
    spoil: Tables | None = None,
    longest_s: float = LONGEST_S,
) -> Outcome:
    """One fault in one mode. Whatever goes wrong in it is a failed verdict."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="olp-failover-", ignore_cleanup_errors=True) as folder:
        stage = Stage(Path(folder), fakes, stream, spoil or {})
        verdict = judged(fault, stream, await _verdict(fault, stage, longest_s))
    waited = max(stage.waits, default=time.monotonic() - began)
    spawns = {name: stage.spawns.get(name, 0) for name in NAMES}
    return Outcome(
        fault.id, MODES[stream], verdict.kind, verdict.what, stage.hops, round(waited, 2), spawns
    )


async def _verdict(fault: Fault, stage: Stage, longest_s: float) -> Verdict:
    try:
        async with asyncio.timeout(longest_s):
            return await fault.run(stage)
    except Wrong as error:
        return fail(str(error))
    except TimeoutError:
        return fail(f"something took too long (at most {longest_s:g} s in all)")
    except Exception as error:
        return fail(f"{type(error).__name__}: {error}")


def judged(fault: Fault, stream: bool, verdict: Verdict) -> Verdict:
    """`verdict`, failed where it is safe and may not be: a whole answer was possible."""
    if verdict.kind == "safe" and not (stream and fault.may_be_safe):
        return fail(f"only safe, where it must pass: {verdict.what}")
    return verdict


async def play_all(faults: Sequence[Fault], at_once: int) -> list[Row]:
    """Every fault in both modes, a few at the same time."""
    rows = {fault.id: Row(fault) for fault in faults}
    free = asyncio.Semaphore(at_once)

    async def one(fault: Fault, stream: bool, fakes: Path) -> None:
        async with free:
            outcome = await play(fault, stream, fakes)
            rows[fault.id].outcomes[outcome.mode] = outcome

    with tempfile.TemporaryDirectory(prefix="olp-fakes-") as folder:
        fakes = install(Path(folder) / "bin")
        await asyncio.gather(*(one(fault, stream, fakes) for fault in faults for stream in MODES))
    return list(rows.values())


# --- telling -----------------------------------------------------------------------------------


def totals(rows: Sequence[Row]) -> str:
    """The last line."""
    buffered = sum(row.buffered.verdict == "pass" for row in rows)
    count = dict.fromkeys(("pass", "safe", "fail"), 0)
    for row in rows:
        count[row.streaming.verdict] += 1
    told = " ".join(f"{number} {kind}" for kind, number in count.items())
    return f"buffered {buffered}/{len(rows)}, streaming {told}"


def all_well(rows: Sequence[Row]) -> bool:
    """Whether nothing failed."""
    return all(o.verdict != "fail" for row in rows for o in row.outcomes.values())


def _both(first: str, second: str) -> str:
    return first if first == second else f"{first} | {second}"


def _spawns(outcome: Outcome) -> str:
    return "/".join(str(count) for count in outcome.spawns.values())


def _hops(outcome: Outcome) -> str:
    """The hops of the answers in order, a row of equal ones told once."""
    kept = [h for i, h in enumerate(outcome.hops) if i == 0 or h != outcome.hops[i - 1]]
    return ",".join(map(str, kept)) or "-"


def _plain(text: str) -> str:
    return text.replace("`", "")


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as text. Where the modes differ, the one with streaming stands second."""
    yield (
        f"{'':4} {'fault':44} {'buffered':9} {'streaming':10} {'hops':12} {'seconds':12} "
        f"{'/'.join(NAMES):17} what the client got"
    )
    for row in rows:
        whole, stream = row.buffered, row.streaming
        seconds = f"{whole.seconds:.2f} | {stream.seconds:.2f}"
        head = (
            f"{row.fault.id:4} {row.fault.name:44} {whole.verdict:9} {stream.verdict:10} "
            f"{_both(_hops(whole), _hops(stream)):12} {seconds:12} "
            f"{_both(_spawns(whole), _spawns(stream)):17} "
        )
        yield head + _plain(whole.what)
        if stream.what != whole.what:
            yield " " * (len(head) - 2) + f"| {_plain(stream.what)}"


def scorecard(rows: Sequence[Row]) -> str:
    """The scripted part of docs/scorecard.md: the same text for the same verdicts."""
    return "\n".join(["The last run came to:", "", f"    {totals(rows)}", "", *_markdown(rows)])


def _markdown(rows: Sequence[Row]) -> Iterator[str]:
    yield "| | fault | without streaming | streaming | what the client got |"
    yield "|---|---|---|---|---|"
    for row in rows:
        whole, stream = row.buffered, row.streaming
        got = whole.what if whole.what == stream.what else f"{whole.what}. Streamed: {stream.what}"
        yield f"| {row.fault.id} | {row.fault.name} | {whole.verdict} | {stream.verdict} | {got} |"
    yield ""
    yield "How each fault is told to a CLI, and what is looked at besides the client's view:"
    yield ""
    for row in rows:
        yield f"- **{row.fault.id}** {row.fault.told}."


# --- the command -------------------------------------------------------------------------------


def _chosen(only: Sequence[str]) -> list[Fault]:
    wanted = {name.upper() for name in only}
    unknown = wanted - {fault.id for fault in FAULTS}
    if unknown:
        raise SystemExit(f"there is no fault {', '.join(sorted(unknown))}; S01 to S25 are there")
    return [fault for fault in FAULTS if not wanted or fault.id in wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    options = _parser().parse_args(arguments)
    if options.write and (options.only or options.chain or options.transport):
        raise SystemExit("only a run of all is written")
    if options.real:
        return command.main(options)
    rows = asyncio.run(play_all(_chosen(options.only), max(1, options.at_once)))
    if options.write:
        page.write(options.write, "scripted", scorecard(rows))
    if options.json:
        outcomes = [asdict(outcome) for row in rows for outcome in row.outcomes.values()]
        print(json.dumps({"faults": outcomes, "totals": totals(rows)}, indent=2))
    else:
        print("\n".join([*table(rows), totals(rows)]))
    return 0 if all_well(rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/failover", description=__doc__.split("\n")[0])
    parser.add_argument("--real", action="store_true", help="sixteen faults on the real CLIs")
    parser.add_argument("--only", nargs="+", default=[], metavar="S08", help="only these faults")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--at-once", type=int, default=2, help="faults at a time (default 2)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the result on this page")
    more = parser.add_argument_group("with --real")
    more.add_argument("--chain", nargs="+", default=[], metavar="codex-claude")
    more.add_argument("--transport", nargs="+", default=[], choices=("auto", "oneshot"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
