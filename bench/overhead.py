"""What OLP itself costs, over a fake CLI that takes a millisecond.

    bench/overhead [--seconds 5] [--clients 8] [--json]

Requests a second, milliseconds a request and the server's own CPU for it, one process a request and
with waiting processes, and the CPU of an answer of 20,000 pieces against a bare loop that reads the
lines, parses the JSON and writes the events.

Where other programs run too, only the CPU can be compared with another time's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.real.house import House, serving

HERE = Path(__file__).parent
PIECES = 20_000


@contextmanager
def built() -> Iterator[Path]:
    """The fake CLI, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "fake"
        subprocess.run(["cc", "-O2", "-o", program, HERE / "fake_cli.c"], check=True)
        yield program


def configuration(program: Path, pieces: int = 1) -> dict[str, Any]:
    """claude as one process a request, codex as waiting processes, both the fake."""
    fake = {"command": [str(program)], "args": ["--deltas", str(pieces)], "max_concurrent": 64}
    return {
        "providers": {
            "claude": {**fake, "transport": "oneshot"},
            "codex": {**fake, "warm": 8},
            "vibe": {"enabled": False},
        },
        "workers": {"max_processes": 64},
        "server": {"max_requests": 1000},
    }


async def client(port: int, body: bytes, until: float, times: list[float]) -> None:
    """One connection that asks again and again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    request = f"{head}\r\n\r\n".encode() + body
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(request)
        headers = await reader.readuntil(b"\r\n\r\n")
        assert headers.startswith(b"HTTP/1.1 200"), headers
        length = int(headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - began)
    writer.close()


async def load(house: House, model: str, clients: int, seconds: float) -> dict[str, float]:
    """Requests a second, milliseconds a request, and the server's CPU for one."""
    port = int(house.url.rpartition(":")[2])
    times: list[float] = []
    until = time.perf_counter() + seconds
    asks = [
        json.dumps({"model": model, "messages": [{"role": "user", "content": f"hi {n}"}]}).encode()
        for n in range(clients)
    ]
    cpu, began = cpu_of(house.process.pid), time.perf_counter()
    await asyncio.gather(*(client(port, ask, until, times) for ask in asks))
    spent, cpu = time.perf_counter() - began, cpu_of(house.process.pid) - cpu
    return {
        "clients": clients,
        "requests_per_s": round(len(times) / spent),
        "median_ms": round(1000 * statistics.median(times), 2),
        "p99_ms": round(1000 * sorted(times)[int(len(times) * 0.99)], 2),
        "server_cpu_ms": round(1000 * cpu / len(times), 2),
    }


def by_hand(program: Path, times: int = 200) -> float:
    """Milliseconds of the fake CLI alone."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([program, "-p"], input=b"hi", capture_output=True, check=True)
        spent.append(time.perf_counter() - began)
    return 1000 * statistics.median(spent)


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used, its children left out."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare_loop(program: Path) -> float:
    """Seconds of CPU to read the lines, parse the JSON and write the events, and nothing else."""
    fake = subprocess.Popen([program, "--deltas", str(PIECES)], stdin=-1, stdout=-1)
    assert fake.stdin is not None and fake.stdout is not None
    fake.stdin.close()
    began = time.process_time()
    with Path(os.devnull).open("wb") as out:
        for line in fake.stdout:
            event = json.loads(line).get("event") or {}
            text = (event.get("delta") or {}).get("text")
            if text is not None:
                delta = {"choices": [{"index": 0, "delta": {"content": text}}]}
                out.write(b"data: " + json.dumps(delta).encode() + b"\n\n")
    spent = time.process_time() - began
    fake.wait()
    return spent


def long_answer(program: Path, folder: Path) -> float:
    """Seconds of CPU of the server for one such answer, streamed."""
    with serving(configuration(program, PIECES), folder) as house:
        house.chat("warm up", "claude/sonnet", stream=True)
        before = cpu_of(house.process.pid)
        answer = house.chat("hi", "claude/sonnet", stream=True)
        assert answer.text.endswith(f"word{PIECES - 1} ")
        return cpu_of(house.process.pid) - before


def measure(seconds: float, clients: int) -> dict[str, Any]:
    """All numbers."""
    with (
        built() as program,
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
    ):
        hand = by_hand(program)
        with serving(configuration(program), Path(one)) as house:
            house.wait_until_ready(["codex"])
            alone = asyncio.run(load(house, "claude/sonnet", 1, seconds))
            oneshot = asyncio.run(load(house, "claude/sonnet", clients, seconds))
            reused = asyncio.run(load(house, "codex/gpt-5.5", clients, seconds))
        bare, served = bare_loop(program), long_answer(program, Path(two))
    return {
        "cli_by_hand_ms": round(hand, 2),
        "oneshot_one_client": alone,
        "overhead_ms": round(alone["median_ms"] - hand, 2),
        "oneshot": oneshot,
        "waiting": reused,
        "long_answer_cpu_s": {"bare_loop": round(bare, 3), "olp": round(served, 3)},
        "long_answer_ratio": round(served / bare, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numbers = measure(options.seconds, options.clients)
    if options.json:
        print(json.dumps(numbers, indent=2))
        return
    for name, value in numbers.items():
        print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
