"""The mock vendors themselves, read back by the vendors' own SDKs.

A mock that streams what no vendor would makes every test above it worthless, so what it sends is
put together again here by code that was written for the real thing.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.clients import CLIENTS, Client

from .vendors import Scenario, State, client, make_app, mistral, serve
from .vendors.plan import REFUSAL, plan
from .vendors.scenario import VENDORS, marked
from .vendors.talk import STEP, Talk

PNG = base64.b64encode(b"\x89PNG" + b"p" * 63).decode()
PDF = base64.b64encode(b"%PDF" + b"p" * 116).decode()
SEEN = "image image/png 67 bytes; file application/pdf 120 bytes"
TWO = (
    '[[CALLS:[{"name":"a","args":{"x":[[1],[2]],"y":"ü]] [[OK]] }"}},{"name":"b"},'
    '{"name":"a","args":{"x":[]},"id":"same"}]]]'
)
ASKED = [("a", {"x": [[1], [2]], "y": "ü]] [[OK]] }"}), ("b", {}), ("a", {"x": []})]


@pytest.fixture(params=VENDORS)
async def talk(request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    state = State()
    async with serve(make_app(state)) as base_url:
        yield Talk(request.param, base_url, state)


def picture(vendor: str) -> list[dict[str, Any]]:
    """A png and a pdf, as the vendor takes them."""
    png, pdf = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
    if vendor == "anthropic":
        source = {"type": "base64", "media_type": "image/png", "data": PNG}
        document = {"type": "base64", "media_type": "application/pdf", "data": PDF}
        return [{"type": "image", "source": source}, {"type": "document", "source": document}]
    if vendor == "openai":
        image = {"type": "input_image", "image_url": png}
        return [image, {"type": "input_file", "filename": "a.pdf", "file_data": pdf}]
    return [
        {"type": "image_url", "image_url": {"url": png}},
        {"type": "document_url", "document_url": pdf},
    ]


def words(vendor: str, text: str) -> dict[str, Any]:
    return {"type": "input_text" if vendor == "openai" else "text", "text": text}


async def test_one_call_finds_the_offered_tool_and_its_result_is_echoed(talk: Talk) -> None:
    asked = await talk.say('[[CALL:f:{"q": "' + "long " * 40 + '"}]]')
    ((ident, name, args),) = asked.calls
    assert (name, args) == (talk.offered("f"), {"q": "long " * 40})
    assert (await talk.give(asked, "it is so")).text == "it is so"
    assert client.turns(talk.recorded())[1:] == [
        ("call", ident, name, args),
        ("result", ident, "it is so"),
    ]
    assert [(t.name, t.schema) for t in client.tools(talk.recorded())] == [
        (talk.offered(name), STEP) for name in talk.names
    ]


async def test_evil_stays_literal_and_so_does_what_is_not_offered(talk: Talk) -> None:
    assert [c[1:] for c in (await talk.say("[[EVIL:f:{}]]")).calls] == [("f", {})]
    fresh = await talk.say('[[CALL:nowhere:{"a": [[1]]}]]')
    assert [c[1:] for c in fresh.calls] == [("nowhere", {"a": [[1]]})]


async def test_calls_at_once_have_ids_of_their_own(talk: Talk) -> None:
    asked = await talk.say(TWO)
    assert [call[1:] for call in asked.calls] == [(talk.offered(n), a) for n, a in ASKED]
    ids = [call[0] for call in asked.calls]
    assert len(set(ids)) == 3 and ids[2] == "same"
    length = {"anthropic": 30, "openai": 29, "mistral": 9}[talk.vendor]
    assert [len(one) for one in ids[:2]] == [length, length]
    image = [words(talk.vendor, "two"), picture(talk.vendor)[0]]
    done = await talk.give(asked, "one", image, "three")
    assert done.text == "one\ntwo\n[image image/png 67 bytes]\nthree"
    assert asked.finish == {"anthropic": "tool_use", "mistral": "tool_calls"}.get(
        talk.vendor, "completed"
    )


async def test_ids_follow_from_the_length_of_the_conversation(talk: Talk) -> None:
    one = await talk.say("[[CALL:f]]")
    two = await talk.give(one, "x")
    three = await talk.say("[[CALL:f]]")
    again = Talk(talk.vendor, talk.url, talk.state)
    assert (await again.say("[[CALL:f]]")).calls == one.calls
    assert two.calls == [] and three.calls[0][0] != one.calls[0][0]


async def test_no_two_answers_are_one_message(talk: Talk) -> None:
    assert [talk.state.new_id("m") for _ in range(2)] == ["m00000001", "m00000002"]
    await talk.say("[[SAY:a]]")
    await talk.say("[[SAY:b]]")
    talk.state.reset()
    assert talk.state.new_id("m") == "m00000005"


async def test_words_before_a_call(talk: Talk) -> None:
    asked = await talk.say("[[SAYCALL:Let me look: now|f:{}]]")
    assert asked.text == "Let me look: now"
    assert [call[1] for call in asked.calls] == [talk.offered("f")]


async def test_a_loop_counts_the_results_of_its_own_history(talk: Talk) -> None:
    answer = await talk.say([words(talk.vendor, "go [[LOOP:3:f]]")])
    for step in (1, 2, 3):
        assert [call[2] for call in answer.calls] == [{"step": step}]
        answer = await talk.give(answer, f"result {step}")
    assert (answer.text, answer.calls) == ("done after 3", [])
    kinds = [turn[0] for turn in client.turns(talk.recorded())]
    assert kinds == ["user", *["call", "result"] * 3]


async def test_steps_are_called_one_after_the_other(talk: Talk) -> None:
    steps = '[[STEPS:[{"name": "a", "args": {"x": "]]"}}, {"name": "f"}]]][[THEN:SAY:done]]'
    first = await talk.say(steps)
    assert [call[1:] for call in first.calls] == [(talk.offered("a"), {"x": "]]"})]
    second = await talk.give(first, "one")
    assert [call[1:] for call in second.calls] == [(talk.offered("f"), {})]
    last = await talk.give(second, "two")
    assert (last.text, last.calls) == ("done", [])


async def test_steps_without_their_tools_are_told_in_words(talk: Talk) -> None:
    answer = await talk.say('[[STEPS:[{"name": "elsewhere"}]]][[THEN:SAY:done]]')
    assert (answer.text, answer.calls) == ("there is no elsewhere here", [])


async def test_an_order_holds_beside_what_a_client_adds_to_the_results(talk: Talk) -> None:
    asked = await talk.say("[[CALL:f]]")
    await talk.give(asked, "x")
    talk.items.pop()
    assert (await talk.say("environment: none")).text == "x"
    assert (await talk.say("and now?")).text.startswith("word0")


async def test_an_order_for_after_the_results(talk: Talk) -> None:
    asked = await talk.say('[[CALL:f:{}]] [[THEN:SAY:{"n": 1}]]')
    assert (await talk.give(asked, "x")).text == '{"n": 1}'


async def test_the_end_of_the_stream_can_be_late(talk: Talk) -> None:
    for order, text in (("[[SAY:a]]", "a"), ("[[CALL:f]] [[THEN:SAY:b]]", "")):
        began = time.monotonic()
        asked = await talk.say(f"{order} [[TAIL:0.3]]")
        assert asked.text == text and time.monotonic() - began >= 0.3
    assert (await talk.give(asked, "x")).text == "b"


async def test_errors_are_told_where_the_vendor_knows_them() -> None:
    state = State()
    async with serve(make_app(state)) as base_url:
        talk = Talk("anthropic", base_url, state)
        asked = await talk.say("[[CALL:f]]")
        assert (await talk.give(asked, {"content": "no", "is_error": True})).text == "[error] no"


async def test_what_a_message_carries_is_seen(talk: Talk) -> None:
    asked = [words(talk.vendor, "[[SEE]]"), *picture(talk.vendor)]
    assert (await talk.say(asked)).text == SEEN
    assert client.turns(talk.recorded()) == [
        ("user", "[[SEE]]\n" + "\n".join(f"[{one}]" for one in SEEN.split("; ")))
    ]
    assert (await talk.say("and now? [[SEE]]")).text == "nothing"


async def test_a_refusal_is_the_vendors_own(talk: Talk) -> None:
    finish = {"anthropic": "refusal", "openai": "refusal", "mistral": "stop"}
    text = "" if talk.vendor == "anthropic" else REFUSAL
    refused = await talk.say("[[REFUSE]]")
    assert (refused.finish, refused.text) == (finish[talk.vendor], text)
    assert (await talk.say("[[REFUSE:I won't.]]")).text == "I won't."


async def test_structured_output_beside_the_clients_tools(talk: Talk) -> None:
    more: dict[str, Any] = {}
    if talk.vendor == "anthropic":
        more["tools"] = [{"name": "StructuredOutput", "input_schema": STEP}]
    elif talk.vendor == "openai":
        more["text"] = {"format": {"type": "json_schema", "name": "s", "schema": STEP}}
    asked = await talk.say('[[CALL:f]] [[THEN:FORCED:{"step": 7}]]', **dict(more))
    assert [call[1] for call in asked.calls] == [talk.offered("f")]
    forced = await talk.give(asked, "x", **dict(more))
    if talk.vendor != "anthropic":
        assert json.loads(forced.text) == {"step": 7}
        return
    assert [call[1:] for call in forced.calls] == [("StructuredOutput", {"step": 7})]
    assert (await talk.give(forced, "ok", **dict(more))).text == "done"


async def test_a_namespaced_tool_of_codex_is_called_by_both_its_names() -> None:
    state = State()
    async with serve(make_app(state)) as base_url:
        talk = Talk("openai", base_url, state)
        talk.names = ()
        inner = [{"type": "function", "name": "f", "parameters": STEP}]
        tools = [{"type": "namespace", "name": "mcp__client", "tools": inner}]
        asked = await talk.say("[[CALL:f]]", tools=list(tools))
        assert [call[1] for call in asked.calls] == ["mcp__client/f"]
        await talk.give(asked, "x", tools=list(tools))
    assert [tool.name for tool in client.tools(state.requests[-1])] == ["mcp__client__f"]
    assert client.turns(state.requests[-1])[1][2] == "mcp__client__f"


@pytest.mark.parametrize("chat", CLIENTS, ids=lambda chat: chat.name)
def test_an_order_in_the_words_of_any_client_is_found(chat: Client) -> None:
    tool, state = chat.tool or "f", State()
    body = chat.first("m", f"please [[CALL:{tool}:{json.dumps(chat.arguments)}]]")
    answer = plan(state.choose("mistral", mistral.read(body)), mistral.read(body))
    assert [(call.name, call.args) for call in answer.calls] == [(tool, chat.arguments)]
    if not chat.uses_tools:
        return
    asked = mistral.whole({}, answer, state, mistral.calls_of(answer, 1))
    message = asked["choices"][0]["message"]
    after = chat.follow(body, message, {message["tool_calls"][0]["id"]: '{"ok":1}'})
    ask = mistral.read(after)
    assert plan(state.choose("mistral", ask), ask).text == '{"ok":1}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no order", Scenario()),
        ("[[SAY:a]] [[SLOW:0.5]] ", Scenario("SLOW", "0.5")),
        ("[[OK]]]", Scenario()),
        ("[[SAY:[[x]]]]", Scenario("SAY", "[[x]]")),
        ('[[CALL:f:{"code": "a[b[0]] = {1"}]]', Scenario("CALL", 'f:{"code": "a[b[0]] = {1"}')),
        ('[[CALL:f:{"broken": ]]', Scenario("CALL", 'f:{"broken": ')),
        ("[[CALL:f]] [[THEN:QUOTA]]", Scenario("CALL", "f", Scenario("QUOTA"))),
    ],
)
def test_markers(text: str, found: Scenario) -> None:
    assert marked(text) == found
