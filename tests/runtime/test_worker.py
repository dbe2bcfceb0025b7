"""The shell around a driver, with real programs and small drivers."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from olp.events import Done, ErrorCode, Event, Failed, Text
from olp.model import PRIVATE_DIR, Launch
from olp.providers.base import CloseInput, Exit, Settle, Step, Write, ended
from olp.runtime.log import Log
from olp.runtime.process.run_folder import RunFolder
from olp.runtime.process.worker import Worker
from olp.runtime.tasks import Tasks
from tests.support import exists, soon


class Lines:
    """A driver for which each line is a piece of the answer, and some words mean more."""

    def __init__(self, prompt: bytes = b"") -> None:
        self._prompt = prompt
        self.exit: Exit | None = None

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        match line:
            case "done":
                return [Done()]
            case "settle":
                return [Text("settled"), Settle(0.3)]
            case "ended":
                return [ended("it", "did what it may not")]
            case "odd":
                raise KeyError("an unknown field")
            case "boom":
                raise RuntimeError("a driver's mistake")
            case _:
                return [Text(line)]

    def exited(self, exit: Exit) -> Sequence[Event]:
        self.exit = exit
        return [Done()] if exit.files else []


class Bench:
    """Makes workers, and looks what they leave."""

    def __init__(self, state: Path) -> None:
        self.place = RunFolder(state)
        self.place.open()
        self.tasks = Tasks(Log(io.StringIO()))
        self.driver = Lines()

    def worker(self, program: str, prompt: bytes = b"", collect: tuple[str, ...] = ()) -> Worker:
        """A worker over a Python program that knows its folder as P."""
        self.driver = Lines(prompt)
        env = {"P": PRIVATE_DIR, "PATH": "/usr/bin"}
        return self.over(Launch((sys.executable, "-SEc", program), env, collect=collect))

    def over(self, launch: Launch) -> Worker:
        """A worker over any launch."""
        return Worker(launch, self.driver, self.place, self.tasks, time.monotonic)

    def check_clean(self) -> None:
        """Nothing of any worker is there any more."""
        assert list(self.place.private.iterdir()) == []
        assert len(self.tasks) == 0


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that is clean in the end."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made = Bench(tmp_path / "state")
    yield made
    made.check_clean()
    made.place.close()


async def all_events(worker: Worker, seconds: float = 10.0) -> list[Event]:
    """What comes up to the last word."""
    events: list[Event] = []
    until = time.monotonic() + seconds
    while not (events and isinstance(events[-1], Done | Failed)):
        more = await soon(worker.events(until))
        assert more, "nothing came in time"
        events += more
    return events


async def test_C7_an_end_without_a_word_is_a_failure(bench: Bench) -> None:
    async with bench.worker("import sys; print('half'); sys.exit('why')") as worker:
        text, failed = await all_events(worker)
    assert text == Text("half")
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.SPAWN_FAILED
    assert "exited with code 1" in failed.detail
    assert "why" in failed.detail


@pytest.mark.parametrize(
    ("last", "living"), [("sys.exit(1)", False), ("print('ended')", True), ("print('odd')", True)]
)
async def test_G1_a_death_is_told_from_an_end_that_a_living_cli_had(
    bench: Bench, last: str, living: bool
) -> None:
    async with bench.worker(f"import sys; print('half'); {last}") as worker:
        *_, failed = await all_events(worker)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.living) == (ErrorCode.SPAWN_FAILED, living)


async def test_C7_the_last_line_needs_no_end(bench: Bench) -> None:
    async with bench.worker("import os; os.write(1, b'one\\ndone')") as worker:
        assert await all_events(worker) == [Text("one"), Done()]


async def test_C3_events_come_back_empty_at_the_time_asked_for(bench: Bench) -> None:
    async with bench.worker("import time; time.sleep(60)") as worker:
        began = time.monotonic()
        assert await worker.events(until=began + 0.3) == []
        assert 0.3 <= time.monotonic() - began < 3
        assert await worker.events(until=began) == []


async def test_C3_lines_without_meaning_do_not_move_the_clock(bench: Bench) -> None:
    chatter = "import time\nwhile True: print('', flush=True); time.sleep(0.02)"

    class Silent(Lines):
        def receive(self, line: str) -> Sequence[Step]:
            return []

    bench.driver = Silent()
    launch = Launch((sys.executable, "-SEc", chatter), {})
    async with bench.over(launch) as worker:
        began = time.monotonic()
        assert await worker.events(until=began + 0.4) == []
        assert 0.4 <= time.monotonic() - began < 3


async def test_C6_a_settled_answer_waits_so_long_and_no_longer(bench: Bench) -> None:
    program = "import os, time; os.mkdir(os.environ['P'] + '/out')\n"
    program += "open(os.environ['P'] + '/out/report', 'w').write('x')\n"
    program += "print('settle', flush=True); time.sleep(60)"
    async with bench.worker(program, collect=("out/report",)) as worker:
        began = time.monotonic()
        assert await all_events(worker) == [Text("settled"), Done()]
        assert 0.3 <= time.monotonic() - began < 4
    assert bench.driver.exit is not None
    assert bench.driver.exit.code is None
    assert bench.driver.exit.files == {"out/report": b"x"}


async def test_M6_the_prompt_is_written_and_the_input_closed(bench: Bench) -> None:
    program = "import sys; data = sys.stdin.buffer.read(); print(len(data)); print('done')"
    async with bench.worker(program, prompt=b"x" * 400_000) as worker:
        assert await all_events(worker) == [Text("400000"), Done()]


async def test_M6_leaving_by_an_exception_ends_the_process(bench: Bench) -> None:
    worker = bench.worker("import time; print('up', flush=True); time.sleep(60)")
    with pytest.raises(KeyError):
        async with worker:
            await worker.events(time.monotonic() + 5)
            pid = worker.pid
            raise KeyError
    assert pid is not None
    assert not exists(pid)


async def test_M6_leaving_by_a_cancellation_ends_the_process(bench: Bench) -> None:
    worker = bench.worker("import time; print('up', flush=True); time.sleep(60)")
    up = asyncio.Event()

    async def work() -> None:
        async with worker:
            await worker.events(time.monotonic() + 5)
            up.set()
            await worker.events(time.monotonic() + 60)

    task = asyncio.ensure_future(work())
    await soon(up.wait())
    pid = worker.pid
    # Whoever cancels may be impatient: no number of cancellations may cut the ending short.
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert pid is not None
    assert not exists(pid)


async def test_M6_a_cancellation_in_the_start_leaves_nothing(bench: Bench) -> None:
    for delay in (0, 0, 0.001, 0.002, 0.005):
        worker = bench.worker("import time; time.sleep(60)")
        task = asyncio.ensure_future(worker.__aenter__())
        await asyncio.sleep(delay)
        if task.cancel():
            await asyncio.wait([task], timeout=10)
        if not task.cancelled():
            await worker.__aexit__(None, None, None)
        bench.check_clean()


async def test_M6_a_drivers_mistake_is_no_leak(bench: Bench) -> None:
    worker = bench.worker("import time; print('boom', flush=True); time.sleep(60)")
    with pytest.raises(RuntimeError, match="mistake"):
        async with worker:
            pid = worker.pid
            await worker.events(time.monotonic() + 5)
    assert pid is not None
    assert not exists(pid)


async def test_A7_a_program_that_is_not_there_is_told_as_an_event(bench: Bench) -> None:
    async with bench.over(Launch(("/nowhere/claude",), {})) as worker:
        [failed] = await all_events(worker)
    assert failed == Failed(ErrorCode.CLI_NOT_FOUND, "claude is not installed")


async def test_A7_a_folder_that_is_gone_is_not_taken_for_a_missing_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    bench = Bench(tmp_path / "state")
    bench.place.private.rmdir()
    async with bench.worker("print('done')") as worker:
        [failed] = await all_events(worker)
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.SPAWN_FAILED
    bench.place.close()


async def test_C7_a_line_without_an_end_is_a_failure_and_not_all_the_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bench.worker("import sys\nwhile True: sys.stdout.write('x' * 65536)")
    monkeypatch.setattr(worker._lines, "_limit", 1_000_000)
    async with worker:
        [failed] = await all_events(worker)
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.SPAWN_FAILED
