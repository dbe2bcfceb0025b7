"""What the tests of a running OLP share: a house with fake CLIs, a client, and bounded waits.

The server is started by the function that starts it in production, `olp.cli.serve.running`, or as
`python -m olp serve` in a process of its own. Nothing in here stands in for a part of OLP.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import aiohttp
import pytest
import tomli_w

from olp.cli import compose as composition
from olp.cli.running import Running, running
from olp.runtime.log import Log
from olp.runtime.process.run_folder import RunFolder
from olp.runtime.serving.service import Service
from tests.fakes import NAMES
from tests.fakes.plan import Plan

PATIENCE_S = 20.0
"""The longest that a test waits for anything: far more than it takes, so that a slow machine does
not fail, and short enough to find a hang."""

CHAT = "/v1/chat/completions"
CHAIN = ("claude/sonnet", "codex/gpt-5.5", "vibe/mistral-medium-3.5")
"""What `auto` is when all three CLIs are there."""

ALL = "OLP_TEST_ALL"
"""Set in the environment of a run with `--all`."""


def examples(count: int) -> int:
    """So many examples of a property in a run with `--all`, and a tenth of them each day."""
    return count if os.environ.get(ALL) else count // 10


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
"""Runs a test without streaming and with it."""

Tables = Mapping[str, Any]
T = TypeVar("T")


# --- waiting -----------------------------------------------------------------------------------


async def until(true: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait until `true()`; AssertionError with `what` if that takes too long."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"after {seconds} s still not: {what}"
        await asyncio.sleep(0.01)


async def soon(work: Awaitable[T], seconds: float = PATIENCE_S) -> T:
    """The result of `work`, which must come in time."""
    async with asyncio.timeout(seconds):
        return await work


def exists(pid: int) -> bool:
    """Whether there is such a process; one that has ended but was not waited for still is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def runs(pid: int) -> bool:
    """Whether the process runs: an orphan that has ended may have to wait for its new parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return exists(pid) and not Path("/proc/self/stat").exists()
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def end(pid: int) -> None:
    """End a process that a test left on purpose."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class GoOn:
    """A sign that a fake waits for: `go_on.wait` is its action, `go_on.now()` the sign."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.wait = ["until", str(path)]

    def now(self) -> None:
        """Let the fake go on."""
        self._path.touch()


# --- answers -----------------------------------------------------------------------------------


@dataclass
class Answer:
    """One whole answer over HTTP."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return json.loads(self.raw)

    @property
    def text(self) -> str:
        """What the model said."""
        assert self.status == 200, (self.status, self.raw)
        return str(self.body["choices"][0]["message"]["content"])

    @property
    def finish(self) -> str:
        """Why it stopped."""
        return str(self.body["choices"][0]["finish_reason"])

    @property
    def error(self) -> Mapping[str, Any]:
        """The error object."""
        found = self.body["error"]
        assert set(found) == {"message", "type", "param", "code"}, found
        return dict(found)

    @property
    def detail(self) -> list[dict[str, Any]]:
        """The X-OLP-Fallback-Detail header; empty if it is absent."""
        return list(json.loads(self.headers.get("X-OLP-Fallback-Detail", "[]")))

    @property
    def codes(self) -> list[str]:
        """The codes in that header."""
        return [record["code"] for record in self.detail]

    @property
    def served(self) -> tuple[str, str, int]:
        """Provider, model and hops by the headers."""
        headers = self.headers
        hops = int(headers["X-OLP-Fallback-Hops"])
        return headers["X-OLP-Provider-Used"], headers["X-OLP-Model-Used"], hops


@dataclass
class Streamed(Answer):
    """One streamed answer: what came, and when, in seconds since the request."""

    frames: list[tuple[float, str]] = field(default_factory=list)
    broken: bool = False

    @property
    def data(self) -> list[dict[str, Any]]:
        """The JSON of every frame."""
        texts = [text.removeprefix("data: ") for _, text in self.frames if text[:6] == "data: "]
        return [json.loads(text) for text in texts if text != "[DONE]"]

    @property
    def done(self) -> bool:
        """Whether it ended with [DONE]."""
        return bool(self.frames) and self.frames[-1][1] == "data: [DONE]"

    @property
    def comments(self) -> list[float]:
        """When the comments came."""
        return [at for at, text in self.frames if text.startswith(":")]

    def _choices(self) -> list[dict[str, Any]]:
        return [chunk["choices"][0] for chunk in self.data if chunk.get("choices")]

    @property
    def pieces(self) -> list[str]:
        """The pieces of the text, in order, empty ones left out."""
        found = [choice["delta"].get("content") for choice in self._choices()]
        return [piece for piece in found if piece]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def reasoning(self) -> str:
        """The thinking that was shown."""
        return "".join(c["delta"].get("reasoning_content") or "" for c in self._choices())

    @property
    def finish(self) -> str:
        finishes = [c["finish_reason"] for c in self._choices() if c["finish_reason"]]
        assert len(finishes) == 1, finishes
        return str(finishes[0])

    @property
    def finished(self) -> bool:
        """Whether any finish reason came."""
        return any(choice["finish_reason"] for choice in self._choices())

    @property
    def error(self) -> Mapping[str, Any]:
        if self.status != 200:
            return super().error
        found = [chunk["error"] for chunk in self.data if "error" in chunk]
        assert len(found) == 1, self.frames
        return dict(found[0])


def ask(text: str = "hello", model: str = "auto", **more: Any) -> dict[str, Any]:
    """The body of a request with one user message."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


# --- the house ---------------------------------------------------------------------------------


def write_config(path: Path, plan: Plan, tables: Tables) -> Path:
    """A configuration file: a free port, folders beside the file, the fakes' plan, and `tables`.

    Each request gets a process of its own, as long as a test does not ask for another transport.
    """
    providers = {name: dict(options) for name, options in tables.get("providers", {}).items()}
    for name in NAMES:
        options = providers.setdefault(name, {})
        options.setdefault("transport", "oneshot")
        options["env"] = {"FAKE_PLAN": str(plan.path), **options.get("env", {})}
    server = {"port": 0, "state_dir": str(path.parent / "state"), **tables.get("server", {})}
    path.write_text(tomli_w.dumps({**tables, "server": server, "providers": providers}))
    return path


class Client:
    """An HTTP client of one server, with so much patience."""

    def __init__(
        self, url: str, http: aiohttp.ClientSession, patience_s: float = PATIENCE_S
    ) -> None:
        self.url = url
        self.http = http
        self.patience_s = patience_s

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        """Any request."""
        async with asyncio.timeout(self.patience_s):
            async with self.http.request(method, self.url + path, **options) as response:
                raw = await response.read()
                return Answer(response.status, response.headers, raw)

    async def chat(
        self, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A whole answer."""
        return await self.request("POST", CHAT, json=body or ask(), headers=headers)

    @asynccontextmanager
    async def opened(
        self, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A stream whose head has come; leaving the block leaves the stream."""
        body = {**(body or ask()), "stream": True}
        sent = self.http.post(self.url + CHAT, json=body, headers=headers)
        response = await soon(sent, self.patience_s)
        try:
            yield response
        finally:
            response.close()

    async def ask(self, stream: bool, body: Mapping[str, Any] | None = None) -> Answer:
        """One request, in either mode."""
        return await (self.stream(body) if stream else self.chat(body))

    async def stream(
        self, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Streamed:
        """A streamed answer, to its end."""
        began = time.monotonic()
        async with asyncio.timeout(self.patience_s), self.opened(body, headers) as response:
            if response.status != 200:
                return Streamed(response.status, response.headers, await response.read())
            assert response.content_type == "text/event-stream"
            answer = Streamed(200, response.headers, b"")
            await _read_frames(response, answer, began)
            return answer


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """A client of the server at `url`."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        yield Client(url, http)


class House(Client):
    """A server in this process, its CLIs fakes, and a client."""

    def __init__(
        self, server: Running, place: RunFolder, plan: Plan, log: io.StringIO, client: Client
    ) -> None:
        super().__init__(client.url, client.http)
        self.server = server
        self.place = place
        self.plan = plan
        self.mistakes_expected = False
        self._log = log

    @property
    def service(self) -> Service:
        """The service that answers now."""
        return self.server.service

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log's lines."""
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of one event."""
        return [line for line in self.log if line["event"] == event]

    @property
    def active(self) -> dict[str, int]:
        """The slots that are taken, by provider."""
        health = self.service.health()["providers"]
        taken = {name: report["slots"]["active"] for name, report in health.items()}
        return {name: count for name, count in taken.items() if count}

    @property
    def private(self) -> list[str]:
        """The private folders that are there."""
        return os.listdir(self.place.private)  # noqa: PTH208

    async def settled(self) -> None:
        """Wait until no answer is being made, no process of one is being ended, and all of it is in
        the record."""
        await until(lambda: not (self.service.in_flight or self.active), "nothing in flight")
        await asyncio.wrap_future(self.service.lasting.store.written())


async def _read_frames(response: aiohttp.ClientResponse, answer: Streamed, began: float) -> None:
    held = b""
    try:
        async for data in response.content.iter_any():
            *whole, held = (held + data).split(b"\n\n")
            at = time.monotonic() - began
            answer.frames += [(at, frame.decode()) for frame in whole]
    except aiohttp.ClientError:
        answer.broken = True
    assert held == b"", "the stream ended inside a frame"


@asynccontextmanager
async def open_house(folder: Path, plan: Plan, tables: Tables) -> AsyncIterator[House]:
    """A running house; leaving the block ends it and looks whether anything was left."""
    path = write_config(folder / "olp.toml", plan, tables)
    config = composition.read_config(str(path)).config
    text = io.StringIO()
    log = Log(text, level="debug")
    place = RunFolder(Path(config.server.state_dir))
    place.open()
    try:
        found = composition.find_providers(config)
        async with running(config, found, place, log) as server, connected(server.url) as client:
            house = House(server, place, plan, text, client)
            yield house
        _nothing_left(house)
    finally:
        place.close()


def _nothing_left(house: House) -> None:
    """M6, after every test: no process, no slot, no private folder, no lost error."""
    pids = [call.pid for call in house.plan.calls()]
    pids += [int(survey["pid"]) for survey in house.plan.surveys()]
    left = [pid for pid in pids if exists(pid)]
    for pid in left:
        end(pid)
    assert not left, f"processes were left: {left}"
    assert not house.active, house.active
    assert not house.private, house.private
    mistakes = house.logged("task_failed") + house.logged("unexpected")
    assert house.mistakes_expected or not mistakes, mistakes


# --- a server of its own -----------------------------------------------------------------------


class Served:
    """`python -m olp serve` as a process. `wait` gives its exit code."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._out, self._err = folder / "stdout.txt", folder / "stderr.txt"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "olp", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    @property
    def out(self) -> str:
        """What it printed."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it printed on standard error: the log."""
        return self._err.read_text()

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log's lines."""
        return [json.loads(line) for line in self.err.splitlines()]

    def url(self) -> str:
        """Its address, once it listens."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(line.get("event") == "serving" for line in self._whole_lines()):
            assert self.process.poll() is None, self.err
            assert time.monotonic() < deadline, "it does not listen"
            time.sleep(0.02)
        found = next(line for line in self._whole_lines() if line.get("event") == "serving")
        return str(found["url"])

    def _whole_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.err.split("\n")[:-1]]

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, seconds: float = PATIENCE_S) -> int:
        """Its exit code, when it has ended."""
        return self.process.wait(seconds)
