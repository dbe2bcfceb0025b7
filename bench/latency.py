"""How long a first word takes: each CLI by hand, and through OLP in each of its ways.

One run on one mock vendor, side by side, so that the ratios are fair whatever the machine. The
CLIs are the real ones that the tests install, the vendors answer at once on loopback.

    bench/latency [--times 20] [--cli claude …] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.direct import started
from olp.config import ProviderConfig
from olp.host.find_cli import find_command
from olp.providers import all_providers
from olp.runtime.process.memory import resident_mb
from tests.real.byhand import run as by_hand
from tests.real.house import House, configuration, serving
from tests.real.install import Found, locate
from tests.real.vendors.client import Vendors, running

MODELS = {"claude": "claude/sonnet", "codex": "codex/gpt-5.5", "vibe": "vibe/mockm"}
VENDOR = {"claude": "anthropic", "codex": "openai", "vibe": "mistral"}
CONTENT = b'"content":"word'


@dataclass
class Row:
    """One way of asking: seconds to the first content, seconds in all, bytes sent upstream."""

    cli: str
    way: str
    first: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    upstream: int = 0
    memory_mb: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "cli": self.cli,
            "way": self.way,
            "first_ms": _spread(self.first),
            "total_ms": _spread(self.total),
            "upstream_bytes": self.upstream,
            "memory_mb": round(self.memory_mb),
        }


def _spread(seconds: list[float]) -> dict[str, float]:
    ms = [1000 * value for value in seconds]
    return {
        "min": round(min(ms), 1),
        "median": round(statistics.median(ms), 1),
        "max": round(max(ms), 1),
    }


def stream(house: House, messages: list[dict[str, Any]], model: str) -> tuple[float, float, str]:
    """One streamed answer: seconds to the first content, in all, and the text."""
    body = json.dumps({"model": model, "stream": True, "messages": messages}).encode()
    began = time.perf_counter()
    first = None
    data = b""
    request = urllib.request.Request(f"{house.url}/v1/chat/completions", body)
    with urllib.request.urlopen(request, timeout=60) as response:
        while chunk := response.read1(65536):
            data += chunk
            if first is None and CONTENT in data:
                first = time.perf_counter() - began
    total = time.perf_counter() - began
    assert first is not None, data
    frames = [line[6:] for line in data.decode().splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for f in frames for choice in json.loads(f)["choices"]]
    return first, total, "".join(delta.get("content") or "" for delta in deltas)


def hand(cli: Found, vendors: Vendors, times: int) -> Row:
    """The CLI started for each prompt, as a person would; its whole time."""
    row = Row(cli.name, "by hand, cold")
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            by_hand(cli, vendors, Path(folder), "hi [[OK]]")
            row.total.append(time.perf_counter() - began)
    row.first = row.total
    row.upstream = vendors.requests(VENDOR[cli.name])[-1].body_bytes
    return row


def hand_eight(cli: Found, vendors: Vendors) -> Row:
    """Eight at the same time by hand; the total is until the last one has ended."""
    row = Row(cli.name, "by hand, eight")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(8) as pool:
        homes = [Path(folder) / str(number) for number in range(8)]
        for home in homes:
            home.mkdir()
        began = time.perf_counter()
        list(pool.map(lambda home: by_hand(cli, vendors, home, "hi [[OK]]"), homes))
        row.first = row.total = [time.perf_counter() - began]
    return row


def through(
    house: House, vendors: Vendors, cli: str, way: str, times: int, before: Callable[[], None]
) -> Row:
    """New conversations through OLP."""
    row = Row(cli, way)
    for number in range(times):
        before()
        messages = [{"role": "user", "content": f"hi {number} [[OK]]"}]
        first, total, _ = stream(house, messages, MODELS[cli])
        row.first.append(first)
        row.total.append(total)
    row.upstream = vendors.requests(VENDOR[cli])[-1].body_bytes
    row.memory_mb = resident_mb(house.process.pid)
    return row


def direct(cli: Found, vendors: Vendors, times: int) -> Row:
    """New conversations with a process that waits, without OLP in between."""
    row = Row(cli.name, "by hand, waiting")
    model = MODELS[cli.name].partition("/")[2]
    with ExitStack() as stack:
        one = stack.enter_context(started(cli, vendors))
        for number in range(times):
            if cli.name == "claude" and number:  # which has one conversation
                stack.close()
                one = stack.enter_context(started(cli, vendors))
            first, total = one.ask(f"hi {number} [[OK]]", model)
            row.first.append(first)
            row.total.append(total)
    return row


def follow_ups(house: House, vendors: Vendors, cli: str, times: int) -> Row:
    """The second message of a conversation that is alive."""
    row = Row(cli, "OLP, follow-up")
    for number in range(times):
        house.wait_until_ready([cli])
        messages = [{"role": "user", "content": f"hi {number} [[OK]]"}]
        _, _, text = stream(house, messages, MODELS[cli])
        messages += [{"role": "assistant", "content": text}]
        messages += [{"role": "user", "content": "more [[OK]]"}]
        first, total, _ = stream(house, messages, MODELS[cli])
        row.first.append(first)
        row.total.append(total)
    row.upstream = vendors.requests(VENDOR[cli])[-1].body_bytes
    return row


def eight(house: House, cli: str) -> Row:
    """Eight new conversations at the same time; the total is until the last byte of the last."""
    row = Row(cli, "OLP, eight at once")
    house.wait_until_ready([cli])
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(stream, house, [{"role": "user", "content": f"{n} [[OK]]"}], MODELS[cli])
            for n in range(8)
        ]
        row.first = [one.result()[0] for one in asked]
    row.total = [time.perf_counter() - began]
    row.memory_mb = resident_mb(house.process.pid)
    return row


def as_found(cli: Found) -> list[str]:
    """The command that OLP finds by itself where the CLI is on PATH."""
    info = all_providers()[cli.name].info
    command = find_command(info, ProviderConfig(), {"PATH": str(cli.path.parent)})
    assert command is not None
    return list(command)


@contextmanager
def houses(found: Mapping[str, Found], vendors: Vendors) -> Iterator[tuple[House, House]]:
    """OLP with waiting processes, and OLP with one process a request."""
    with tempfile.TemporaryDirectory() as warm_folder, tempfile.TemporaryDirectory() as cold_folder:
        warm = configuration(found, vendors)
        cold = configuration(found, vendors)
        for options in cold["providers"].values():
            options["transport"] = "oneshot"
        for config in (warm, cold):
            for name, options in config["providers"].items():
                options["max_concurrent"] = 8
                if name in found:
                    options["command"] = as_found(found[name])
        with serving(warm, Path(warm_folder)) as one, serving(cold, Path(cold_folder)) as other:
            yield one, other


def idle_mb(house: House, clis: Iterable[str]) -> float:
    """Resident memory of the server and of one waiting process of each CLI."""
    house.wait_until_ready(list(clis))
    return resident_mb(house.process.pid)


def measure(found: Mapping[str, Found], times: int) -> tuple[list[Row], float]:
    """All rows, and the memory in MB before the first request."""
    rows = []
    with running() as vendors, houses(found, vendors) as (warm, cold):
        idle = idle_mb(warm, found)
        for cli, one in found.items():
            few = max(2, times // 5) if cli == "vibe" else times
            rows.append(hand(one, vendors, few))
            rows.append(through(cold, vendors, cli, "OLP, one-shot", few, lambda: None))
            warm.wait_until_ready([cli])
            ready = lambda cli=cli: warm.wait_until_ready([cli])  # noqa: E731
            if cli != "vibe":
                rows.append(direct(one, vendors, times))
            rows.append(through(warm, vendors, cli, "OLP, warm", times, ready))
            rows.append(follow_ups(warm, vendors, cli, times))
            if cli != "vibe":
                rows += [hand_eight(one, vendors), eight(warm, cli)]
    return rows, idle


def table(rows: list[Row]) -> Iterator[str]:
    """The rows as text, each with its ratio to the CLI by hand."""
    head = f"{'':7} {'':20} {'first content, ms':>26} {'total, ms':>11}"
    yield f"{head} {'ratio':>6} {'bytes':>7} {'MB':>5}"
    base = 1.0
    for row in rows:
        told = row.as_dict()
        first, total = told["first_ms"], told["total_ms"]
        if row.way == "by hand, cold":
            base = total["median"]
        spread = f"{first['min']:7.0f} {first['median']:7.0f} {first['max']:7.0f}"
        yield (
            f"{row.cli:7} {row.way:20} {spread:>26} {total['median']:11.0f} "
            f"{first['median'] / base:6.2f} {row.upstream or '':>7} {round(row.memory_mb) or '':>5}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--cli", nargs="*", default=["claude", "codex", "vibe"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    located = locate()
    found = {n: f for n in options.cli if isinstance(f := located[n], Found)}
    rows, idle = measure(found, options.times)
    if options.json:
        told = {"idle_mb": round(idle), "rows": [row.as_dict() for row in rows]}
        print(json.dumps(told, indent=2))
    else:
        print("\n".join(table(rows)))
        print(f"idle, with one of each waiting: {idle:.0f} MB")


if __name__ == "__main__":
    main()
