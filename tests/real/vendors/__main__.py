"""Runs the mock vendors as a process of their own, for tests that must not share an event loop."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

from .server import make_app, serve


async def run(port: int, log: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with serve(make_app(log=log), port) as base_url:
        print(json.dumps({"port": urlsplit(base_url).port, "base_url": base_url}), flush=True)
        await stopped.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.real.vendors", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, default=None)
    options = parser.parse_args()
    asyncio.run(run(options.port, options.log))


if __name__ == "__main__":
    main()
