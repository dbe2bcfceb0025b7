"""A day of a family: five people, four kinds of clients, a limit, a revoked key, a restart and a
crash; and in the evening the book says exactly what the clients saw.

Some two hundred requests in the normal run; `--family-requests 2000` (or the variable
OLP_FAMILY_REQUESTS) makes it a long day.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from olp.core.keys.time_range import TimeRange
from olp.runtime.access.keyring import Keyring
from olp.runtime.usage.report import UsageReport
from olp.runtime.usage.store import UsageStore
from tests.conftest import Serve
from tests.fakes.plan import Plan, fails, says, turn
from tests.support import CHAT, GoOn, Served, until

SETTLED_S = 1.0
"""An answer that ended so shortly before the crash counts as in the air: its line may have been on
its way to the disk. It is never lost, but may stand there as interrupted."""

SLOT = {"max_concurrent": 30}
TABLES: dict[str, Any] = {
    "workers": {"max_processes": 0},
    "providers": {"claude": SLOT, "codex": SLOT, "vibe": SLOT},
}

KINDS = ("quickly", "slowly", "elsewhere", "quickly", "twins", "quickly", "nowhere", "slowly")
SHAPES = ("stream", "whole", "cut", "stream", "whole", "hang up", "cut")


@dataclass(eq=False)
class Seen:
    """One request as its client saw it. `outcome` is None as long as it has not ended."""

    person: str
    shape: str
    text: str
    id: str | None = None
    status: int | None = None
    outcome: str | None = None
    code: str = ""
    provider: str = ""
    hops: int = 0
    tokens: tuple[int, int] | None = None
    ended_at: float = 0.0


@dataclass(eq=False)
class Person:
    """One member of the family and their client."""

    name: str
    token: str
    kinds: Iterator[str]
    shapes: Iterator[str]
    numbers: Iterator[int] = field(default_factory=itertools.count)


class Family:
    """Everybody's clients. They ask while `home.is_set()`: while there is a server."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.url = ""
        self.home = asyncio.Event()
        self.seen: list[Seen] = []
        self._http = http

    @property
    def in_air(self) -> list[Seen]:
        """What has not ended."""
        return [seen for seen in self.seen if seen.outcome is None]

    async def live(self, person: Person, count: int) -> None:
        """A person's requests, one after the other; twins are two at a time."""
        for _ in range(count):
            kind, shape = next(person.kinds), next(person.shapes)
            text = f"{kind} {next(person.numbers)}"
            if shape == "hang up":
                text = text.replace(kind, "slowly")
            both = [self.ask(person, shape, text) for _ in range(2 if kind == "twins" else 1)]
            await asyncio.gather(*both)

    async def ask(self, person: Person, shape: str, text: str) -> Seen:
        """One request, to its end whatever that is."""
        await self.home.wait()
        seen = Seen(person.name, shape, text)
        self.seen.append(seen)
        body: dict[str, Any] = {"model": "auto", "messages": [{"role": "user", "content": text}]}
        if shape != "whole":
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if shape == "cut":
            body["stop"] = ["STOP"]
        headers = {"Authorization": f"Bearer {person.token}"}
        try:
            async with self._http.post(self.url + CHAT, json=body, headers=headers) as response:
                await self._read(response, seen)
        except aiohttp.ClientError:
            seen.outcome = "broken"
        seen.ended_at = time.monotonic()
        return seen

    async def _read(self, response: aiohttp.ClientResponse, seen: Seen) -> None:
        seen.id = response.headers["X-OLP-Request-Id"]
        seen.status = response.status
        seen.provider = response.headers["X-OLP-Provider-Used"]
        seen.hops = int(response.headers["X-OLP-Fallback-Hops"])
        if seen.status != 200:
            seen.code = (await response.json())["error"]["code"]
            seen.outcome = "failed" if seen.provider != "none" else "refused"
            return
        if seen.shape == "hang up":
            await response.content.readuntil(b"one ")
            response.close()
            seen.outcome = "left"
            return
        raw = (await response.read()).decode()
        if seen.shape != "whole":
            assert raw.endswith("data: [DONE]\n\n"), raw
            raw = raw.rstrip().split("\n\n")[-2].removeprefix("data: ")
        usage = json.loads(raw)["usage"]
        seen.tokens = (usage["prompt_tokens"], usage["completion_tokens"])
        seen.outcome = "answered"


def set_plan(plan: Plan, go_on: GoOn) -> None:
    """What the CLIs answer to each kind of question."""
    slow = says("one ", *["two "] * 8, every=0.1, when="slowly")
    held = turn(["init"], ["start"], ["say", "one "], go_on.wait, ["say", "two"], ["end"])
    busy = {kind: {**fails("rate"), "when": kind} for kind in ("elsewhere", "nowhere")}
    plan.set(
        claude=[
            *(slow, {**held, "when": "held"}, *busy.values()),
            says("one ", "two ", "three STOP four", when=""),
        ],
        codex=[busy["nowhere"], says("one ", "of codex")],
        vibe=[busy["nowhere"], says("one ", "of vibe")],
    )


@dataclass
class Town:
    """The machine: its server, its commands, its book."""

    folder: Path
    serve: Serve
    server: Served | None = None

    def start(self) -> str:
        """A server over the same state; its address."""
        self.server = self.serve(**TABLES)
        return self.server.url()

    async def olp(self, *arguments: str) -> str:
        """What a command of the owner prints."""
        command = [sys.executable, "-m", "olp", *arguments]
        env = {**os.environ, "OLP_CONFIG": str(self.folder / "olp.toml")}
        done = await asyncio.to_thread(
            subprocess.run, command, env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def end(self, number: int) -> None:
        """End the server by a signal."""
        assert self.server is not None
        self.server.signal(number)

    async def over(self) -> int:
        """Its exit code."""
        assert self.server is not None
        return await asyncio.to_thread(self.server.wait, 30)

    @property
    def accounts(self) -> UsageReport:
        """The book."""
        state = self.folder / "state"
        names = {key.id: key.name for key in Keyring(state).look().keys}
        return UsageReport(UsageStore(state / "olp.db"), names)


@pytest.fixture
def requests(request: pytest.FixtureRequest) -> int:
    """How many requests the family makes."""
    given = request.config.getoption("--family-requests")
    return int(given or os.environ.get("OLP_FAMILY_REQUESTS", 200))


@pytest.mark.timeout(900)
async def test_L5_in_the_evening_the_book_says_what_the_clients_saw(
    serve: Serve, tmp_path: Path, plan: Plan, go_on: GoOn, requests: int
) -> None:
    set_plan(plan, go_on)
    town = Town(tmp_path, serve)
    each = requests // 5
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        family = Family(http)
        family.url = town.start()
        people = await _move_in(town, limit=max(5, each // 2))
        days = [asyncio.ensure_future(family.live(person, each)) for person in people]
        family.home.set()

        revoked = await _revoke_in_mid_stream(town, family, people[3], go_on)
        await until(lambda: len(family.seen) > requests * 0.4, "it is noon", 300)
        await _restart(town, family)
        await until(lambda: len(family.seen) > requests * 0.7, "it is afternoon", 300)
        in_air = await _crash(town, family)
        await asyncio.gather(*days)
        town.end(signal.SIGTERM)
        assert await town.over() == 0
    check_everything_happened(family.seen, in_air, revoked)
    check_book(town, family.seen, in_air)
    check_counts(town, in_air)
    check_commands(town, json.loads(await town.olp("usage", "--json", "--since", "all")))


async def _move_in(town: Town, limit: int) -> list[Person]:
    """Five keys, made with the command; the third has a limit."""
    people = []
    for index, name in enumerate(("Anna", "Ben", "Cleo", "Dora", "Emil")):
        more = {"Anna": ["--owner"], "Cleo": ["--daily-requests", str(limit)]}.get(name, [])
        made = json.loads(await town.olp("keys", "add", name, *more, "--json"))
        kinds, shapes = itertools.cycle(KINDS), itertools.cycle(SHAPES)
        person = Person(
            name,
            made["token"],
            itertools.islice(kinds, index, None),
            itertools.islice(shapes, 2 * index, None),
        )
        people.append(person)
    return people


async def _revoke_in_mid_stream(
    town: Town, family: Family, person: Person, go_on: GoOn
) -> list[Seen]:
    """What the person saw of the stream in whose middle their key was revoked, and afterwards."""
    asking = asyncio.ensure_future(family.ask(person, "stream", "held 0"))
    await until(lambda: any(s.text == "held 0" and s.id for s in family.seen), "it streams", 60)
    await town.olp("keys", "revoke", person.name)
    go_on.now()
    return [await asking, await family.ask(person, "whole", "quickly after all")]


async def _restart(town: Town, family: Family) -> None:
    """SIGTERM: what is being answered is answered to its end, and the day goes on."""
    family.home.clear()
    await asyncio.sleep(0.3)  # whoever was about to ask has asked
    town.end(signal.SIGTERM)
    assert await town.over() == 0
    await until(lambda: not family.in_air, "everybody has their answer")
    assert not [seen for seen in family.seen if seen.outcome == "broken"]
    family.url = await asyncio.to_thread(town.start)
    family.home.set()


async def _crash(town: Town, family: Family) -> list[Seen]:
    """SIGKILL in the middle of it; the requests that were in the air."""
    await until(lambda: len(family.in_air) >= 3, "several are in the air")
    family.home.clear()
    now = time.monotonic()
    town.end(signal.SIGKILL)
    in_air = [s for s in family.seen if s.outcome is None or now - s.ended_at < SETTLED_S]
    await town.over()
    await until(lambda: not family.in_air, "everybody has noticed")
    family.url = await asyncio.to_thread(town.start)
    family.home.set()
    return in_air


def check_everything_happened(seen: list[Seen], in_air: list[Seen], revoked: list[Seen]) -> None:
    """The day was as it was meant to be."""
    outcomes = Counter((s.outcome, s.shape) for s in seen)
    for shape in ("stream", "whole", "cut"):
        assert outcomes["answered", shape] > 5, outcomes
    assert outcomes["left", "hang up"] > 2
    assert any(s.outcome == "answered" and s.provider == "codex" and s.hops == 1 for s in seen)
    assert any(s.outcome == "failed" for s in seen)
    assert any(s.code == "insufficient_quota" and s.person == "Cleo" for s in seen)
    assert [(s.outcome, s.status) for s in revoked] == [("answered", 200), ("refused", 401)]
    assert all(s.status == 401 for s in seen[seen.index(revoked[1]) :] if s.person == "Dora")
    broken = [s for s in seen if s.outcome == "broken"]
    assert broken and set(broken) <= set(in_air)


def check_book(town: Town, seen: list[Seen], in_air: list[Seen]) -> None:
    """Each request is there once, as its client saw it. Of those that were in the air at the crash
    one may be missing or interrupted, and no others are."""
    rows = town.accounts.requests()
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows), "a request is there twice"
    known = {s.id: s for s in seen if s.id and s.status != 401}
    assert not [s for s in seen if s.status == 401 and s.id in by_id], "nobody's request"
    wrong = []
    for name, one in known.items():
        if one in in_air:
            continue
        row = by_id.get(name)
        if row is None or told_by(row) != told_by(as_row(one, row)):
            wrong.append((one, row))
    assert wrong == []
    others = [row for row in rows if row["id"] not in known]
    lost = [s for s in in_air if s.id is None or s.id not in by_id]
    assert len(others) <= len(lost) <= len(in_air)
    assert {row["outcome"] for row in others} <= {"interrupted"}
    interrupted = [row["id"] for row in rows if row["outcome"] == "interrupted"]
    assert 0 < len(interrupted) <= len(in_air)
    broken = {s.id for s in seen if s.outcome == "broken" and s.id}
    assert broken <= set(interrupted), "an answer that had begun is known to have broken off"


def as_row(seen: Seen, row: dict[str, Any]) -> dict[str, Any]:
    """What the row should be, by what its client saw. Only the client of an identical request that
    shared its answer cannot know who of them carries the tokens, and one that hung up does not
    know any."""
    tokens = seen.tokens or (0, 0)
    if row["cache"] == "shared":
        tokens = (0, 0)
    elif seen.outcome == "left":
        assert row["estimated"] == 1 and row["output"] > 0
        tokens = (row["input"], row["output"])
    return {
        "name": seen.person,
        "outcome": seen.outcome,
        "status": seen.status,
        "provider": "" if seen.provider == "none" else seen.provider,
        "hops": seen.hops,
        "input": tokens[0],
        "output": tokens[1],
        "stream": int(seen.shape != "whole"),
        "refused": seen.code if seen.outcome == "refused" else "",
    }


def told_by(row: dict[str, Any]) -> dict[str, Any]:
    """The part of a row that a client can know."""
    names = ("name", "outcome", "status", "provider", "hops", "input", "output")
    told = {name: row[name] for name in names}
    refused = row["outcome"] == "refused"
    told["stream"] = None if refused else row["stream"]
    told["refused"] = row.get("refused", row.get("code")) if refused else ""
    return told


def check_counts(town: Town, in_air: list[Seen]) -> None:
    """The counts by which people are limited are those of the book."""
    accounts = town.accounts
    today = datetime.now().strftime("%Y-%m-%d")
    counts = UsageStore(town.folder / "state" / "olp.db").people(today)
    for name, total in accounts.usage("person", TimeRange()).items():
        count = counts[accounts.ids(name)[0]]
        crashed = sum(s.person == name for s in in_air)
        assert abs(count.requests - (total.requests - total.refused)) <= crashed, name
        if not crashed:
            assert count.tokens == total.input + total.output, name


def check_commands(town: Town, told: dict[str, Any]) -> None:
    """`olp usage` adds up to the rows."""
    rows = town.accounts.requests()
    expected = Counter(row["name"] for row in rows)
    assert {group["name"]: group["requests"] for group in told["groups"]} == expected
    for name in ("input", "output", "estimated", "bytes_in", "bytes_out"):
        assert told["total"][name] == sum(row[name] for row in rows), name
    with suppress(KeyError):
        assert told["total"]["answered"] == Counter(r["outcome"] for r in rows)["answered"]
