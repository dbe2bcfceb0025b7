"""The tasks that OLP started."""

from __future__ import annotations

import asyncio
import io

import pytest

from olp.runtime.log import Log
from olp.runtime.tasks import Tasks, see_through
from tests.support import soon, until


async def test_M6_vital_work_is_waited_for_and_not_cancelled() -> None:
    tasks = Tasks(Log(io.StringIO()))
    done: list[str] = []

    async def ending() -> None:
        await asyncio.sleep(0.2)
        done.append("ended")

    async def flight() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await see_through(tasks.spawn(ending(), "end", vital=True))

    tasks.spawn(flight(), "flight")
    tasks.spawn(ending(), "another end", vital=True)
    await asyncio.sleep(0)
    await soon(tasks.cancel_all())
    assert done == ["ended", "ended"]
    assert len(tasks) == 0


async def test_M6_see_through_waits_and_then_lets_the_cancellation_go_on() -> None:
    done: list[str] = []

    async def ending() -> None:
        await asyncio.sleep(0.1)
        done.append("ended")

    async def caller() -> None:
        await see_through(asyncio.ensure_future(ending()))
        done.append("not reached")

    task = asyncio.ensure_future(caller())
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["ended"]


async def test_L3_a_mistake_is_logged_without_its_words() -> None:
    text = io.StringIO()
    tasks = Tasks(Log(text))

    async def fails() -> None:
        "the prompt of a client \ud800".encode()

    tasks.spawn(fails(), "flight")
    await until(lambda: not len(tasks), "it ended")
    assert "task_failed" in text.getvalue()
    assert "UnicodeEncodeError in fails (test_tasks.py:" in text.getvalue()
    assert "prompt" not in text.getvalue()
