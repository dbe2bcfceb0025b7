"""R3: answers that were asked for as JSON stream, and never look complete where they are not."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import jiter
import openai
import pytest

from tests.conftest import OpenHouse
from tests.fakes.plan import dies, fails, says, turn
from tests.support import BOTH, Streamed, ask

OBJECT = {"response_format": {"type": "json_object"}}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
STRICT = {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}
PIECES = ('{"name": ', '"Ada', ' Lovelace", "a', 'ge": 3', "6}")
WHOLE = "".join(PIECES)
FORCED = {
    "tools": [{"type": "function", "function": {"name": "person", "parameters": SCHEMA}}],
    "tool_choice": {"type": "function", "function": {"name": "person"}},
}


def grows(pieces: list[str], whole: str) -> None:
    """Each prefix is one of the whole, and there are several: what partial parsers live on."""
    assert len(pieces) > 2, pieces
    so_far = ""
    for piece in pieces:
        so_far += piece
        assert whole.startswith(so_far)
    assert so_far == whole


async def test_R3_json_streams_as_it_comes(open_: OpenHouse) -> None:
    house = await open_(claude=says(*PIECES, every=0.15))
    answer = await house.stream({**ask(), **OBJECT})
    grows(answer.pieces, WHOLE)
    times = [at for at, frame in answer.frames if '"content"' in frame and "null" not in frame[:9]]
    assert times[-1] - times[0] > 0.4, "not in one piece at the end"
    assert (answer.finish, answer.done) == ("stop", True)


@BOTH
@pytest.mark.parametrize("before", ["```json\n", "Here it is:\n```json\n", "Here it is:\n"])
async def test_R3_what_stands_around_the_json_is_in_neither_form(
    open_: OpenHouse, stream: bool, before: str
) -> None:
    after = "\n```" if "`" in before else "\n"
    house = await open_(claude=says(before, *PIECES, after))
    answer = await house.ask(stream, {**ask(), **OBJECT})
    assert (answer.text, answer.finish) == (WHOLE, "stop")


@BOTH
@pytest.mark.parametrize("json", ["stream", "checked"])
async def test_R3_prose_is_nobodys_answer_and_the_chain_goes_on(
    open_: OpenHouse, stream: bool, json: str
) -> None:
    house = await open_(
        claude=says("I cannot ", "do that."), codex=says(WHOLE), routing={"json": json}
    )
    answer = await house.ask(stream, {**ask(), **OBJECT})
    assert (answer.text, answer.finish) == (WHOLE, "stop")
    assert answer.headers["X-OLP-Fallback-Hops"] == "1"
    [record] = answer.detail
    assert record["code"] == "FORMAT_MISMATCH"


@pytest.mark.parametrize("more", [" oops", "} and so on"])
async def test_R3_a_mismatch_at_the_end_is_an_error_and_no_end(open_: OpenHouse, more: str) -> None:
    house = await open_(claude=says(*PIECES[:-1], more, every=0.05), codex=says("never"))
    answer = await house.stream({**ask(), **OBJECT})
    assert answer.error["code"] == "format_mismatch"
    assert not answer.finished and not answer.done
    assert house.plan.spawns() == {"claude": 1}, "no other hop after the first byte"


async def test_R3_where_json_is_checked_first_a_mismatch_goes_to_the_next_hop(
    open_: OpenHouse,
) -> None:
    house = await open_(
        claude=says(*PIECES[:-1], " oops", every=0.05),
        codex=says(WHOLE),
        routing={"json": "checked"},
    )
    answer = await house.stream({**ask(), **OBJECT})
    assert (answer.text, answer.finish) == (WHOLE, "stop")
    assert answer.headers["X-OLP-Provider-Used"] == "codex"


async def test_B3_json_whose_cli_dies_is_cut(open_: OpenHouse) -> None:
    talk = turn(["init"], ["start"], ["say", PIECES[0]], ["sleep", 0.2], ["exit", 1])
    house = await open_(claude=talk, codex=says(WHOLE))
    answer = await house.stream({**ask(), **OBJECT})
    assert (answer.text, answer.finish, answer.done) == (PIECES[0], "length", True)
    whole = await house.chat({**ask(), **OBJECT})
    assert (whole.text, whole.headers["X-OLP-Provider-Used"]) == (WHOLE, "codex")


@pytest.mark.parametrize("first", [dies(["{"]), dies(), fails("overloaded", ["{"]), says("{")])
async def test_R3_nothing_is_lost_as_long_as_nothing_is_certain(
    open_: OpenHouse, first: Any
) -> None:
    house = await open_(claude=first, codex=says(WHOLE))
    answer = await house.stream({**ask(), **OBJECT})
    assert (answer.text, answer.finish) == (WHOLE, "stop")


# --- a call that is insisted on ------------------------------------------------------------------


def arguments(answer: Streamed) -> list[str]:
    """The pieces of the arguments of its one call."""
    deltas = [chunk["choices"][0]["delta"] for chunk in answer.data if chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    return [piece for call in calls if (piece := call["function"].get("arguments"))]


async def test_R3_the_arguments_of_a_call_stream_as_they_come(open_: OpenHouse) -> None:
    house = await open_(vibe=says(WHOLE), codex=says(WHOLE), claude=says(*PIECES, every=0.05))
    body = {**ask(), **FORCED, "tools": [{"type": "function", "function": {"name": "person"}}]}
    answer = await house.stream(body)
    assert "".join(arguments(answer)) == WHOLE
    assert answer.finish == "tool_calls"


@BOTH
async def test_N1_a_call_whose_arguments_do_not_fit_is_given_and_told(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(codex=says('{"name": 5, "age": 36}'), chains={"one": ["codex/m"]})
    answer = await house.ask(stream, {**ask(model="one"), **FORCED})
    assert (answer.status, answer.finish) == (200, "tool_calls")
    assert "$.name" in answer.headers["X-OLP-Call-Mismatch"]
    said = (
        "".join(arguments(answer))
        if isinstance(answer, Streamed)
        else answer.body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    )
    assert json.loads(said) == {"name": 5, "age": 36}


@BOTH
async def test_N1_a_call_that_is_no_JSON_is_none(open_: OpenHouse, stream: bool) -> None:
    house = await open_(codex=says("I would call it."), chains={"one": ["codex/m"]})
    answer = await house.ask(stream, {**ask(model="one"), **FORCED})
    assert (answer.status, answer.error["code"]) == (502, "format_mismatch")
    assert "X-OLP-Call-Mismatch" not in answer.headers


async def test_N1_each_call_has_an_id_of_its_own(open_: OpenHouse) -> None:
    house = await open_(codex=says(WHOLE), chains={"one": ["codex/m"]})
    ids = set()
    for _ in range(3):
        answer = await house.chat({**ask(model="one"), **FORCED})
        ids.add(answer.body["choices"][0]["message"]["tool_calls"][0]["id"])
    assert len(ids) == 3


# --- the vendor's own library --------------------------------------------------------------------


def parsed_on_the_way(pieces: list[str]) -> list[Any]:
    """What clients show of an answer that is not whole (instructor's partials, the AI SDK's
    `partialOutputStream`): each prefix is read as JSON that may end anywhere."""
    so_far, seen = "", []
    for piece in pieces:
        so_far += piece
        seen.append(jiter.from_json(so_far.encode(), partial_mode="trailing-strings"))
    return seen


async def test_R3_a_partial_parser_sees_the_fields_come_one_by_one(open_: OpenHouse) -> None:
    house = await open_(claude=says(*PIECES, every=0.05))
    seen = parsed_on_the_way((await house.stream({**ask(), **OBJECT})).pieces)
    assert {"name": "Ada"} in seen and {"name": "Ada Lovelace"} in seen
    assert seen[-1] == {"name": "Ada Lovelace", "age": 36}
    assert all(earlier.keys() <= later.keys() for earlier, later in pairwise(seen))


async def test_R3_the_sdk_sees_json_grow(open_: OpenHouse) -> None:
    house = await open_(claude=says(*PIECES, every=0.05))
    async with (
        openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="x", max_retries=0) as client,
        client.chat.completions.stream(
            model="auto",
            messages=[{"role": "user", "content": "hi"}],
            response_format={"type": "json_object"},
        ) as events,
    ):
        seen = [event.snapshot async for event in events if event.type == "content.delta"]
        final = await events.get_final_completion()
    assert len(seen) > 3
    assert all(later.startswith(earlier) for earlier, later in pairwise(seen))
    assert final.choices[0].message.content == WHOLE


async def test_R3_the_sdk_raises_where_the_end_does_not_conform(open_: OpenHouse) -> None:
    house = await open_(claude=says(*PIECES[:-1], " oops", every=0.05))
    async with openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="auto",
            messages=[{"role": "user", "content": "hi"}],
            response_format={"type": "json_object"},
            stream=True,
        )
        with pytest.raises(openai.APIError, match="does not conform"):
            async for _ in stream:
                pass


async def test_I1_the_sdk_shows_the_request_id(open_: OpenHouse) -> None:
    house = await open_(claude=says("hi"))
    async with openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="x", max_retries=0) as client:
        answer = await client.chat.completions.create(
            model="auto", messages=[{"role": "user", "content": "hi"}]
        )
        assert answer._request_id
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": "hi"}]
            )
        assert caught.value.request_id
        assert "Ask for auto" in caught.value.message
