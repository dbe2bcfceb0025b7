"""The pool of waiting CLIs: it is only speed, keeps within its bounds and mixes nobody up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from olp.core.answer.conversation import ConversationKey
from olp.model import Hop, Message, Request, Role
from olp.runtime.serving import service
from tests.fakes.plan import Plan
from tests.support import Answer, House, exists, open_house, until

FAKE = Path(__file__).parents[1] / "fakes" / "waiting_claude.py"
Open = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def pooled(tmp_path: Path, plan: Plan) -> Open:
    """A house whose only CLI is a claude that waits."""

    @asynccontextmanager
    async def opened(
        workers: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        **claude: Any,
    ) -> AsyncIterator[House]:
        options = {
            "command": [sys.executable, str(FAKE)],
            "transport": "auto",
            "env": dict(env or {}),
            **claude,
        }
        off = {"enabled": False}
        tables = {
            "providers": {"claude": options, "codex": off, "vibe": off},
            "workers": dict(workers or {}),
        }
        async with open_house(tmp_path, plan, tables) as house:
            yield house

    return opened


def waiting(house: House) -> Mapping[str, Any]:
    report: Mapping[str, Any] = house.service.health()["providers"]["claude"]["waiting"]
    return report


async def ready(house: House, count: int = 1) -> None:
    await until(lambda: waiting(house)["ready"] >= count, f"{count} waiting")


def talk(*texts: str) -> dict[str, Any]:
    """A conversation: the user and the assistant by turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]
    return {"model": "claude/sonnet", "messages": messages}


def pid_of(answer: Answer) -> int:
    return int(answer.text.partition(":")[0])


async def test_one_waits_and_another_takes_its_place(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        first = await house.chat(talk("hi"))
        assert (first.status, first.headers["X-OLP-Conversation"]) == (200, "new")
        assert first.text.endswith(": hi")
        await ready(house)
        second = await house.chat(talk("other"))
        assert pid_of(second) != pid_of(first)
        assert second.text.endswith(": other")


async def test_none_waits_before_the_cli_was_asked_about_itself(
    pooled: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may tell what each launch is to be given, and codex with its tools would wait for ever."""
    monkeypatch.setattr(service, "SURVEY_AFTER_S", 3600.0)
    async with pooled() as house:
        assert (await house.chat(talk("hi"))).status == 200
        await asyncio.sleep(0.5)
        assert (waiting(house)["ready"], waiting(house)["starting"]) == (0, 0)
        await house.service.refresh()
        await ready(house)


async def test_what_was_started_without_what_the_cli_told_since_gives_way(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        first = await house.chat(talk("one"))
        await ready(house)
        house.service._fleet.keep("claude", "models.json", b"{}")
        await house.service.refresh()
        await until(lambda: not exists(pid_of(first)), "the conversation's process is gone")
        await ready(house)
        again = await house.chat(talk("one", first.text, "two"))
        assert (again.status, again.headers["X-OLP-Conversation"]) == (200, "replayed")
        await house.service.refresh()
        third = await house.chat(talk("one", first.text, "two", again.text, "three"))
        assert third.headers["X-OLP-Conversation"] == "live", "nothing new was told"


async def test_a_follow_up_goes_to_its_process_with_the_new_message_alone(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        first = await house.chat(talk("one"))
        second = await house.chat(talk("one", first.text, "two"))
        assert second.headers["X-OLP-Conversation"] == "live"
        assert second.text == f"{pid_of(first)}: one | two"
        third = await house.chat(talk("one", first.text, "two", f" {second.text}\n", "three"))
        assert third.headers["X-OLP-Conversation"] == "live", "a trimmed answer is the same one"


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["messages"][0].update(content="edited"),
        lambda body: body["messages"][1].update(content="not what was said"),
        lambda body: body.update(model="claude/haiku"),
        lambda body: body["messages"].insert(0, {"role": "system", "content": "new"}),
        lambda body: body.update(max_tokens=5),
        lambda body: body.update(reasoning_effort="high"),
    ],
    ids=["history", "answer", "model", "system", "max_tokens", "effort"],
)
async def test_anything_else_is_replayed_on_another_process(
    pooled: Open, change: Callable[[dict[str, Any]], Any]
) -> None:
    async with pooled() as house:
        await ready(house)
        first = await house.chat(talk("one"))
        await ready(house)
        body = talk("one", first.text, "two")
        change(body)
        second = await house.chat(body)
        assert (second.status, second.headers["X-OLP-Conversation"]) == (200, "replayed")
        assert pid_of(second) != pid_of(first)


async def test_a_process_that_died_while_waiting_costs_nothing(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        first = await house.chat(talk("one"))
        os.kill(pid_of(first), signal.SIGKILL)
        await until(lambda: waiting(house)["ready"] >= 1, "a new one")
        second = await house.chat(talk("one", first.text, "two"))
        assert (second.status, second.headers["X-OLP-Conversation"]) == (200, "replayed")


async def test_one_that_dies_under_its_request_is_a_failed_spawn(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        answer = await house.chat(talk("die"))
        assert answer.status == 502
        assert answer.error["message"].startswith("SPAWN_FAILED")
        await ready(house)
        assert (await house.chat(talk("hi"))).status == 200


async def test_M6_a_client_that_leaves_ends_the_process(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        async with _left(house):
            await until(lambda: waiting(house)["busy"] == 1, "busy")
        await house.settled()
        await until(lambda: waiting(house)["busy"] == 0, "no longer busy")


@asynccontextmanager
async def _left(house: House) -> AsyncIterator[None]:
    request = asyncio.ensure_future(house.chat(talk("hang")))
    yield
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request


async def test_without_a_waiting_one_a_request_has_its_own_process(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        answers = await asyncio.gather(*(house.chat(talk(f"hi {n}")) for n in range(3)))
        assert [answer.status for answer in answers] == [200, 200, 200]
        assert len({pid_of(answer) for answer in answers}) == 3


async def test_conversations_are_bounded(pooled: Open) -> None:
    async with pooled(workers={"conversations": 2}) as house:
        pids = []
        for number in range(4):
            await ready(house)
            pids.append(pid_of(await house.chat(talk(f"talk {number}"))))
        await until(lambda: waiting(house)["conversations"] <= 2, "two conversations")
        await until(lambda: not exists(pids[0]), "the oldest is gone")
        assert exists(pids[3])


async def test_processes_are_bounded(pooled: Open) -> None:
    async with pooled(workers={"max_processes": 1, "conversations": 0}, warm=3) as house:
        await ready(house)
        await asyncio.sleep(0.3)
        report = waiting(house)
        assert report["ready"] + report["starting"] == 1


async def test_memory_is_bounded(pooled: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("olp.runtime.pool.pool.MAINTAIN_EVERY_S", 0.2)
    async with pooled(workers={"max_memory_mb": 1}) as house:
        # What lasts is looked at: it may be started and ended between two looks at its memory.
        kind = house.service._pool._pools["claude"]
        await until(lambda: kind.proven and kind.not_before > 0, "started, and too large")
        await until(lambda: waiting(house)["memory_mb"] <= 1, "too large is ended")
        assert waiting(house)["problem"] is None, "it was not ended for anything else"
        await asyncio.sleep(0.5)
        assert waiting(house)["starting"] == 0, "it would only be ended again"
        assert (await house.chat(talk("hi"))).status == 200


@pytest.mark.parametrize("workers", [{"max_processes": 0}, {}])
async def test_off_is_off(pooled: Open, workers: Mapping[str, Any]) -> None:
    async with pooled(workers=workers, warm=0) as house:
        await asyncio.sleep(0.2)
        assert waiting(house)["ready"] == waiting(house)["starting"] == 0


async def test_a_waiting_process_that_died_costs_no_request(pooled: Open) -> None:
    """Nothing was sent to it, so nothing was attempted: another one is asked."""
    async with pooled() as house:
        await ready(house)
        (dead,) = house.service._pool._pools["claude"].processes
        assert dead.worker.pid is not None
        os.kill(dead.worker.pid, signal.SIGKILL)
        await asyncio.sleep(0.1)
        answer = await house.chat(talk("hi"))
        assert (answer.status, answer.served[0]) == (200, "claude"), answer.raw
        assert pid_of(answer) != dead.worker.pid


async def test_a_cli_that_cannot_wait_is_told_and_left_alone(pooled: Open) -> None:
    async with pooled(env={"WAITING_BOOT": "fail"}) as house:
        await until(lambda: waiting(house)["problem"], "the code is told")
        (warned,) = house.logged("warm_start_failed")
        assert warned["next_try_s"] == 5.0


async def test_nothing_outlives_the_server(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        first = await house.chat(talk("one"))
        await ready(house)
        assert exists(pid_of(first))
    assert not exists(pid_of(first))


def test_M7_two_callers_never_share_a_conversation() -> None:
    hop = Hop("claude", "sonnet")
    first = Request("m", (Message(Role.USER, "one"),))
    answer = Message(Role.ASSISTANT, "answer")
    second = Request("m", (*first.messages, answer, Message(Role.USER, "two")))
    known = ConversationKey("anna", first).after(hop, "answer")
    assert ConversationKey("anna", second).before(hop) == known
    assert ConversationKey("ben", second).before(hop) != known
    assert ConversationKey("anna", second).before(Hop("claude", "opus")) != known
    assert ConversationKey("anna", first).before(hop) is None
