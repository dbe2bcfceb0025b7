"""The catalogue of `bench/failover`: 25 faults, and how each one is looked at.

A fault is a function. It starts a server of its own, scripts the fake CLIs, asks as a client does,
and returns a `Verdict` on what the client got. What the client cannot see (which CLIs were started,
how often, with what, and what is left of them) it compares with `expect`, which raises `Wrong`.
Whatever is raised is a failed verdict, and the tests of this file show that each judge can fail.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import aiohttp

from tests.fakes import NAMES
from tests.fakes.plan import BREATH_S, Call, Plan, Turn, dies, fails, hangs, says, turn
from tests.support import CHAIN, CHAT, Answer, Client, Streamed, ask, end, runs, write_config

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 20.0
"""The longest that anything is waited for that has no limit of its own."""

FIRST = ("All of it, ", "from the first ", "hop.")
NEXT = ("All of it, ", "from the next ", "hop.")
FIRST_TEXT, NEXT_TEXT = "".join(FIRST), "".join(NEXT)
NEVER = says("Nobody should have asked for this.")

Kind = Literal["pass", "safe", "fail"]
Tables = Mapping[str, Any]
Turns = Turn | list[Turn]


# --- verdicts ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """How it went, and in a few words what the client got."""

    kind: Kind
    what: str


class Wrong(Exception):
    """Something is not as it must be."""


def expect(what: str, found: object, wanted: object) -> None:
    """Raise Wrong unless both are the same."""
    if found != wanted:
        raise Wrong(f"{what}: {found!r:.300} instead of {wanted!r:.300}")


def expect_within(what: str, value: float, least: float, most: float) -> None:
    """Raise Wrong unless `value` lies between the two."""
    if not least <= value <= most:
        raise Wrong(f"{what}: {value:g}, not from {least:g} to {most:g}")


def fail(what: str) -> Verdict:
    """A failed verdict."""
    return Verdict("fail", what)


def all_of(verdicts: Iterable[Verdict], what: str = "") -> Verdict:
    """The worst of several; `what` says in other words what came of them if none failed."""
    told = list(verdicts)
    if not told:
        return fail("nothing was looked at")
    worst = max(told, key=lambda verdict: ("pass", "safe", "fail").index(verdict.kind))
    return Verdict(worst.kind, what) if what and worst.kind != "fail" else worst


@dataclass(frozen=True, slots=True)
class View:
    """What a client can tell of an answer, whole or streamed: its text, its finish reason, whether
    it came to its proper end, and the code of an error that came after the head."""

    text: str
    finish: str | None
    ended: bool
    error: str | None

    @property
    def looks_whole(self) -> bool:
        """Whether a client would take it for a complete answer."""
        return self.error is None and self.ended and self.finish == "stop"


def view_of(answer: Answer) -> View:
    """The view of an answer with status 200."""
    if not isinstance(answer, Streamed):
        return View(answer.text, answer.finish, True, None)
    errors = [frame["error"]["code"] for frame in answer.data if "error" in frame]
    finish = answer.finish if answer.finished else None
    return View(answer.text, finish, answer.done, errors[0] if errors else None)


def whole(answer: Answer, text: str) -> Verdict:
    """Pass if it is the complete answer `text`, and says so."""
    if answer.status != 200:
        return fail(f"status {answer.status}: {answer.raw[:200]!r}")
    view = view_of(answer)
    if view.looks_whole and view.text != text:
        return fail(f"an answer that looks whole and is not: {view.text[:80]!r}")
    if not view.looks_whole:
        return fail(f"no complete answer: finish {view.finish}, error {view.error}")
    return Verdict("pass", f"the whole answer, of hop {answer.served[2]}")


def refused(answer: Answer, status: int, code: str) -> Verdict:
    """Pass if it is this error, and no part of an answer."""
    if answer.status != status:
        return fail(f"status {answer.status} instead of {status}: {answer.raw[:200]!r}")
    if answer.error["code"] != code or "choices" in answer.body:
        return fail(f"{answer.raw[:200]!r} instead of the error {code}")
    return Verdict("pass", f"{status} `{code}`")


def filtered(answer: Answer) -> Verdict:
    """Pass if the vendor's refusal is told as one: finish reason `content_filter`."""
    if answer.status != 200:
        return fail(f"status {answer.status}: {answer.raw[:200]!r}")
    view = view_of(answer)
    if view.error or not view.ended or view.finish != "content_filter":
        return fail(f"finish {view.finish}, error {view.error} instead of content_filter")
    return Verdict("pass", "finish `content_filter`")


def cut(answer: Answer, said: str) -> Verdict:
    """What became of an answer that broke off after `said`. Streamed, safe if that is all there is
    and the end says that it is no end. Whole, pass if it is what came, marked as cut."""
    if answer.status != 200:
        return fail(f"status {answer.status}: {answer.raw[:200]!r}")
    view = view_of(answer)
    if view.looks_whole:
        return fail(f"a truncated answer that looks whole: {view.text[-80:]!r}")
    if view.text != said:
        return fail(f"{view.text[-80:]!r} where {said[-80:]!r} had come")
    if not isinstance(answer, Streamed):
        kept = Verdict("pass", "what had come, with finish `length`")
        return kept if view.finish == "length" else fail(f"finish {view.finish}")
    if view.error is None and view.finish == "length" and view.ended:
        return Verdict("safe", "what had come, then finish `length`")
    if view.error is not None and view.finish is None and not view.ended:
        return Verdict("safe", f"what had come, then the error `{view.error}`")
    return fail(f"no clear end: finish {view.finish}, error {view.error}, ended {view.ended}")


# --- the stage ---------------------------------------------------------------------------------


async def until(true: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait until `true()`; Wrong if that takes too long."""
    stop = time.monotonic() + seconds
    while not true():
        if time.monotonic() >= stop:
            raise Wrong(f"after {seconds:g} s still not: {what}")
        await asyncio.sleep(0.01)


@dataclass
class Stage:
    """Where one fault is played, in one mode. `bin` holds the fake CLIs. `spoil` is configuration
    that is put over the fault's own: a test breaks the server with it, to see that it is noticed.

    `hops`, `waits` and `spawns` gather what the table tells.
    """

    folder: Path
    bin: Path
    stream: bool
    spoil: Tables = field(default_factory=dict)
    hops: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    spawns: dict[str, int] = field(default_factory=dict)
    houses: int = 0

    @asynccontextmanager
    async def house(
        self,
        claude: Turns | None = None,
        codex: Turns | None = None,
        vibe: Turns | None = None,
        **tables: Any,
    ) -> AsyncIterator[House]:
        """A server whose CLIs do what is said; every other word is a table of its configuration.
        When the block is left it is stopped, and nothing of it may be left."""
        self.houses += 1
        folder = self.folder / str(self.houses)
        (folder / "home").mkdir(parents=True)
        plan = Plan(folder / "plan.json")
        plan.set(claude=claude or NEVER, codex=codex or NEVER, vibe=vibe or NEVER)
        config = write_config(folder / "olp.toml", plan, _over(tables, self.spoil))
        house = House(self, folder, config, plan)
        try:
            await house.start()
            yield house
            await house.stop()
        finally:
            await house.abandon()
            for name, count in plan.spawns().items():
                self.spawns[name] = self.spawns.get(name, 0) + count

    def saw(self, answer: Answer, seconds: float) -> None:
        """A client got `answer` after so long."""
        self.waits.append(seconds)
        if (hops := answer.headers.get("X-OLP-Fallback-Hops")) is not None:
            self.hops.append(int(hops))


def _over(below: Tables, above: Tables) -> dict[str, Any]:
    """`below` with `above` put over it, table by table."""
    out = dict(below)
    for key, value in above.items():
        inner = out.get(key)
        nested = isinstance(inner, Mapping) and isinstance(value, Mapping)
        out[key] = _over(inner, value) if nested else value  # type: ignore[arg-type]
    return out


class House:
    """`olp serve` as a process of its own, with fake CLIs, and a client of it."""

    def __init__(self, stage: Stage, folder: Path, config: Path, plan: Plan) -> None:
        self.stage = stage
        self.folder = folder
        self.plan = plan
        self.client: Client
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._runs = 0
        self._open = AsyncExitStack()

    # --- the process ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._runs += 1
        env = {
            "PATH": f"{self.stage.bin}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
        }
        command = [sys.executable, "-m", "olp", "serve", "--config", str(self._config)]
        with self._err.open("wb") as err:
            self._process = subprocess.Popen(  # noqa: ASYNC220
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                env=env,
                cwd=ROOT,
                start_new_session=True,
            )
        await until(lambda: self._ended or self.logged("serving"), "the server listens")
        if self._ended:
            raise Wrong(f"the server did not start: {self._err.read_text()[-300:]}")
        url = str(self.logged("serving")[0]["url"])
        connector = aiohttp.TCPConnector(limit=0)
        http = aiohttp.ClientSession(connector=connector)
        await self._open.enter_async_context(http)
        self.client = Client(url, http)

    @property
    def _err(self) -> Path:
        return self.folder / f"log {self._runs}"

    @property
    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of one event."""
        lines = [text for text in self._err.read_text().split("\n")[:-1] if text[:1] == "{"]
        return [told for told in map(json.loads, lines) if told["event"] == event]

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()
        await until(lambda: self._ended, "the server is gone")

    async def stop(self) -> None:
        """SIGTERM; it must end well and leave nothing."""
        assert self._process is not None
        if not self._ended:
            await until(lambda: not self.private(), "the private folders are gone", 8)
            await self.slots_free()
        self._process.send_signal(signal.SIGTERM)
        await until(lambda: self._ended, "the server stops")
        expect("the server's exit code", self._process.returncode, 0)
        mistakes = [*self.logged("unexpected"), *self.logged("task_failed")]
        expect("mistakes in the log", mistakes, [])
        expect("processes that were left", self._left(), [])
        expect("private folders that were left", self.private(), [])

    async def slots_free(self) -> None:
        """Every slot is given back; a moment after the process is gone will do."""
        taken: set[str] = set()
        for _ in range(100):
            told = await self.health()
            taken = {name for name, one in told.items() if one["slots"]["active"]}
            if not taken:
                break
            await asyncio.sleep(0.02)
        expect("slots that are taken", taken, set())

    async def abandon(self) -> None:
        """End whatever is still there, in whatever state."""
        await self._open.aclose()
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait, PATIENCE_S)
        for pid in self._left():
            end(pid)

    def _left(self) -> list[int]:
        calls = self.plan.calls()
        pids = [call.pid for call in calls] + [pid for call in calls for pid in call.grandchildren]
        pids += [int(survey["pid"]) for survey in self.plan.surveys()]
        return [pid for pid in pids if runs(pid)]

    def private(self) -> list[str]:
        """The private folders that are there."""
        return os.listdir(self.folder / "state" / "private")  # noqa: PTH208

    # --- what the fakes do and saw -------------------------------------------------------------

    def now(
        self, claude: Turns | None = None, codex: Turns | None = None, vibe: Turns | None = None
    ) -> None:
        """The CLIs do something else from now on."""
        self.plan.set(claude=claude or NEVER, codex=codex or NEVER, vibe=vibe or NEVER)

    def expect_spawns(self, **counts: int) -> None:
        """Each CLI was started so often, and one that is not named never."""
        expect("CLIs started", self.plan.spawns(), counts)

    async def running(self, number: int = 0) -> Call:
        """The call with this number, of all CLIs, as soon as it has read its request."""

        def reads() -> bool:
            calls = self.plan.calls()
            return len(calls) > number and calls[number].line("read") is not None

        await until(reads, f"call {number} has read its request")
        return self.plan.calls()[number]

    # --- the client ----------------------------------------------------------------------------

    async def ask(self, text: str = "hello", model: str = "auto", **more: Any) -> Answer:
        """One request, in this stage's mode."""
        return await self.send(ask(text, model, **more))

    async def send(self, body: Mapping[str, Any]) -> Answer:
        """One request with this body, in this stage's mode."""
        began = time.monotonic()
        answer = await self.client.ask(self.stage.stream, body)
        self.stage.saw(answer, time.monotonic() - began)
        return answer

    async def post(self, path: str) -> None:
        """One of the owner's commands."""
        expect(path, (await self.client.request("POST", path)).status, 200)

    async def health(self) -> dict[str, Any]:
        """What /health tells of each provider."""
        answer = await self.client.request("GET", "/health")
        return dict(answer.body["providers"])


def expect_tried(answer: Answer, codes: list[str], provider: str, hops: int) -> None:
    """The headers tell what was tried before, and who served or stopped it."""
    seen = f"of an answer with status {answer.status}"
    expect(f"codes of the hops before, {seen}", answer.codes, codes)
    expect(f"provider and hops, {seen}", (answer.served[0], answer.served[2]), (provider, hops))


STARTING_WITH = {
    f"from-{name}": sorted(CHAIN, key=lambda hop: not hop.startswith(name)) for name in NAMES
}
"""A chain for each CLI in which it is the first hop."""

LOGINS = {"claude": "claude auth login", "codex": "codex login", "vibe": "vibe --setup"}


def error_in(answer: Answer) -> str | None:
    """The code of the error that came after the head of an answer."""
    return view_of(answer).error if answer.status == 200 else f"status {answer.status}"


def words(count: int) -> str:
    """What the action `["say", "word{i} ", count]` says."""
    return "".join(f"word{number} " for number in range(count))


# --- S01 to S07: before the first word ---------------------------------------------------------


async def one_limit(stage: Stage) -> Verdict:
    async with stage.house() as house:
        resets = time.time() + 3.0
        house.now(claude=[fails("quota", resets_at=resets), says(*FIRST)], codex=says(*NEXT))
        moved = await house.ask("one")
        expect_tried(moved, ["QUOTA_EXHAUSTED"], "codex", 1)
        held = await house.ask("two")
        expect_tried(held, ["QUOTA_HOLD"], "codex", 1)
        house.expect_spawns(claude=1, codex=2)
        await asyncio.sleep(resets + 0.2 - time.time())
        back = await house.ask("three")
        expect_tried(back, [], "claude", 0)
        house.expect_spawns(claude=2, codex=2)
        views = [whole(moved, NEXT_TEXT), whole(held, NEXT_TEXT), whole(back, FIRST_TEXT)]
        return all_of(views, "the whole answer of the next hop; of hop 0 again after its reset")


async def limited_for_ever(stage: Stage) -> Verdict:
    in_an_hour = time.time() + 3600
    limited = {"claude": fails("quota", resets_at=in_an_hour), "codex": fails("quota")}
    async with stage.house(**limited, vibe=fails("rate")) as house:
        end = await house.ask("one")
        expect_tried(end, ["QUOTA_EXHAUSTED", "QUOTA_EXHAUSTED", "RATE_LIMITED"], "claude", 3)
        # Two plans are used up for long, but a throttle is over in a minute.
        expect_within("Retry-After", int(end.headers["Retry-After"]), 1, 60)
        expect("x-should-retry", end.headers.get("x-should-retry"), "false")
        expect("exhausted", end.headers.get("X-OLP-Fallback-Exhausted"), "claude,codex,vibe")
        house.expect_spawns(claude=1, codex=1, vibe=1)
        house.now(**limited, vibe=says(*NEXT))
        served = await house.ask("two")
        expect_tried(served, ["QUOTA_HOLD", "QUOTA_HOLD"], "vibe", 2)
        house.expect_spawns(claude=1, codex=1, vibe=2)
        views = [refused(end, 429, "insufficient_quota"), whole(served, NEXT_TEXT)]
    last = fails("quota", text="You have reached your monthly usage limit, back in 3 days")
    async with stage.house(**limited, vibe=last) as house:
        all_used_up = await house.ask("three")
        expect_within("Retry-After", int(all_used_up.headers["Retry-After"]), 3500, 3600)
        views.append(refused(all_used_up, 429, "insufficient_quota"))
        return all_of(views, "one 429 with Retry-After, or the whole answer where a hop is healthy")


async def one_500(stage: Stage) -> Verdict:
    async with stage.house(claude=[fails("server"), says(*FIRST)], codex=says(*NEXT)) as house:
        moved = await house.ask("one")
        expect_tried(moved, ["OVERLOADED"], "codex", 1)
        back = await house.ask("two")
        expect_tried(back, [], "claude", 0)
        house.expect_spawns(claude=2, codex=1)
        views = [whole(moved, NEXT_TEXT), whole(back, FIRST_TEXT)]
        return all_of(views, "the whole answer of the next hop; of hop 0 when asked again")


async def down_for_ever(stage: Stage) -> Verdict:
    async with stage.house(claude=fails("unavailable"), codex=says(*NEXT)) as house:
        answers = [await house.ask(f"question {number}") for number in range(6)]
        codes = [answer.codes for answer in answers]
        expect("codes of hop 0", codes, [["OVERLOADED"]] * 3 + [["CIRCUIT_OPEN"]] * 3)
        house.expect_spawns(claude=3, codex=6)
        views = [whole(answer, NEXT_TEXT) for answer in answers]
        return all_of(views, "the whole answer of the next hop; hop 0 is left alone after three")


async def exits_at_once(stage: Stage) -> Verdict:
    async with stage.house(claude=dies(), codex=dies(code=0), vibe=says(*NEXT)) as house:
        answer = await house.ask()
        expect_tried(answer, ["SPAWN_FAILED", "SPAWN_FAILED"], "vibe", 2)
        house.expect_spawns(claude=1, codex=1, vibe=1)
        return whole(answer, NEXT_TEXT)


async def never_answers(stage: Stage) -> Verdict:
    hurry = {"claude": {"opening_s": 1.0}}
    silent = [hangs(), turn(["init"], ["hang"])]
    chains = {"silent": ["claude/sonnet", "claude/opus", "codex/gpt-5.5"]}
    async with stage.house(
        claude=silent, codex=says(*NEXT), providers=hurry, chains=chains
    ) as house:
        answer = await house.ask(model="silent")
        left = [call.pid for call in house.plan.calls("claude") if runs(call.pid)]
        expect("silent CLIs that still run", left, [])
        expect_tried(answer, ["SPAWN_TIMEOUT", "SPAWN_TIMEOUT"], "codex", 2)
        expect_within("seconds", stage.waits[0], 2.0, 8.0)
        house.expect_spawns(claude=2, codex=1)
        return whole(answer, NEXT_TEXT)


async def late_first_word(stage: Stage) -> Verdict:
    hops = ["claude/sonnet", "codex/gpt-5.5"]
    chains = {"patient": hops, "hurried": {"hops": hops, "gate_action": "advance"}}
    said = [["say", piece] for piece in FIRST]
    late = turn(["init"], ["start"], ["sleep", 1.5], *said, ["end"])
    gate = {"claude": {"gate_s": 0.5}}
    async with stage.house(claude=late, codex=says(*NEXT), chains=chains, providers=gate) as house:
        waited = await house.ask("one", "patient")
        expect_tried(waited, [], "claude", 0)
        house.expect_spawns(claude=1)
        moved = await house.ask("two", "hurried")
        expect_tried(moved, ["SPAWN_TIMEOUT"], "codex", 1)
        house.expect_spawns(claude=2, codex=1)
        views = [whole(waited, FIRST_TEXT), whole(moved, NEXT_TEXT)]
        return all_of(views, "the whole answer of hop 0, or of the next where the chain says so")


# --- S08 to S11: in mid-answer -----------------------------------------------------------------


async def dies_in_mid_answer(stage: Stage) -> Verdict:
    begun: list[list[Any]] = [["init"], ["start"]]
    ways = [
        turn(*begun, ["say", "word{i} ", 40], ["exit", 1]),
        turn(*begun, ["say", "It is 42."], ["exit", 0]),
        turn(*begun, ["say", "word{i} ", 2000], ["end"], cap=64 * 1024),
    ]
    async with stage.house(claude=ways) as house:
        dead = await house.ask("dies after 40 of 60")
        looks_whole = await house.ask("exits with 0 after a sentence")
        at_64k = await house.ask("its output ends at 64 KiB")
        came = view_of(at_64k).text
        if not (came and words(2000).startswith(came)):
            raise Wrong(f"{came[-80:]!r} is no beginning of the answer")
        house.expect_spawns(claude=3)
        for answer in (dead, looks_whole, at_64k):
            expect_tried(answer, [], "claude", 0)
        return all_of([cut(dead, words(40)), cut(looks_whole, "It is 42."), cut(at_64k, came)])


async def stalls(stage: Stage) -> Verdict:
    half = turn(["init"], ["start"], ["say", "word{i} ", 30], ["hang"])
    limit = {"claude": {"max_spawn_s": 1.5}}
    async with stage.house(claude=half, codex=says(*NEXT), providers=limit) as house:
        answer = await house.ask()
        if stage.stream:
            house.expect_spawns(claude=1)
            expect("the error", error_in(answer), "spawn_timeout")
            return cut(answer, words(30))
        house.expect_spawns(claude=1, codex=1)
        expect_tried(answer, ["SPAWN_TIMEOUT"], "codex", 1)
        return whole(answer, NEXT_TEXT)


async def garbage(stage: Stage) -> Verdict:
    odd: list[list[Any]] = [
        ["raw", "npm notice: not JSON\n[1, 2]\n\n{\nnull\r\n"],
        ["hex", "fffe800a"],
        ["json", {"type": "brand_new", "event": None}],
    ]
    talk = turn(["init"], *odd, ["start"], ["say", "a"], *odd, ["say", "b"], *odd, ["end"])
    async with stage.house(claude=talk, codex=talk, vibe=talk, chains=STARTING_WITH) as house:
        answers = [await house.ask(model=chain) for chain in STARTING_WITH]
        house.expect_spawns(claude=1, codex=1, vibe=1)
        return all_of(whole(answer, "ab") for answer in answers)


async def no_final_event(stage: Stage) -> Verdict:
    quiet = turn(["init"], ["start"], ["think", "hm"], ["exit", 0])
    async with stage.house(claude=quiet, codex=quiet, vibe=says(*NEXT)) as house:
        answer = await house.ask()
        expect_tried(answer, ["SPAWN_FAILED", "SPAWN_FAILED"], "vibe", 2)
        house.expect_spawns(claude=1, codex=1, vibe=1)
        return whole(answer, NEXT_TEXT)


# --- S12 to S16: whose fault, and who served ---------------------------------------------------


async def too_long(stage: Stage) -> Verdict:
    long = fails("context")
    async with stage.house(claude=long, codex=long, vibe=long, chains=STARTING_WITH) as house:
        views = []
        for name in NAMES:
            answer = await house.ask(model=f"from-{name}")
            expect_tried(answer, ["CONTEXT_TOO_LONG"], name, 0)
            views.append(refused(answer, 400, "context_length_exceeded"))
        house.expect_spawns(claude=1, codex=1, vibe=1)
        return all_of(views)


async def content_refused(stage: Stage) -> Verdict:
    no = turn(["init"], ["start"], ["end", "refusal"])
    async with stage.house(claude=no, codex=no, vibe=no, chains=STARTING_WITH) as house:
        views = [filtered(await house.ask(model=f"from-{name}")) for name in ("claude", "codex")]
        told_as_error = await house.ask(model="from-vibe")
        expect_tried(told_as_error, ["BAD_REQUEST"], "vibe", 0)
        house.expect_spawns(claude=1, codex=1, vibe=1)
        views.append(refused(told_as_error, 400, "bad_request"))
        return all_of(views, "finish `content_filter`, or 400 `bad_request`, as the CLI tells it")


async def no_continuation(stage: Stage) -> Verdict:
    broken = turn(
        ["init"], ["start"], ["say", "word{i} ", 20], ["sleep", BREATH_S], ["fail", "overloaded"]
    )
    rejects = {**fails("bad"), "when": "word19"}
    async with stage.house(claude=broken, codex=[rejects, says(*NEXT)]) as house:
        answer = await house.ask("the question alone")
        if stage.stream:
            house.expect_spawns(claude=1)
            expect("the error", error_in(answer), "overloaded")
            return cut(answer, words(20))
        house.expect_spawns(claude=1, codex=1)
        read = house.plan.calls("codex")[0].line("read") or {}
        expect("what hop 1 read", read.get("sha256"), sha256("the question alone"))
        expect_tried(answer, ["OVERLOADED"], "codex", 1)
        return whole(answer, NEXT_TEXT)


SCALE = 12
"""S15 is played this many times faster than it is told: 60 s in 5 s."""


async def down_and_back(stage: Stage) -> Verdict:
    minute = 60 / SCALE
    breaker = {"window_s": 300 / SCALE, "cooldown_s": minute}
    down = fails("unavailable")
    wide = {"codex": {"max_concurrent": 20}}
    async with stage.house(
        claude=down, codex=says(*NEXT), breaker=breaker, providers=wide
    ) as house:
        asked = [
            asyncio.ensure_future(_later(number * minute / 20, house.ask(f"question {number}")))
            for number in range(20)
        ]
        await asyncio.sleep(minute)
        answers = await asyncio.gather(*asked)
        spent = house.plan.spawns()["claude"]
        expect_within("times that a CLI which is down was started", spent, 3, 6)
        expect("answers by hop 1", {answer.served[2] for answer in answers}, {1})
        house.now(claude=says(*FIRST), codex=says(*NEXT))
        recovered = time.monotonic()
        while (answer := await house.ask("are you back?")).served[0] != "claude":
            answers.append(answer)
            if time.monotonic() - recovered > minute / 2:
                raise Wrong("hop 0 is not used 30 s after its recovery (to scale)")
            await asyncio.sleep(minute / 40)
        views = [*(whole(one, NEXT_TEXT) for one in answers), whole(answer, FIRST_TEXT)]
        return all_of(views, "20 of 20 whole answers of the next hop; hop 0 is back within 30 s")


async def _later(seconds: float, work: Awaitable[Answer]) -> Answer:
    await asyncio.sleep(seconds)
    return await work


async def accounting(stage: Stage) -> Verdict:
    used = {"input_tokens": 321, "cached_input_tokens": 20, "output_tokens": 12}
    said = [["say", piece] for piece in NEXT]
    served = turn(["init"], ["start"], *said, ["end", "stop", used])
    other = says(*FIRST, model="claude-opus-9-9")
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if stage.stream else {}
    async with stage.house(claude=[fails("overloaded"), other], codex=served) as house:
        moved = await house.ask("one", **options)
        expect("who served", moved.served, ("codex", "gpt-5.5", 1))
        expect("`model` in the body", models_in(moved), {"gpt-5.5"})
        expect("`usage`", usage_in(moved), (321, 12))
        record = [(r["hop"], r["provider"], r["model"], r["code"]) for r in moved.detail]
        expect("the detail", record, [(0, "claude", "sonnet", "OVERLOADED")])
        another = await house.ask("two", **options)
        expect("who served", another.served, ("claude", "claude-opus-9-9", 0))
        expect("`model` in the body", models_in(another), {"claude-opus-9-9"})
        health = await house.health()
        counts = {name: health[name]["quota"]["requests_today"] for name in NAMES}
        expect("requests counted", counts, {"claude": 2, "codex": 1, "vibe": 0})
        house.expect_spawns(claude=2, codex=1)
        views = [whole(moved, NEXT_TEXT), whole(another, FIRST_TEXT)]
        return all_of(views, "the whole answer; header, `model` and `usage` are the server's own")


def models_in(answer: Answer) -> set[str]:
    """Every `model` in the body."""
    bodies = answer.data if isinstance(answer, Streamed) else [answer.body]
    return {body["model"] for body in bodies}


def usage_in(answer: Answer) -> tuple[int, int]:
    """The tokens of the prompt and of the answer."""
    bodies = answer.data if isinstance(answer, Streamed) else [answer.body]
    [usage] = [body["usage"] for body in bodies if body.get("usage")]
    return usage["prompt_tokens"], usage["completion_tokens"]


# --- S17 to S21: what only CLIs do -------------------------------------------------------------


async def grandchild(stage: Stage) -> Verdict:
    family: list[list[Any]] = [["grandchild", "group"], ["grandchild", "own"]]
    talk = says(*FIRST)
    talk["do"] = [*family, *talk["do"]]
    async with stage.house(claude=talk, codex=talk, vibe=talk, chains=STARTING_WITH) as house:
        answers = [await house.ask(model=chain) for chain in STARTING_WITH]
        expect_within("seconds", max(stage.waits), 0.0, 8.0)
        house.expect_spawns(claude=1, codex=1, vibe=1)
        told_of = [call.line("grandchild") for call in house.plan.calls()]
        in_group = [told["child"] for told in told_of if told and told["how"] == "group"]
        expect("grandchildren in the CLI's group", len(in_group), 3)
        await until(lambda: not any(map(runs, in_group)), "the groups are gone", 6)
        return all_of(whole(answer, FIRST_TEXT) for answer in answers)


async def limit_as_prose(stage: Stage) -> Verdict:
    notice = "You've hit your 5-hour limit \u00b7 resets 5:26am (UTC)"
    result = {"type": "result", "subtype": "success", "is_error": False, "result": notice}
    older = turn(["init"], ["json", result])
    async with stage.house(claude=[fails("prose"), older], codex=says(*NEXT)) as house:
        views = []
        for number in range(2):
            answer = await house.ask(f"question {number}")
            expect_tried(answer, ["QUOTA_EXHAUSTED"], "codex", 1)
            views.append(whole(answer, NEXT_TEXT))
            await house.post("/olp/quota/clear")
        house.expect_spawns(claude=2, codex=2)
        return all_of(views)


async def login_expired(stage: Stage) -> Verdict:
    old = fails("expired")
    async with stage.house(claude=old, codex=old, vibe=old, chains=STARTING_WITH) as house:
        views = []
        for name, command in LOGINS.items():
            answer = await house.ask(model=f"from-{name}")
            expect_tried(answer, ["AUTH_MISSING"], name, 0)
            views.append(refused(answer, 502, "provider_auth_missing"))
            if command not in answer.error["message"]:
                raise Wrong(f"the error does not name {command!r}")
        house.expect_spawns(claude=1, codex=1, vibe=1)
        health = await house.health()
        expect("fixes in /health", {name: health[name].get("fix") for name in LOGINS}, LOGINS)
        return all_of(views, "502 `provider_auth_missing` with the command that logs in")


async def cut_at_64k(stage: Stage) -> Verdict:
    long = turn(["init"], ["start"], ["say", "x" * 100_000], ["end"], cap=64 * 1024)
    async with stage.house(
        codex=long, vibe=long, claude=says(*NEXT), chains={"long": list(reversed(CHAIN))}
    ) as house:
        answer = await house.ask(model="long")
        expect_tried(answer, ["SPAWN_FAILED", "SPAWN_FAILED"], "claude", 2)
        house.expect_spawns(claude=1, codex=1, vibe=1)
        return whole(answer, NEXT_TEXT)


async def split_character(stage: Stage) -> Verdict:
    text = "für 日本 😀"
    talk = turn(["init"], ["start"], ["split", text], ["say", "!"], ["end"])
    late = turn(["init"], ["start"], ["say", text], ["split", "!"], ["end"])
    async with stage.house(claude=talk, codex=late, vibe=late, chains=STARTING_WITH) as house:
        answers = [await house.ask(model=chain) for chain in STARTING_WITH]
        house.expect_spawns(claude=1, codex=1, vibe=1)
        return all_of(whole(answer, f"{text}!") for answer in answers)


# --- S22 to S25: the client, the server, the load ----------------------------------------------


async def client_leaves(stage: Stage) -> Verdict:
    begun: list[list[Any]] = [["grandchild", "group"], ["init"], ["start"], ["say", "one "]]
    stubborn = turn(*begun, ["hang"], term="ignore", when="stubborn")
    gentle = turn(*begun, ["hang"], when="gentle")
    limits = {"claude": {"max_concurrent": 2}}
    async with stage.house(claude=[stubborn, gentle, says(*FIRST)], providers=limits) as house:
        asking = [await _begin(house, kind) for kind in ("stubborn", "gentle")]
        calls = [await house.running(number) for number in range(2)]
        expect("slots taken", await _slots(house), 2)
        for leave in asking:
            await leave()
        left = time.monotonic()
        family = [pid for call in calls for pid in (call.pid, *call.grandchildren)]
        await until(lambda: not any(map(runs, family)), "every process is gone", 6)
        stage.waits.append(time.monotonic() - left)
        await until(lambda: not house.private(), "the private folders are gone", 2)
        await house.slots_free()
        house.expect_spawns(claude=2)
        after = [house.ask(f"after {number}", "claude/sonnet") for number in range(2)]
        views = [whole(answer, FIRST_TEXT) for answer in await asyncio.gather(*after)]
        return all_of(views, "nothing, as it has left; its processes, slot and folder are gone")


async def _begin(house: House, text: str) -> Callable[[], Awaitable[None]]:
    """Ask, wait until the answer is being made, and give back how to leave it."""
    body = ask(text, "claude/sonnet")
    if not house.stage.stream:
        asking = asyncio.ensure_future(house.client.chat(body))
        before = len(house.plan.calls())
        await house.running(before)
        await asyncio.sleep(0.1)
        if asking.done():
            raise Wrong("an answer that cannot be complete has come")

        async def cancel() -> None:
            asking.cancel()
            await asyncio.wait([asking])

        return cancel
    opened = house.client.opened(body)
    response = await opened.__aenter__()
    await asyncio.wait_for(response.content.readany(), PATIENCE_S)

    async def close() -> None:
        await opened.__aexit__(None, None, None)

    return close


async def _slots(house: House) -> int:
    return int((await house.health())["claude"]["slots"]["active"])


async def server_killed(stage: Stage) -> Verdict:
    family: list[list[Any]] = [["grandchild", "group"], ["grandchild", "own"]]
    busy = turn(*family, ["init"], ["start"], ["say", "one "], ["hang"], when="busy")
    async with stage.house(claude=[busy, says(*FIRST)]) as house:
        asking = asyncio.ensure_future(house.ask("busy"))
        call = await house.running()
        await until(lambda: len(house.plan.calls()[0].grandchildren) == 2, "all of them run")
        await asyncio.sleep(0.2)
        await house.kill()
        await asyncio.wait([asking], timeout=PATIENCE_S)
        broken_off(asking)
        await until(lambda: not runs(call.pid), "the CLI died with the server", 3)
        await house.start()
        family_left = [pid for pid in call.grandchildren if runs(pid)]
        expect("grandchildren after the next start", family_left, [])
        expect("private folders after the next start", house.private(), [])
        answer = await house.ask("again")
        house.expect_spawns(claude=2)
        told = "a broken connection; no CLI is left, and the next start serves the whole answer"
        return all_of([whole(answer, FIRST_TEXT)], told)


def broken_off(asking: asyncio.Future[Answer]) -> None:
    """Raise Wrong unless the client saw that its answer broke off."""
    if not asking.done():
        asking.cancel()
        raise Wrong("the client still waits for a server that is gone")
    error = asking.exception()
    if isinstance(error, aiohttp.ClientError):
        return
    if error is not None:
        raise error
    answer = asking.result()
    if not isinstance(answer, Streamed) or not answer.broken or view_of(answer).finish:
        raise Wrong("the client could not see that its answer broke off")


async def long_prompts(stage: Stage) -> Verdict:
    prompt = _long("Frage")
    system = _long("Regel")
    go = stage.folder / "go on"
    said = [["say", piece] for piece in FIRST]
    waits = turn(["init"], ["start"], ["until", str(go)], *said, ["end"])
    files = {"claude": "system.md", "codex": "system.md", "vibe": "home/prompts/olp.md"}
    body = ask(prompt)
    body["messages"].insert(0, {"role": "system", "content": system})
    views = []
    async with stage.house(claude=waits, codex=waits, vibe=waits, chains=STARTING_WITH) as house:
        for number, (name, file) in enumerate(files.items()):
            go.unlink(missing_ok=True)
            asking = asyncio.ensure_future(house.send({**body, "model": f"from-{name}"}))
            call = await house.running(number)
            expect("CLI", call.provider, name)
            read = call.line("read") or {}
            expect("the prompt that was read", read.get("sha256"), sha256(prompt))
            found = (call.private / file).read_text("utf-8")
            expect("the system prompt's file", sha256(found), sha256(system))
            longest = max(map(len, [*call.argv, *call.env.values()]))
            expect_within("the longest argument", longest, 0, 4000)
            go.touch()
            views.append(whole(await asking, FIRST_TEXT))
        house.expect_spawns(claude=1, codex=1, vibe=1)
    return all_of(views)


def _long(word: str) -> str:
    """300 kB that are no plain ASCII."""
    line = f"{word} äöü 日本 {{}}\n"
    text = "".join(line.format(number) for number in range(20_000))
    return text.encode()[:300_000].decode("utf-8", "ignore")


def sha256(text: str) -> str:
    """The digest of a text, as the fakes record it."""
    return hashlib.sha256(text.encode()).hexdigest()


async def one_reads_slowly(stage: Stage) -> Verdict:
    piece, pieces = "{i} " + "x" * 2000 + " ", 5000
    big = turn(["init"], ["start"], ["say", piece, pieces], ["end"], when="a long story")
    small = turn(["init"], ["start"], ["say", "word{i} ", 60, 0.01], ["end"])
    wide = {"claude": {"max_concurrent": 8}}
    async with stage.house(claude=[big, small], providers=wide) as house:
        slow = asyncio.ensure_future(_read_slowly(house, asked := asyncio.Event(), stage.stream))
        others = [house.ask(f"question {number}", "claude/sonnet") for number in range(6)]
        twin, *quick = await asyncio.gather(house.ask("a long story", "claude/sonnet"), *others)
        expect_within("seconds of the others", max(stage.waits), 0.0, 10.0)
        if slow.done():
            raise Wrong("the slow reader was not slow")
        asked.set()
        late = await asyncio.wait_for(slow, PATIENCE_S)
        text = "".join(piece.replace("{i}", str(number)) for number in range(pieces))
        house.expect_spawns(claude=7)
        views = [whole(answer, words(60)) for answer in quick]
        return all_of([*views, whole(twin, text), whole(late, text)], "eight whole answers")


def _narrow(address: tuple[Any, ...]) -> socket.socket:
    """A socket whose system takes in little ahead of its reader."""
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    return made


async def _read_slowly(house: House, hurry: asyncio.Event, stream: bool) -> Answer:
    """A client that takes little at a time, until it is told to hurry."""
    body = {**ask("a long story", "claude/sonnet"), "stream": stream}
    connector = aiohttp.TCPConnector(socket_factory=_narrow)
    async with (
        aiohttp.ClientSession(connector=connector, read_bufsize=1024) as http,
        http.post(house.client.url + CHAT, json=body) as response,
    ):
        data = b""
        while not hurry.is_set():
            data += await response.content.read(256)
            await asyncio.sleep(0.02)
        data += await response.content.read()
    if not stream:
        return Answer(response.status, response.headers, data)
    frames = [(0.0, frame.decode()) for frame in data.split(b"\n\n")[:-1]]
    return Streamed(response.status, response.headers, b"", frames)


# --- the list ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """One row. `told` is how it is told to a CLI and what is looked at. `may_be_safe` says that a
    stream which had begun can only be broken off."""

    id: str
    name: str
    run: Callable[[Stage], Awaitable[Verdict]]
    told: str
    may_be_safe: bool = False


FAULTS = (
    Fault(
        "S01",
        "one 429 with Retry-After",
        one_limit,
        "a limit notice that names its reset. The next hop serves, the limited one is not started "
        "again before its reset, and serves again after it",
    ),
    Fault(
        "S02",
        "429 for ever",
        limited_for_ever,
        "every CLI says that it is limited. Each is started once; the error says when the first of "
        "them may be well again (in a minute where one is only throttled, at the earliest reset "
        "where all plans are used up) and asks not to be tried again. With one healthy hop, that "
        "one serves",
    ),
    Fault(
        "S03",
        "one 500",
        one_500,
        "a CLI that reports a 500 of its vendor, once",
    ),
    Fault(
        "S04",
        "503 for ever",
        down_for_ever,
        "six requests to a CLI that always reports a 503. After three it is not started any more",
    ),
    Fault(
        "S05",
        "exit before any byte",
        exits_at_once,
        "two CLIs that exit without a word, one with 1 and one with 0",
    ),
    Fault(
        "S06",
        "never answers",
        never_answers,
        "one CLI that says nothing, and one that starts and says nothing more. The opening clock "
        "is 1 s here, not 240 s. Both are gone before the next hop serves",
    ),
    Fault(
        "S07",
        "first token very late",
        late_first_word,
        "the first word comes after 1.5 s with a gate of 0.5 s (30 s by default). The hop is "
        "waited for, or given up in a chain that says so",
    ),
    Fault(
        "S08",
        "dies at 40 of 60 deltas",
        dies_in_mid_answer,
        "an exit with 1 after 40 words; an exit with 0 after a sentence that looks complete; "
        "output that ends at 64 KiB in mid-line. Nobody else is asked",
        may_be_safe=True,
    ),
    Fault(
        "S09",
        "stalls in mid-stream",
        stalls,
        "30 words, then silence. The total clock is 1.5 s here, not 600 s",
        may_be_safe=True,
    ),
    Fault(
        "S10",
        "garbage line among the events",
        garbage,
        "text, broken JSON, invalid UTF-8 and unknown events between the events of each CLI",
    ),
    Fault(
        "S11",
        "exit 0 without a final event",
        no_final_event,
        "two CLIs that begin, think, and exit with 0 before their first word",
    ),
    Fault(
        "S12",
        "context too long",
        too_long,
        "each CLI says so. The chain stops, and no other CLI is started",
    ),
    Fault(
        "S13",
        "content refused",
        content_refused,
        "each CLI reports a refusal of its vendor. No other CLI is started",
    ),
    Fault(
        "S14",
        "cut, and the next hop rejects a continuation",
        no_continuation,
        "a CLI that reports an overload after 20 words, and a next hop that rejects every prompt "
        "with these words in it. It is never asked once a word went out, and otherwise gets "
        "the question alone",
        may_be_safe=True,
    ),
    Fault(
        "S15",
        "down for 60 s under 20 requests",
        down_and_back,
        f"to the scale of 1 to {SCALE}, breaker included: 20 requests while a CLI reports a 503. "
        "It is started at most six times, and used again within 30 s of its recovery",
    ),
    Fault(
        "S16",
        "the accounting",
        accounting,
        "headers, `model` in each frame, `usage`, the detail header and the day's counts after a "
        "fallback, and where a CLI reports another model than was asked for",
    ),
    Fault(
        "S17",
        "a grandchild keeps the output open",
        grandchild,
        "each CLI leaves two processes that hold its output for a minute, one in a session of its "
        "own. The answer does not wait for them; the one in its group is ended with it, and the "
        "other one when the server stops",
    ),
    Fault(
        "S18",
        "a limit notice as prose, with exit 0",
        limit_as_prose,
        "the notice stands where the answer should, in the way of two versions of a CLI",
    ),
    Fault(
        "S19",
        "the login has expired",
        login_expired,
        "each CLI says so. The chain stops; the error and /health name the exact command",
    ),
    Fault(
        "S20",
        "output cut at 64 KiB, with exit 0",
        cut_at_64k,
        "two CLIs that print their answer as one line of 100 kB, which is cut",
    ),
    Fault(
        "S21",
        "a character split between two reads",
        split_character,
        "each CLI writes the bytes of one character in two pieces",
    ),
    Fault(
        "S22",
        "the client leaves",
        client_leaves,
        "two clients leave in mid-answer; one of the CLIs ignores SIGTERM, and each has a child. "
        "In 6 s all processes are gone, and with them the slots and the private folders",
    ),
    Fault(
        "S23",
        "SIGKILL of the server, then a restart",
        server_killed,
        "in mid-answer, with two grandchildren. The CLI dies with the server, the next start ends "
        "the grandchildren, and serves",
    ),
    Fault(
        "S24",
        "a prompt and a system prompt of 300 kB each",
        long_prompts,
        "each CLI gets both to the byte, by digest, and neither in its arguments or environment",
    ),
    Fault(
        "S25",
        "eight at once, one of them reading slowly",
        one_reads_slowly,
        "one client takes a few bytes at a time of an answer of 10 MB, and another one asks for "
        "the same answer. The seven others have theirs while it still reads, and it gets all of "
        "its own",
    ),
)
