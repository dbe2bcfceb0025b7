"""One run and its readers."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence

import pytest

from olp.events import Answering, Done, Finish, Output, Text
from olp.runtime.log import Log
from olp.runtime.serving import shared_answer as flights
from olp.runtime.serving.engine import Send
from olp.runtime.serving.shared_answer import BrokenOff, Reader, SharedAnswer
from olp.runtime.tasks import Tasks
from tests.support import soon, until

HEAD = Answering("claude", "sonnet", 0)


class Script:
    """A run of the engine that says what a test tells it to."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[Sequence[Output] | Exception | None] = asyncio.Queue()
        self.cancelled = False

    def say(self, *outputs: Output) -> None:
        """Bring these."""
        self.words.put_nowait(outputs)

    async def __call__(self, send: Send) -> None:
        try:
            while (word := await self.words.get()) is not None:
                if isinstance(word, Exception):
                    raise word
                await send(word)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    """Tasks that are all ended when the test is over."""
    made = Tasks(Log(io.StringIO()))
    yield made
    await soon(made.cancel_all())


async def read_all(reader: Reader) -> list[Output]:
    """Everything up to the end."""
    got: list[Output] = []
    with reader:
        while more := await soon(reader.read()):
            got += more
    return got


async def test_H1_every_reader_gets_everything_in_order(tasks: Tasks) -> None:
    script = Script()
    shared = SharedAnswer(script, tasks)
    early = asyncio.ensure_future(read_all(shared.join()))
    script.say(HEAD, Text("one"))
    await asyncio.sleep(0)
    await until(lambda: shared.size == 2, "two were brought")
    late = asyncio.ensure_future(read_all(shared.join()))
    script.say(Text("two"))
    script.say(Done())
    script.words.put_nowait(None)
    everything = [HEAD, Text("one"), Text("two"), Done()]
    assert await soon(early) == await soon(late) == everything


async def test_H1_the_last_reader_that_leaves_ends_the_run(tasks: Tasks) -> None:
    script = Script()
    shared = SharedAnswer(script, tasks)
    first, second = shared.join(), shared.join()
    script.say(HEAD)
    await soon(first.read())
    with first:
        pass
    await asyncio.sleep(0.01)
    assert not script.cancelled
    assert shared.joinable
    with second:
        pass
    assert not shared.joinable
    await until(lambda: script.cancelled, "the run was ended")


async def test_H1_leaving_after_the_last_word_ends_nothing(tasks: Tasks) -> None:
    script = Script()
    shared = SharedAnswer(script, tasks)
    reader = shared.join()
    script.say(HEAD, Done())
    await soon(reader.read())
    with reader:
        pass
    await asyncio.sleep(0.01)
    assert not script.cancelled
    assert not shared.joinable
    script.words.put_nowait(None)
    await until(lambda: shared.over, "it is over")


async def test_H1_a_slow_reader_among_several_is_cut_alone(tasks: Tasks) -> None:
    script = Script()
    shared = SharedAnswer(script, tasks)
    quick, slow = shared.join(), shared.join()
    script.say(HEAD)
    assert await soon(slow.read()) == [HEAD]
    script.say(*[Text("x")] * (flights.MAX_LAG + 1))
    script.say(Done())
    script.words.put_nowait(None)
    got: list[Output] = []
    while len(got) < flights.MAX_LAG + 3:
        got += await soon(quick.read())
    assert await soon(slow.read()) == (Done(Finish.LENGTH, truncated=True),)
    assert await soon(slow.read()) == ()
    assert got[-1] == Done()


async def test_H1_a_slow_reader_that_is_alone_is_waited_for(tasks: Tasks) -> None:
    script = Script()
    shared = SharedAnswer(script, tasks)
    reader = shared.join()
    script.say(HEAD, *[Text("x")] * (flights.MAX_LAG + 1))
    script.say(Done())
    script.words.put_nowait(None)
    await until(lambda: shared.over, "it is over")
    assert len(await read_all(reader)) == flights.MAX_LAG + 3


@pytest.mark.parametrize("told", [[], [HEAD, Text("half")]], ids=["before", "in the middle"])
async def test_B3_a_run_that_fails_is_told_to_its_readers(tasks: Tasks, told: list[Output]) -> None:
    script = Script()
    shared = SharedAnswer(script, tasks)
    reader = shared.join()
    if told:
        script.say(*told)
        assert list(await soon(reader.read())) == told
    script.words.put_nowait(RuntimeError("a mistake"))
    with pytest.raises(BrokenOff) as caught:
        await soon(reader.read())
    assert not caught.value.stopped
    assert not shared.joinable


async def test_B3_a_run_that_is_stopped_is_told_to_its_readers(tasks: Tasks) -> None:
    script = Script()
    shared = SharedAnswer(script, tasks)
    reader = shared.join()
    script.say(HEAD)
    await soon(reader.read())
    ending = asyncio.ensure_future(tasks.cancel_all())
    with pytest.raises(BrokenOff) as caught:
        await soon(reader.read())
    assert caught.value.stopped
    await soon(ending)


async def test_H1_a_run_that_is_ended_before_its_first_step_is_over_too(tasks: Tasks) -> None:
    over: list[bool] = []
    shared = SharedAnswer(Script(), tasks)
    shared.on_over(lambda: over.append(True))
    with shared.join():
        pass
    await until(lambda: shared.over, "it is over")
    assert over == [True]
