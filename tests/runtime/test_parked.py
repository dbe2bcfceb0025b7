"""Processes whose calls are open: they wait for their results, within bounds, for their caller."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from olp.runtime.process import child as process
from tests.support import Answer, House, exists, until

from .test_pool import Open, pid_of, pooled, ready, waiting

__all__ = ["pooled"]

F = {"type": "function", "function": {"name": "f", "parameters": {}}}


def asking(text: str = "call", **more: Any) -> dict[str, Any]:
    user = {"role": "user", "content": text}
    return {"model": "claude/sonnet", "messages": [user], "tools": [F], **more}


def with_results(
    body: Mapping[str, Any], answer: Answer, ids: Sequence[str] = ("t1", "t2")
) -> dict[str, Any]:
    """The request that brings the results of an answer's calls."""
    said = answer.body["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": id, "content": f"result {id}"} for id in ids]
    return {**body, "messages": [*body["messages"], said, *results]}


def called(answer: Answer) -> list[str]:
    (choice,) = answer.body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    return [call["id"] for call in choice["message"]["tool_calls"]]


async def parked(house: House, count: int) -> None:
    await until(lambda: waiting(house)["parked"] == count, f"{count} parked")


@pytest.mark.parametrize("workers", [{}, {"max_processes": 0}])
async def test_N1_the_process_waits_and_goes_on(pooled: Open, workers: dict[str, Any]) -> None:
    async with pooled(workers) as house:
        first = await house.chat(asking())
        assert called(first) == ["t1", "t2"]
        second = await house.chat(with_results(asking(), first))
        if workers:
            assert second.headers["X-OLP-Conversation"] == "replayed", "there is no room to wait"
        else:
            assert second.headers["X-OLP-Conversation"] == "live"
            assert second.text.endswith("call | result t1 | result t2")
        await parked(house, 0)


async def test_N1_it_waits_although_the_cli_has_told_something_new(pooled: Open) -> None:
    """What it was started with is enough for the conversation that it has, and for no other."""
    async with pooled() as house:
        asked = asyncio.ensure_future(house.chat(asking()))
        await until(lambda: waiting(house)["busy"] == 1, "the CLI is being asked")
        house.service._fleet.keep("claude", "models.json", b"{}")
        first = await asked
        await house.service.refresh()
        second = await house.chat(with_results(asking(), first))
        assert second.headers["X-OLP-Conversation"] == "live"
        await until(lambda: not exists(pid_of(second)), "its process is gone")


async def test_N1_a_result_that_is_left_out_is_told_as_cancelled(pooled: Open) -> None:
    async with pooled() as house:
        first = await house.chat(asking())
        second = await house.chat(with_results(asking(), first, ["t2"]))
        assert second.headers["X-OLP-Conversation"] == "live"
        assert "cancelled" in second.text and second.text.endswith("result t2")


async def test_N1_only_one_call_where_the_client_wants_one_at_a_time(pooled: Open) -> None:
    async with pooled() as house:
        body = asking(parallel_tool_calls=False)
        first = await house.chat(body)
        assert called(first) == ["t1"]
        second = await house.chat(with_results(body, first, ["t1"]))
        assert second.headers["X-OLP-Conversation"] == "live"
        assert "result t1" in second.text and "cancelled" in second.text


async def test_M6_it_waits_so_long_and_no_longer(pooled: Open) -> None:
    async with pooled({"parked_s": 1.0}) as house:
        first = await house.chat(asking())
        await parked(house, 1)
        await parked(house, 0)
        second = await house.chat(with_results(asking("hi"), first))
        assert (second.status, second.headers["X-OLP-Conversation"]) == (200, "replayed")
        assert "result t1 result t2" in second.text


async def test_M6_of_too_many_the_oldest_goes(pooled: Open) -> None:
    async with pooled({"parked": 2}) as house:
        bodies = [asking(f"call {n}") for n in range(3)]
        firsts = [await house.chat(body) for body in bodies]
        await parked(house, 2)
        ways = [
            (await house.chat(with_results(body, first))).headers["X-OLP-Conversation"]
            for body, first in zip(bodies[::-1], firsts[::-1], strict=True)
        ]
        assert ways == ["live", "live", "replayed"]


async def test_M6_none_waits_where_none_may(pooled: Open) -> None:
    async with pooled({"parked": 0}) as house:
        first = await house.chat(asking())
        await parked(house, 0)
        second = await house.chat(with_results(asking(), first))
        assert second.headers["X-OLP-Conversation"] == "replayed"


async def test_N1_one_that_died_is_replaced(pooled: Open) -> None:
    async with pooled() as house:
        await ready(house)
        kept = await house.chat(asking("hi"))
        first = await house.chat(asking())
        await parked(house, 1)
        (warm,) = [
            warm
            for kind in house.service._pool._pools.values()
            for warm in kind.processes
            if warm.parked
        ]
        assert warm.worker.pid is not None
        os.kill(warm.worker.pid, signal.SIGKILL)
        await until(lambda: not exists(warm.worker.pid or 0), "it is gone")
        second = await house.chat(with_results(asking("hi"), first))
        assert (second.status, second.headers["X-OLP-Conversation"]) == (200, "replayed")
        assert pid_of(second) not in (pid_of(kept), warm.worker.pid)


@pytest.mark.parametrize("edit", ["history", "call", "tools"])
async def test_M7_only_the_very_conversation_goes_on(pooled: Open, edit: str) -> None:
    async with pooled() as house:
        first = await house.chat(asking())
        body = with_results(asking(), first)
        if edit == "history":
            body["messages"][0] = {"role": "user", "content": "something else"}
        elif edit == "call":
            body["messages"][1]["tool_calls"][0]["function"]["arguments"] = '{"a": 1}'
        else:
            body["tools"] = [{"type": "function", "function": {"name": "f", "description": "F"}}]
        second = await house.chat(body)
        assert (second.status, second.headers["X-OLP-Conversation"]) == (200, "replayed")


async def test_N1_arguments_that_were_written_anew_are_the_same_call(pooled: Open) -> None:
    async with pooled() as house:
        first = await house.chat(asking())
        body = with_results(asking(), first)
        for call in body["messages"][1]["tool_calls"]:
            call["function"]["arguments"] = " { } "
        body["messages"][1]["content"] = ""
        assert (await house.chat(body)).headers["X-OLP-Conversation"] == "live"


async def test_N1_whoever_says_more_than_the_results_begins_anew(pooled: Open) -> None:
    async with pooled() as house:
        first = await house.chat(asking())
        body = with_results(asking("hi"), first)
        body["messages"].append({"role": "user", "content": "and now this"})
        second = await house.chat(body)
        assert (second.status, second.headers["X-OLP-Conversation"]) == (200, "replayed")
        assert second.text.endswith("result t1 result t2 and now this")


async def test_N1_a_stream_with_calls_ends_well(pooled: Open) -> None:
    async with pooled() as house:
        streamed = await house.stream(asking())
        deltas = [event["choices"][0]["delta"] for event in streamed.data]
        calls = [part for delta in deltas for part in delta.get("tool_calls", ())]
        assert [part["index"] for part in calls] == [0, 0, 1, 1]
        assert streamed.data[-1]["choices"][0]["finish_reason"] == "tool_calls"
        await parked(house, 1)


async def test_M6_a_stop_leaves_none_behind(pooled: Open) -> None:
    async with pooled() as house:
        await house.chat(asking())
        await parked(house, 1)
        pids = [
            warm.worker.pid for k in house.service._pool._pools.values() for warm in k.processes
        ]
        assert pids
    for pid in pids:
        assert pid is not None
        await until(lambda pid=pid: not exists(pid), "it is gone")  # type: ignore[misc]


async def test_D2_a_parked_process_takes_no_slot(pooled: Open) -> None:
    async with pooled(max_concurrent=1) as house:
        await house.chat(asking())
        await parked(house, 1)
        await asyncio.sleep(0)
        assert (await house.chat(asking("hi"))).status == 200


async def test_D2_who_leaves_while_it_starts_leaves_nothing_behind(
    pooled: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = process.start

    async def slow(*args: Any) -> process.Child:
        await asyncio.sleep(0.3)
        return await start(*args)

    async with pooled(warm=0) as house:
        monkeypatch.setattr(process, "start", slow)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.15):
                await house.chat(asking())
        await until(lambda: house.service.in_flight == 0, "it is over")
        processes = [s for kind in house.service._pool._pools.values() for s in kind.processes]
        assert processes == []


async def test_D2_who_leaves_as_the_results_are_handed_over_is_gone(pooled: Open) -> None:
    async with pooled() as house:
        await house.chat(asking())
        await parked(house, 1)
        (warm,) = [s for k in house.service._pool._pools.values() for s in k.processes if s.parked]
        leaving = asyncio.ensure_future(warm.unwatch())
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving


async def test_M5_what_will_not_be_gone_on_with_is_not_kept(pooled: Open) -> None:
    async with pooled() as house:
        for round in range(3):
            body = asking(f"call {round}")
            body = with_results(body, await house.chat(body))
            body["messages"].append({"role": "user", "content": "hi"})
            assert (await house.chat(body)).headers["X-OLP-Conversation"] == "replayed"
        await parked(house, 0)


async def test_M5_functions_whose_calls_have_no_ids_are_not_waited_for(pooled: Open) -> None:
    async with pooled() as house:
        body = asking()
        body["functions"] = [body.pop("tools")[0]["function"]]
        answer = await house.chat(body)
        assert answer.finish == "function_call"
        await parked(house, 0)


async def test_M5_the_pool_is_cared_for_where_nothing_is_started_ahead(pooled: Open) -> None:
    async with pooled({"conversation_idle_s": 0.1}, warm=0) as house:
        house.service._pool._closed = False
        assert any(task.get_name() == "care of the pool" for task in house.service._pool._own)


async def test_M5_nobody_pushes_out_everybody_elses(pooled: Open) -> None:
    async with pooled({"parked": 2}) as house:
        mine = asking("call mine")
        first = await house.chat(mine)
        await parked(house, 1)
        (warm,) = [s for k in house.service._pool._pools.values() for s in k.processes if s.parked]
        warm.caller = "somebody else"
        for n in range(3):
            await house.chat(asking(f"call {n}"))
        await parked(house, 2)
        assert warm.parked
        del first


async def test_F2_what_a_prompt_brings_about_is_not_the_providers_fault(pooled: Open) -> None:
    async with pooled() as house:
        for _ in range(4):
            answer = await house.chat(asking("steal"))
            assert answer.status == 502
        assert not house.logged("breaker_opened")
