"""The mock vendors seen from a test: start them, set their mood, ask what they were sent.

Plain blocking calls from the standard library, so that tests of any kind (async or not) and the
tests of other folders can use it; each call takes a millisecond on loopback.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .reading import Offered, Simple, system_of, tools_of, turns_of
from .scenario import Recorded

_REPOSITORY = Path(__file__).resolve().parents[3]
_START_SECONDS = 20.0
_CALL_SECONDS = 10.0


class Vendors:
    """A running mock. ``base_url`` serves Anthropic; the other two want ``v1_url``."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.v1_url = f"{base_url}/v1"

    def scenario(
        self, vendor: str | None, name: str | None, arg: str | None = None, times: int | None = None
    ) -> None:
        """Override the markers of one vendor (None: of all) until used up; name None clears."""
        self._post("scenario", {"vendor": vendor, "name": name, "arg": arg, "times": times})

    def quota(self, **values: float) -> None:
        """five_hour, seven_day (0–1) and resets_in (seconds), as the next answers report them."""
        self._post("quota", values)

    def usage(self, **values: int) -> None:
        """input_tokens and output_tokens, as the next answers report them."""
        self._post("usage", values)

    def reset(self) -> None:
        self._post("reset", {})

    def requests(self, vendor: str | None = None) -> list[Recorded]:
        rows = self._call(f"requests?vendor={vendor or ''}", None)
        return [Recorded(**row) for row in rows]

    def wait_for(
        self, vendor: str, wanted: Callable[[list[Recorded]], bool], seconds: float = 10.0
    ) -> list[Recorded]:
        """The vendor's requests, as soon as they are as wanted; an AssertionError after a while."""
        end = time.monotonic() + seconds
        while not wanted(seen := self.requests(vendor)):
            if time.monotonic() > end:
                raise AssertionError(f"{vendor} was not reached as wanted; requests: {seen!r}")
            time.sleep(0.02)
        return seen

    def _post(self, path: str, body: dict[str, Any]) -> None:
        self._call(path, json.dumps(body).encode())

    def _call(self, path: str, body: bytes | None) -> Any:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.base_url}/_mock/{path}", body, headers)
        with _direct().open(request, timeout=_CALL_SECONDS) as response:
            return json.load(response)


def tools(request: Recorded) -> list[Offered]:
    """The tools that a request offered to the model: name, schema, description, strict, as the
    vendor was given them, so with a CLI's prefix and with the CLI's own tools."""
    return tools_of(request.vendor, json.loads(request.body))


def turns(request: Recorded) -> list[Simple]:
    """The conversation that a request brought, alike at all vendors: ``("user", text)``,
    ``("assistant", text)``, ``("call", id, name, arguments)``, ``("result", id, text)``. Images
    stand in the text as ``[image image/png 67 bytes]``, an error as ``[error] text``."""
    return [turn.simple for turn in turns_of(request.vendor, json.loads(request.body))]


def system(request: Recorded) -> str:
    """The system prompt that a request brought, a CLI's own words included."""
    return system_of(request.vendor, json.loads(request.body))


def _direct() -> urllib.request.OpenerDirector:
    """An opener that ignores any proxy of the machine: the mock is on loopback."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def running(log: Path | None = None) -> Iterator[Vendors]:
    """The mock as a process of its own, stopped at the end."""
    command = [sys.executable, "-m", "tests.real.vendors", "--port", "0"]
    if log is not None:
        command += ["--log", str(log)]
    process = subprocess.Popen(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        yield Vendors(_announced(process))
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _announced(process: subprocess.Popen[str]) -> str:
    """The base URL the mock prints once it listens; bounded, whatever the child does."""
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=_first_line, args=(process.stdout, lines), daemon=True).start()
    try:
        line = lines.get(timeout=_START_SECONDS)
    except queue.Empty:
        raise RuntimeError("the mock vendors did not start in time") from None
    if not line:
        raise RuntimeError("the mock vendors ended before they listened")
    return str(json.loads(line)["base_url"])


def _first_line(stream: IO[str], lines: queue.Queue[str]) -> None:
    lines.put(stream.readline())
