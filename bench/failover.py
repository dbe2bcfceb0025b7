"""What a client gets when a CLI fails: 25 faults, each without streaming and with it.

Every fault is played on a real `olp serve` with scripted fake CLIs, see bench/faults.py. A run of
all of them writes docs/scorecard.md. The exit code is 1 if anything fails.

    bench/failover [--only S08 …] [--json] [--at-once 3]
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

from bench.faults import FAULTS, ROOT, Fault, Kind, Stage, Tables, Verdict, Wrong, fail
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
    """docs/scorecard.md: the same text for the same verdicts."""
    lines = [_ABOUT, "", f"    {totals(rows)}", "", *_markdown(rows), "", _READING, ""]
    return "\n".join(lines)


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


_ABOUT = """\
# What a client gets when a CLI fails

<!-- Made by bench/failover: do not edit. -->

`bench/failover` plays 25 faults on a real server, `olp serve` as a process of its own, whose CLIs
are scripted fakes that speak the output formats of claude, codex and vibe. Every fault is played
twice, without streaming and with it. What the client received is judged, and so is what it cannot
see: which CLIs were started, how often and with what, whether a slot or a private folder is still
taken after the answer, and whether a process is left when the server has stopped. The last run came
to:"""

_READING = """\
## What the words mean

- **pass**: the client got the complete answer, marked as complete and attributed to the hop that
  gave it; or, where no hop could or should have answered, the precise error for it. In S22 and S23
  the client or the server is gone; there it is that nothing is left behind, and that the next
  request is served.
- **safe**: a stream that had begun was broken off, and the client can tell: what had come is
  unchanged, and it ends with finish reason `length`, or with an error event and no `[DONE]`. Only
  S08, S09 and S14 may end so, and only streamed; anywhere else it counts as a fail.
- **fail**: everything else. Above all a truncated answer that looks complete, but also an answer of
  the wrong hop, a CLI started once too often, a process that is left, or a wait that is too long.

A fault with several parts has the verdict of its worst part.

## What the numbers do not say

- Once the first word of a stream is out, no other provider is asked, by design. So a CLI that dies
  under a stream can come to *safe* at best; more would mean that two models' answers were glued
  together.
- S08 without streaming is counted as a pass although 20 of 60 words are missing: what a dead CLI
  had said is returned with finish reason `length`, as [behaviour.md](behaviour.md) promises, and is
  not thrown away to ask another model. Whoever wants all 60 words has to count one less.
- S11 and S20 are told before the first word, where another hop can still serve. The same exits
  after the first words are played too, as parts of S08, and come to *safe* when streamed.
- S15 is an outage that begins while the breaker is closed. That the provider is well again is
  noticed when the cool-down ends, 60 s after the failure that opened the breaker or after the last
  probe that failed. An outage that ends just after such a probe is noticed later than 30 s.
- Where a clock of minutes is at work, the configuration makes it seconds, as told above.
- Each request starts a process of its own here. CLIs that wait for requests ahead of time speak
  other protocols, and are not part of this page; nor are the real CLIs. Both have tests of their
  own.
- The fakes do what somebody wrote down. A vendor can fail in a way that nobody has thought of.

## Other scorecards

The first sixteen faults follow a public catalogue for gateways between HTTP APIs (FailoverBench).
Here they are told as what a CLI does when its vendor does that: a 429 is a limit notice, its
Retry-After is the reset that the notice names, and a connection that is cut is a process that
exits. That is another task than a gateway's: a CLI's failure has to be recognised first, and its
process has to be ended. There is no *partial* here, since whatever is neither *pass* nor *safe* is
called *fail*. And the fakes, the judges and the server come from the same people. So a number on
this page cannot be set against another product's number one to one; what it can be set against is
another version of OLP."""


# --- the command -------------------------------------------------------------------------------


def _chosen(only: Sequence[str]) -> list[Fault]:
    wanted = {name.upper() for name in only}
    unknown = wanted - {fault.id for fault in FAULTS}
    if unknown:
        raise SystemExit(f"there is no fault {', '.join(sorted(unknown))}; S01 to S25 are there")
    return [fault for fault in FAULTS if not wanted or fault.id in wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="bench/failover", description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="S08", help="only these faults")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--at-once", type=int, default=3, help="faults at a time (default 3)")
    options = parser.parse_args(arguments)
    rows = asyncio.run(play_all(_chosen(options.only), max(1, options.at_once)))
    if not options.only:
        SCORECARD.write_text(scorecard(rows), "utf-8")
    if options.json:
        outcomes = [asdict(outcome) for row in rows for outcome in row.outcomes.values()]
        print(json.dumps({"faults": outcomes, "totals": totals(rows)}, indent=2))
    else:
        print("\n".join([*table(rows), totals(rows)]))
    return 0 if all_well(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
