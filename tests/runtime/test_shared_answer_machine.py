"""Flights in any order of events: who shares one, what each reader gets, and what is ended.

The real service and the real flights, over an engine that does what the machine tells it. Each rule
lets the event loop run until nothing is left to do, so that what happens is the rules' doing.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from olp.config import BackgroundConfig, CacheConfig, Config
from olp.core.admission.admission import Admission
from olp.core.answer.cache import Cache
from olp.core.keys.background import Shapes
from olp.core.routing.chains import Catalogue
from olp.events import Answering, Done, ErrorCode, Failed, Finish, Output, Refused, Text
from olp.model import Message, Request, Role
from olp.runtime.access.caller import Caller
from olp.runtime.access.keyring import Keyring
from olp.runtime.access.people import People
from olp.runtime.log import Log
from olp.runtime.pool.pool import Pool
from olp.runtime.process.fleet import Fleet
from olp.runtime.serving import shared_answer as flights
from olp.runtime.serving.engine import Engine, Job, Send
from olp.runtime.serving.lasting import Lasting
from olp.runtime.serving.request_plan import Planner, RequestContext
from olp.runtime.serving.service import Service
from olp.runtime.serving.shared_answer import BrokenOff, Reader
from olp.runtime.tasks import Tasks
from olp.runtime.usage.request_log import RequestLog
from olp.runtime.usage.store import UsageStore

NOWHERE = Path(tempfile.gettempdir()) / "no such folder"

TICKS = 8
"""Turns of the loop after which everything that can happen has happened."""

HEAD = Answering("claude", "sonnet", 0)
FAILED = Failed(ErrorCode.OVERLOADED, "no")
ENDS: dict[str, Output] = {
    "done": Done(),
    "failed": FAILED,
    "refused": Refused("claude", "sonnet", 1, FAILED, 503, "try again"),
}
PICK = st.integers(0, 100)
T = TypeVar("T")


@dataclass
class Run:
    """One run of the engine: what it brought, and how it is to go on."""

    key: str
    send: Send
    brought: list[Output] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    told: bool = False
    ending: bool = False
    over: bool = False
    crash: bool = False


class ControlledEngine:
    """Starts a run for each job; one that is cancelled takes its time to die, like a process."""

    def __init__(self) -> None:
        self.admission = SimpleNamespace()
        self.runs: list[Run] = []

    async def serve(self, job: Job, send: Send) -> None:
        run = Run(job.request.messages[0].text, send)
        self.runs.append(run)
        try:
            await run.go_on.wait()
            if run.crash:
                raise RuntimeError("a mistake")
        except asyncio.CancelledError:
            run.ending = True
            await run.gone.wait()
            raise
        finally:
            run.over = True


@dataclass
class Client:
    """One reader, and what it got."""

    key: str
    reader: Reader
    run: Run | None = None
    got: list[Output] = field(default_factory=list)


class FlightMachine(RuleBasedStateMachine):
    """Two questions, any number of askers."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.engine = ControlledEngine()
        self.log = io.StringIO()
        log = Log(self.log, quiet_s=0)
        self.tasks = Tasks(log)
        self.store = UsageStore(NOWHERE / "never opened")
        self.service = Service(
            catalogue=Catalogue(Config(), {"claude": ("sonnet",)}),
            fleet=cast(Fleet, SimpleNamespace()),
            pool=cast(Pool, SimpleNamespace()),
            engine=cast(Engine, self.engine),
            lasting=Lasting(
                admission=cast(Admission, SimpleNamespace()),
                store=self.store,
                cache=Cache(CacheConfig()),
                people=People(Keyring(NOWHERE), self.store, log),
                request_log=RequestLog(self.store, time.monotonic, time.time),
            ),
            planner=Planner(Shapes(BackgroundConfig()), ""),
            tasks=self.tasks,
            log=log,
        )
        self.clients: list[Client] = []

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(5):
                return await work

        return self.loop.run_until_complete(bounded())

    def _tick(self) -> None:
        async def turns() -> None:
            for _ in range(TICKS):
                await asyncio.sleep(0)

        self._run(turns())

    def _live(self, key: str | None = None) -> list[Run]:
        """Runs that may still tell something, and that nobody is ending."""
        return [
            run
            for run in self.engine.runs
            if key in (None, run.key) and not (run.told or run.ending or run.over)
        ]

    @rule(key=st.sampled_from("ab"), caller=st.sampled_from(["me", "you"]))
    def ask(self, key: str, caller: str) -> None:
        live, before = self._live(f"{key} of {caller}"), len(self.engine.runs)
        request = Request("sonnet", (Message(Role.USER, f"{key} of {caller}"),))

        async def join() -> Reader:
            log = Log(self.log, quiet_s=0)
            context = RequestContext("r", Caller(caller, caller, owner=True), None, log)
            return self.service.join(request, self.service.chain(request), context)

        client = Client(f"{key} of {caller}", self._run(join()))
        self._tick()
        spawned = len(self.engine.runs) - before
        assert spawned == (0 if live else 1), "one spawn for all who ask the same at one time"
        client.run = live[0] if live else self.engine.runs[-1]
        self.clients.append(client)

    @precondition(lambda self: self._live())
    @rule(which=PICK, count=st.integers(1, 3))
    def bring(self, which: int, count: int) -> None:
        run = self._pick(self._live(), which)
        texts: list[Output] = [Text(f"{len(run.brought)}.{n}") for n in range(count)]
        self._send(run, texts if run.brought else [HEAD, *texts])

    @precondition(lambda self: self._live())
    @rule(which=PICK, end=st.sampled_from(sorted(ENDS)), lands=st.booleans())
    def tell_the_last_word(self, which: int, end: str, lands: bool) -> None:
        run = self._pick(self._live(), which)
        head = [] if run.brought or end == "refused" else [HEAD]
        self._send(run, [*head, ENDS[end]])
        run.told = True
        if lands:
            self._land(run)

    @precondition(lambda self: any(run.told and not run.over for run in self.engine.runs))
    @rule(which=PICK)
    def land(self, which: int) -> None:
        """The process is gone at last, after the last word."""
        told = [run for run in self.engine.runs if run.told and not run.over]
        self._land(self._pick(told, which))

    @precondition(lambda self: self._live())
    @rule(which=PICK)
    def crash(self, which: int) -> None:
        run = self._pick(self._live(), which)
        run.crash = True
        self._land(run)

    @precondition(lambda self: any(run.ending and not run.over for run in self.engine.runs))
    @rule(which=PICK)
    def process_dies(self, which: int) -> None:
        run = self._pick([r for r in self.engine.runs if r.ending and not r.over], which)
        run.gone.set()
        self._tick()
        assert run.over

    @precondition(lambda self: self.clients)
    @rule(which=PICK)
    def read(self, which: int) -> None:
        client = self._pick(self.clients, which)
        assert client.run is not None
        new = client.run.brought[len(client.got) :]
        task = self.loop.create_task(_read(client.reader))
        self._tick()
        if not new and not client.run.over:
            assert not task.done(), "there is nothing to read yet"
            task.cancel()
            self._tick()
            return
        told = task.result()
        if isinstance(told, BrokenOff):
            assert not new and not client.run.told and client.run.over
        else:
            client.got += told
            assert list(told) == new

    @precondition(lambda self: self.clients)
    @rule(which=PICK)
    def leave(self, which: int) -> None:
        client = self.clients.pop(which % len(self.clients))
        run = client.run
        assert run is not None
        ended = run.ending

        async def go() -> None:
            with client.reader:
                pass

        self._run(go())
        self._tick()
        others = any(other.run is run for other in self.clients)
        if not (run.told or run.over or ended):
            assert run.ending == (not others), "the last to leave ends it, and only the last"

    def _pick(self, some: Sequence[T], which: int) -> T:
        return some[which % len(some)]

    def _send(self, run: Run, outputs: Sequence[Output]) -> None:
        self._run(_send(run, outputs))
        run.brought += outputs
        self._tick()

    def _land(self, run: Run) -> None:
        run.go_on.set()
        self._tick()
        assert run.over

    @invariant()
    def H1_a_reader_has_the_beginning_of_its_answer_and_nothing_else(self) -> None:
        for client in self.clients:
            assert client.run is not None
            assert client.got == client.run.brought[: len(client.got)]
            assert client.run.key == client.key

    @invariant()
    def H1_never_two_live_runs_of_one_question(self) -> None:
        keys = [run.key for run in self._live()]
        assert len(keys) == len(set(keys))

    @invariant()
    def H1_what_nobody_reads_is_ended(self) -> None:
        for run in self._live():
            assert any(client.run is run for client in self.clients)

    @invariant()
    def M6_what_is_over_is_forgotten(self) -> None:
        running = [run for run in self.engine.runs if not run.over]
        assert len(self.tasks) == len(running)
        assert self.service.in_flight <= len(running)

    def teardown(self) -> None:
        while self.clients:
            self.leave(0)
        for run in self.engine.runs:
            run.go_on.set()
            run.gone.set()
        self._tick()
        try:
            assert len(self.tasks) == 0 and self.service.in_flight == 0
            crashed = sum(run.crash for run in self.engine.runs)
            assert self.log.getvalue().count("task_failed") == crashed
        finally:
            self.loop.close()


async def _read(reader: Reader) -> Sequence[Output] | BrokenOff:
    try:
        return await reader.read()
    except BrokenOff as error:
        return error


async def _send(run: Run, outputs: Sequence[Output]) -> None:
    await run.send(outputs)


def test_H1_flights_in_any_order_of_events() -> None:
    machine = settings(max_examples=60, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(FlightMachine, settings=machine)


# --- the readers that are too slow ---------------------------------------------------------------


async def test_H1_a_slow_reader_is_cut_alone_with_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reader that stays behind while another reads on is cut; the other gets everything."""
    monkeypatch.setattr(flights, "MAX_LAG", 100)
    more: asyncio.Queue[int] = asyncio.Queue()

    async def run(send: Send) -> None:
        await send([HEAD, Text("first")])
        while count := await more.get():
            await send([Text("x")] * count)
        await send([Done()])

    one = flights.SharedAnswer(run, Tasks(Log(io.StringIO())))
    with one.join() as quick, one.join() as slow:
        assert list(await slow.read()) == [HEAD, Text("first")]
        got = list(await quick.read())
        for count in (100, 100, 0):
            more.put_nowait(count)
            got += await quick.read()
        cut = [list(await slow.read()), list(await slow.read())]
    assert cut == [[Done(Finish.LENGTH, truncated=True)], []]
    assert got == [HEAD, Text("first"), *[Text("x")] * 200, Done()]


async def test_H1_a_reader_that_is_alone_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "MAX_LAG", 100)

    async def run(send: Send) -> None:
        await send([HEAD, *[Text("x")] * 1000, Done()])

    one = flights.SharedAnswer(run, Tasks(Log(io.StringIO())))
    with one.join() as reader:
        await asyncio.sleep(0)
        assert len(await reader.read()) == 1002
