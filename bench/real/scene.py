"""Where one fault is played: mock vendors, a real server over the real CLIs, and a client.

Each fault in each mode gets all of them fresh, so that no hold, breaker or waiting process of one
decides another. The mock runs in this process; the server and its CLIs are processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import tomli_w

from tests.real.house import configuration
from tests.real.install import Found
from tests.real.vendors import Recorded, Scenario, State, make_app, serve
from tests.real.vendors.client import Vendors
from tests.real.vendors.scenario import Override
from tests.support import Answer, Client, ask

HOPS = {"claude": "claude/sonnet", "codex": "codex/gpt-5.5", "vibe": "vibe/mistral-medium-3.5"}
VENDOR = {"claude": "anthropic", "codex": "openai", "vibe": "mistral"}
MODELS = {"claude": "sonnet", "codex": "gpt-5.5", "vibe": "mistral-medium-3.5"}
"""What must stand in the model's name wherever that CLI's vendor is asked."""

PACE_S = 0.015
"""Between two words of an answer, as in the catalogue."""

PATIENCE_S = 60.0
"""A client that has waited so long for an answer takes it for a hang."""

START_S = 60.0
"""The longest until a server listens and its CLIs wait."""

_ASKED = ("/v1/messages", "/v1/responses", "/v1/chat/completions")


@dataclass(frozen=True, slots=True)
class Way:
    """How the faults are met: the CLIs of the chain in order, streamed or not, and OLP's transport
    (`auto`: CLIs that wait; `oneshot`: one process a request)."""

    chain: tuple[str, ...]
    stream: bool
    transport: str

    @property
    def chain_name(self) -> str:
        return " → ".join(self.chain)

    @property
    def mode(self) -> str:
        return "streaming" if self.stream else "buffered"

    @property
    def name(self) -> str:
        return f"{self.chain_name}, {self.mode}, {self.transport}"


@dataclass
class Reply:
    """What a client got, after how long, and how often each hop's vendor was asked for it.
    `answer` is None where nothing came to an end in time."""

    answer: Answer | None
    seconds: float
    asked: tuple[int, ...]
    sent_at: float
    strangers: tuple[str, ...] = ()

    @property
    def hop(self) -> int | None:
        """The hop that answered, by the headers."""
        told = self.answer.headers.get("X-OLP-Fallback-Hops") if self.answer else None
        return int(told) if told else None


@dataclass
class Scene:
    """One fault on one way. What the table tells gathers in `replies`."""

    folder: Path
    found: Mapping[str, Found]
    way: Way
    replies: list[Reply] = field(default_factory=list)
    _houses: int = 0

    @asynccontextmanager
    async def house(self, **tables: Any) -> AsyncIterator[House]:
        """A server with the chain `c` and, where nothing else is said, its default configuration;
        both vendors healthy."""
        self._houses += 1
        folder = self.folder / str(self._houses)
        folder.mkdir(parents=True)
        state = State(pace_s=PACE_S)
        async with AsyncExitStack() as stack:
            base_url = await stack.enter_async_context(serve(make_app(state)))
            file = self._configure(folder, Vendors(base_url), tables)
            url = await stack.enter_async_context(_server(file, folder))
            connector = aiohttp.TCPConnector(limit=0)
            http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            house = House(self, state, Client(url, http, PATIENCE_S))
            if self.way.transport == "auto":
                await house.wait_until_ready()
            yield house

    def _configure(self, folder: Path, vendors: Vendors, tables: dict[str, Any]) -> Path:
        """An olp.toml with the CLIs of the chain, `tables` put over it."""
        found = {name: self.found[name] for name in self.way.chain}
        config = configuration(found, vendors)
        config["providers"]["codex"] = _retrying(config["providers"]["codex"])
        config["providers"]["vibe"] = _named(config["providers"]["vibe"])
        hops = [HOPS[name] for name in self.way.chain]
        config["chains"] = {"c": hops, **tables.pop("chains", {})}
        config["server"] = {"port": 0, "state_dir": str(folder / "state"), "drain_s": 1}
        for name in found:
            options = config["providers"][name]
            options["transport"] = self.way.transport
            options.update(tables.get("providers", {}).get(name, {}))
        config |= {name: table for name, table in tables.items() if name != "providers"}
        file = folder / "olp.toml"
        file.write_text(tomli_w.dumps(config), "utf-8")
        return file


def _retrying(codex: dict[str, Any]) -> dict[str, Any]:
    """A codex provider as an owner writes it: who says nothing of retries gets codex's own."""
    args = [arg.replace(_NO_RETRIES, "") for arg in codex.get("args", ())]
    return {**codex, "args": args}


def _named(vibe: dict[str, Any]) -> dict[str, Any]:
    """vibe with its model under the vendor's own name, as in its own configuration."""
    config, model = vibe.get("config", {}), HOPS["vibe"].partition("/")[2]
    models = [{**one, "alias": model} for one in config.get("models", ())]
    return {**vibe, "config": {**config, "models": models}, "default_model": model}


_NO_RETRIES = ",request_max_retries=0,stream_max_retries=0"


@asynccontextmanager
async def _server(file: Path, folder: Path) -> AsyncIterator[str]:
    """`olp serve` with this configuration; yields its address."""
    home = folder / "home"
    home.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "olp", "serve", "--config", str(file)]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=log, env=env
        )
    try:
        yield await _address(process, folder / "log")
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()


async def _address(process: asyncio.subprocess.Process, log: Path) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(START_S):
        line = (await process.stdout.readline()).decode()
    found = re.search(r"(http://\S+)/v1", line)
    if found is None:
        raise RuntimeError(f"the server did not start: {_tail(log)}")
    return found[1]


def _tail(log: Path) -> str:
    return log.read_text("utf-8").strip()[-300:]


class House:
    """The running server seen by its clients, and what its vendors are told to do."""

    def __init__(self, scene: Scene, state: State, client: Client) -> None:
        self.scene = scene
        self.state = state
        self.client = client
        self.clients_asked = 0
        for hop, _ in enumerate(scene.way.chain):
            self.well(hop)

    def tell(self, hop: int, order: str, times: int | None = None) -> None:
        """What that hop's vendor does from now on: for ever, or so many times and then well."""
        name, _, arg = order.partition(":")
        well = Override(Scenario("LONG", f"{WORDS}:{NAMES[hop]}"))
        vendor = VENDOR[self.scene.way.chain[hop]]
        self.state.overrides[vendor] = Override(Scenario(name, arg or None), times, well)

    def well(self, hop: int) -> None:
        """That hop's vendor answers from now on."""
        self.tell(hop, f"LONG:{WORDS}:{NAMES[hop]}")

    async def ask(self, text: str = "hello", model: str = "c", **more: Any) -> Reply:
        """One request in this scene's mode."""
        self.clients_asked += 1
        way, began = self.scene.way, len(self.state.requests)
        sent_at = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self.client.ask(way.stream, ask(text, model, **more))
        except TimeoutError:
            answer = None
        seconds = time.monotonic() - sent_at
        asked, strangers = self.asked(began)
        reply = Reply(answer, seconds, asked, sent_at, strangers)
        self.scene.replies.append(reply)
        return reply

    def asked(self, since: int = 0) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """How often each hop's vendor was asked for an answer, and what else was asked: vendors or
        models that nobody named."""
        counts = dict.fromkeys(self.scene.way.chain, 0)
        strangers = []
        for request in self.state.requests[since:]:
            name = next((n for n, v in VENDOR.items() if v == request.vendor), "")
            if request.path.partition("?")[0] not in _ASKED:
                continue
            model = _model(request)
            if name in counts and MODELS[name] in model:
                counts[name] += 1
            else:
                strangers.append(f"{request.vendor}/{model}")
        return tuple(counts.values()), tuple(strangers)

    def bodies(self, hop: int) -> list[str]:
        """What that hop's vendor was sent."""
        vendor = VENDOR[self.scene.way.chain[hop]]
        return [r.body for r in self.state.requests if r.vendor == vendor]

    async def wait_until_ready(self) -> None:
        """Until a process of each CLI waits for a request."""
        async with asyncio.timeout(START_S):
            while True:
                health = (await self.client.request("GET", "/health")).body["providers"]
                if all(health[name]["waiting"]["ready"] for name in self.scene.way.chain):
                    return
                await asyncio.sleep(0.05)


def _model(request: Recorded) -> str:
    return str(json.loads(request.body).get("model"))


WORDS = 60
NAMES = ("one", "two")
"""What the words of each hop's answer are called, so that nobody's can be taken for another's."""


def text_of(hop: int, words: int = WORDS) -> str:
    """The answer of that hop's vendor, or its first so many words."""
    return "".join(f"{NAMES[hop]}{number} " for number in range(words))
