"""The official OpenAI SDK as a client: what its users see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.conftest import OpenHouse
from tests.fakes.plan import dies, fails, says, turn
from tests.support import CHAT, House, soon, until

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


def asynchronous(house: House) -> openai.AsyncOpenAI:
    """A client as a user makes it: everything else is the SDK's default."""
    return openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="any")


async def synchronous(house: House, work: Any) -> Any:
    """What `work(client)` gives, with the SDK's blocking client in a thread."""

    def call() -> Any:
        with openai.OpenAI(base_url=f"{house.url}/v1", api_key="any") as client:
            return work(client)

    return await asyncio.wait_for(asyncio.to_thread(call), 20)


@pytest.fixture
async def sdk(open_: OpenHouse) -> AsyncIterator[tuple[House, openai.AsyncOpenAI]]:
    """A house and a client of it."""
    house = await open_()
    async with asynchronous(house) as client:
        yield house, client


Sdk = tuple[House, openai.AsyncOpenAI]


async def test_N1_sdk_async_whole(sdk: Sdk) -> None:
    house, client = sdk
    house.plan.set(claude=says("one ", "two"))
    answer = await client.chat.completions.create(model="auto", messages=HELLO)
    assert answer.choices[0].message.content == "one two"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "claude-sonnet-4-5-20250929"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 7)


async def test_N1_sdk_async_stream_with_usage(sdk: Sdk) -> None:
    house, client = sdk
    house.plan.set(claude=says("one ", "two"))
    stream = await client.chat.completions.create(
        model="auto", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "one two"
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.total_tokens) == (11, 18)


async def test_N1_sdk_sync_whole_and_stream(open_: OpenHouse) -> None:
    house = await open_(claude=says("one ", "two"))
    answer = await synchronous(
        house, lambda client: client.chat.completions.create(model="auto", messages=HELLO)
    )
    assert answer.choices[0].message.content == "one two"

    def streamed(client: openai.OpenAI) -> list[str]:
        stream = client.chat.completions.create(model="auto", messages=HELLO, stream=True)
        return [chunk.choices[0].delta.content or "" for chunk in stream]

    assert "".join(await synchronous(house, streamed)) == "one two"


async def test_N1_sdk_the_stream_helper_and_structured_output(sdk: Sdk) -> None:
    house, client = sdk
    house.plan.set(claude=says('{"a": 1}'))
    async with client.chat.completions.stream(
        model="auto", messages=HELLO, response_format={"type": "json_object"}
    ) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == '{"a": 1}'


@pytest.mark.parametrize("kind", ["overloaded", "quota", "unknown"])
async def test_B3_sdk_an_error_event_raises(sdk: Sdk, kind: str) -> None:
    house, client = sdk
    house.plan.set(claude=fails(kind, after=["half"]))
    stream = await client.chat.completions.create(model="auto", messages=HELLO, stream=True)
    pieces: list[str] = []
    with pytest.raises(openai.APIError) as caught:
        async for chunk in stream:
            pieces.append(chunk.choices[0].delta.content or "")  # noqa: PERF401
    assert "".join(pieces) == "half"
    assert caught.value.message
    assert house.plan.spawns() == {"claude": 1}


async def test_B3_sdk_sync_an_error_event_raises(open_: OpenHouse) -> None:
    house = await open_(claude=fails("overloaded", after=["half"]))

    def streamed(client: openai.OpenAI) -> Iterator[Any]:
        return iter(list(client.chat.completions.create(model="auto", messages=HELLO, stream=True)))

    with pytest.raises(openai.APIError):
        await synchronous(house, streamed)


async def test_B3_sdk_a_death_after_content_is_length(sdk: Sdk) -> None:
    house, client = sdk
    house.plan.set(claude=dies(after=["half"]))
    stream = await client.chat.completions.create(model="auto", messages=HELLO, stream=True)
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices[0].finish_reason == "length"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("client_is", ["async", "sync"])
async def test_I9_sdk_an_exhausted_chain_is_asked_once(
    open_: OpenHouse, client_is: str, stream: bool
) -> None:
    house = await open_(claude=fails("rate"), codex=fails("server"), vibe=dies())
    with pytest.raises(openai.RateLimitError) as caught:
        if client_is == "async":
            async with asynchronous(house) as client:
                await soon(
                    client.chat.completions.create(model="auto", messages=HELLO, stream=stream)
                )
        else:
            await synchronous(
                house,
                lambda client: client.chat.completions.create(
                    model="auto", messages=HELLO, stream=stream
                ),
            )
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert house.plan.spawns() == {"claude": 1, "codex": 1, "vibe": 1}
    await house.settled()
    assert len(house.logged("fallback_chain_exhausted")) == 1


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("login", openai.InternalServerError),
        ("context", openai.BadRequestError),
        ("model", openai.NotFoundError),
        ("unknown", openai.InternalServerError),
    ],
)
async def test_K_sdk_errors_are_of_the_right_class_and_asked_once(
    sdk: Sdk, kind: str, error: type[openai.APIStatusError]
) -> None:
    house, client = sdk
    house.plan.set(claude=fails(kind))
    with pytest.raises(error) as caught:
        await client.chat.completions.create(model="auto", messages=HELLO)
    assert caught.value.code
    assert house.plan.spawns() == {"claude": 1}


async def test_N2_sdk_a_refused_parameter_is_named(sdk: Sdk) -> None:
    house, client = sdk
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="auto", messages=HELLO, n=2)
    assert (caught.value.param, caught.value.code) == ("n", "unsupported_parameter")
    assert house.plan.calls() == []


async def test_D3_sdk_a_saturated_chain_is_asked_again(open_: OpenHouse) -> None:
    slow = turn(["init"], ["start"], ["sleep", 1.2], ["say", "first"], ["end"])
    house = await open_(claude=[slow, says("second")], providers={"claude": {"max_concurrent": 1}})
    async with asynchronous(house) as client:
        first = asyncio.ensure_future(house.chat())
        await until(lambda: house.plan.calls(), "the first runs")
        answer = await client.chat.completions.create(model="claude/sonnet", messages=HELLO)
        assert answer.choices[0].message.content == "second"
        assert (await first).text == "first"
    assert house.plan.spawns() == {"claude": 2}


async def test_I1_sdk_raw_response_shows_the_headers(sdk: Sdk) -> None:
    house, client = sdk
    house.plan.set(claude=fails("rate"), codex=says("saved"))
    response = await client.chat.completions.with_raw_response.create(model="auto", messages=HELLO)
    assert response.headers["X-OLP-Provider-Used"] == "codex"
    assert response.headers["X-OLP-Fallback-Hops"] == "1"
    assert response.parse().choices[0].message.content == "saved"


async def test_N3_sdk_lists_and_retrieves_models(sdk: Sdk) -> None:
    _, client = sdk
    names = [model.id async for model in client.models.list()]
    assert {"auto", "claude/sonnet", "sonnet"} <= set(names)
    assert (await client.models.retrieve("auto")).owned_by == "olp"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("no-such")


async def test_M6_sdk_a_stream_that_is_closed_ends_the_cli(sdk: Sdk) -> None:
    house, client = sdk
    house.plan.set(claude=turn(["init"], ["start"], ["say", "one"], ["hang"]))
    stream = await client.chat.completions.create(model="auto", messages=HELLO, stream=True)
    async for _ in stream:
        break
    await stream.close()
    await until(lambda: not house.active, "the slot is back", 6)


async def test_N4_sdk_a_base_url_without_v1_says_so(open_: OpenHouse) -> None:
    house = await open_(claude=says("never"))
    async with openai.AsyncOpenAI(base_url=house.url, api_key="any") as client:
        with pytest.raises(openai.NotFoundError, match=CHAT):
            await client.chat.completions.create(model="auto", messages=HELLO)
