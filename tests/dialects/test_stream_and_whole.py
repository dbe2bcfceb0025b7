"""R3: a stream and a whole answer that are made from the same events tell the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from olp.core.answer.shaper import Shaper
from olp.core.routing.chains import Chain
from olp.core.routing.walk import Walk
from olp.dialects.openai_chat import Order, StreamEncoder, decode, whole
from olp.events import (
    Answering,
    CallArguments,
    CallStarted,
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    Output,
    Quota,
    Reasoning,
    Refused,
    Started,
    Text,
    Usage,
)
from olp.model import Hop
from tests.support import examples

F = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
G = {
    "type": "function",
    "function": {
        "name": "g",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
WANTED: list[dict[str, Any]] = [
    {},
    {"stop": ["END"]},
    {"max_tokens": 3},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    {"response_format": {"type": "json_object"}, "tools": [F]},
    {"tools": [F, G]},
    {"tools": [F, G], "tool_choice": "required"},
    {"tools": [G], "tool_choice": {"type": "function", "function": {"name": "g"}}},
    {"functions": [F["function"]]},
    {"functions": [G["function"]], "function_call": {"name": "g"}},
]


def order(more: dict[str, Any], *, stream: bool) -> Order:
    """A decoded request."""
    options = {"stream_options": {"include_usage": True}} if stream else {}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    return decode(json.dumps({**body, **more, **options}).encode())


def served(events: list[list[Event]], order: Order) -> list[Output]:
    """What the one hop of a chain makes of the batches in which its events are read."""
    walk = Walk(Chain("c", (Hop("claude", "m"),)), streaming=order.request.stream, now=0.0)
    walk.next(0.0)
    shaper = Shaper(order.request, live=order.request.stream, id="call_1")
    out: list[Output] = []
    for batch in events:
        shaped = [made for event in batch for made in shaper.feed(event)]
        out += walk.pass_on_together(shaped, 0.0)
    return out if walk.answered else [walk.verdict(0.0)]


@dataclass
class Message:
    """An answer as a client has it when all of it has come."""

    model: str = ""
    content: str = ""
    refusal: str | None = None
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    function: dict[str, Any] | None = None
    finish: str | None = None
    usage: Any = None
    error: str | None = None

    def add(self, delta: dict[str, Any]) -> None:
        """One more piece, put together as the vendor's own library does it."""
        self.content += delta.get("content") or ""
        self.reasoning += delta.get("reasoning_content") or ""
        self.refusal = delta.get("refusal", self.refusal)
        for call in delta.get("tool_calls", ()):
            if call["index"] == len(self.calls):
                self.calls.append({"id": call["id"], "function": dict(call["function"])})
            else:
                self.calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
        if told := delta.get("function_call"):
            had = self.function or {"name": "", "arguments": ""}
            self.function = {
                "name": had["name"] + told.get("name", ""),
                "arguments": had["arguments"] + told.get("arguments", ""),
            }


def streamed(outputs: list[Output], order: Order) -> Message:
    """The message that a client puts together from the stream."""
    if isinstance(outputs[0], Refused):
        return Message(error=outputs[0].failed.code)
    encoder = StreamEncoder(order, id="x", created=1)
    data = b"".join(map(encoder.event, outputs)).decode()
    message = Message()
    for frame in data.split("\n\n")[:-1]:
        if frame.startswith(":") or frame == "data: [DONE]":
            continue
        chunk = json.loads(frame.removeprefix("data: "))
        if "error" in chunk:
            message.error = chunk["error"]["code"]
            continue
        message.model = chunk["model"]
        message.usage = chunk["usage"] or message.usage
        for choice in chunk["choices"]:
            message.add(choice["delta"])
            message.finish = choice["finish_reason"] or message.finish
    assert data.endswith("data: [DONE]\n\n") is (message.error is None)
    return message


def told_whole(outputs: list[Output], order: Order) -> Message:
    """The message of the whole answer."""
    if isinstance(outputs[0], Refused):
        return Message(error=outputs[0].failed.code)
    body = json.loads(whole(order, outputs, id="x", created=1))
    (choice,) = body["choices"]
    said = choice["message"]
    calls = [{"id": c["id"], "function": c["function"]} for c in said.get("tool_calls", ())]
    return Message(
        body["model"],
        said["content"] or "",
        said["refusal"],
        said.get("reasoning_content", ""),
        calls,
        said.get("function_call"),
        choice["finish_reason"],
        body["usage"],
    )


_texts = [
    *("Hello ", "", " ", "\n", "EN", "D of it", '{"a": 1}', '{"a": ', "1}", '"x"}', "Sure:\n"),
    *("```json\n", "\n```", '{"name": "g", "arguments": ', "}", "\ud83d", "\ude00", "é"),
]
_events: st.SearchStrategy[Event] = st.one_of(
    st.sampled_from(_texts).map(Text),
    st.sampled_from(_texts).map(Reasoning),
    st.sampled_from([Started("claude-m"), Started(), Quota(()), Usage(3, 4, 1), Usage(5, 6)]),
)
_ends: st.SearchStrategy[Event] = st.one_of(
    st.sampled_from(list(Finish)).map(Done),
    st.sampled_from(list(ErrorCode)).map(lambda trouble: Failed(trouble, "no")),
)


@st.composite
def _runs(draw: st.DrawFn) -> tuple[dict[str, Any], list[list[Event]]]:
    """A request, and what a CLI tells to it, in the batches in which that is read."""
    more = draw(st.sampled_from(WANTED))
    events = [Started("claude-m"), *draw(st.lists(_events, max_size=8))]
    end = draw(_ends)
    free = {"tools", "functions"} & more.keys() and not {
        "tool_choice",
        "function_call",
    } & more.keys()
    if free and draw(st.booleans()):
        for index in range(draw(st.integers(1, 2))):
            pieces = draw(st.lists(st.sampled_from(["{", '"a":', "1}", "\ud83d"]), max_size=3))
            events.append(CallStarted(index, f"c{index}", "f"))
            events += [CallArguments(index, piece) for piece in pieces]
        end = Done(Finish.TOOL_CALLS)
    batches: list[list[Event]] = [[]]
    for event in (*events, end):
        if draw(st.booleans()):
            batches.append([])
        batches[-1].append(event)
    return more, batches


@settings(max_examples=examples(2000), deadline=None)
@given(_runs())
def test_R3_N6_a_stream_and_a_whole_answer_tell_the_same(
    run: tuple[dict[str, Any], list[list[Event]]],
) -> None:
    more, batches = run
    streams, wholes = order(more, stream=True), order(more, stream=False)
    stream = streamed(served(batches, streams), streams)
    answer = told_whole(served(batches, wholes), wholes)
    if answer.error is None:
        assert stream == answer
    else:
        # What is out cannot be taken back, but it never looks like an answer that is complete.
        assert stream.error is not None or stream.finish == "length"
        assert stream.error is None or stream.finish is None


def test_R3_the_pieces_are_put_together_as_the_test_says() -> None:
    found = order({"tools": [F, G]}, stream=True)
    events: list[Event] = [Text("a"), CallStarted(0, "c", "f"), CallArguments(0, "{}")]
    out = served([[event] for event in (*events, Done(Finish.TOOL_CALLS))], found)
    assert isinstance(out[0], Answering)
    message = streamed(out, found)
    assert (message.content, message.finish) == ("a", "tool_calls")
    assert message.calls == [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]
