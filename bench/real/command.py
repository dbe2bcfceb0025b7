"""`bench/failover --real`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from bench import page
from bench.real.card import CHAINS, TRANSPORTS, play_all, to_stderr, ways
from bench.real.faults import FAULTS, Fault
from bench.real.scene import Way
from bench.real.tell import as_json, part, short_of, table
from tests.real import netns
from tests.real.install import Found, locate


def main(options: argparse.Namespace) -> int:
    """Play what is asked for; the exit code."""
    if not netns.isolated():
        print("bench/failover: not in a network namespace of its own", file=sys.stderr)
    played, ways_on, found = faults(options.only), on(options.chain, options.transport), _found()
    at_once = max(1, options.at_once)
    cells = asyncio.run(play_all(played, ways_on, found, at_once, to_stderr))
    if options.write:
        page.write(options.write, "real", part(cells, ways_on, found))
    if options.json:
        print(json.dumps(as_json(cells, ways_on, found), indent=2, ensure_ascii=False))
    else:
        print("\n".join(table(cells, ways_on)))
    short = short_of(cells, ways_on)
    print(*(f"not as wanted: {line}" for line in short), sep="\n", file=sys.stderr)
    return 1 if short else 0


def faults(only: Sequence[str]) -> list[Fault]:
    """The faults of these names; all, where none is named."""
    wanted = {name.upper() for name in only}
    if unknown := wanted - {fault.id for fault in FAULTS}:
        raise SystemExit(f"there is no fault {', '.join(sorted(unknown))}; S01 to S16 are there")
    return [fault for fault in FAULTS if not wanted or fault.id in wanted]


def on(chains: Sequence[str], transports: Sequence[str]) -> list[Way]:
    """The ways with these chains and transports; all of them where none is named."""
    known = {"-".join(chain): chain for chain in CHAINS}
    if unknown := set(chains) - set(known):
        raise SystemExit(f"there is no chain {', '.join(sorted(unknown))}; {', '.join(known)} are")
    named = [chain for name, chain in known.items() if name in (chains or known)]
    return ways(named, transports or TRANSPORTS)


def _found() -> dict[str, Found]:
    located = locate()
    missing = [one for one in located.values() if not isinstance(one, Found)]
    if missing:
        raise SystemExit(f"{missing[0].name} is missing: {missing[0].reason}")
    return {name: one for name, one in located.items() if isinstance(one, Found)}
