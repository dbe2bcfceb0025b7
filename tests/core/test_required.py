"""A call that the client insists on: asked for as JSON, given as a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from olp.core.abilities import able, lacking, only_by_session
from olp.core.required import as_format, call_from
from olp.core.shape import Shaper
from olp.events import (
    CallArguments,
    CallStarted,
    Done,
    Event,
    Failed,
    Finish,
    Text,
    Trouble,
    Usage,
)
from olp.formats import conform
from olp.model import Ability, JsonFormat, Media, Message, Request, Role, Tool

NUMBER = {
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/N"}},
    "required": ["n"],
    "$defs": {"N": {"type": "integer"}},
}
WORD = {"type": "object", "properties": {"w": {"type": "string"}}, "required": ["w"]}
TOOLS = (Tool("count", "Counts.", NUMBER), Tool("say", "Says.", WORD))
USER = Message(Role.USER, "hi")
PNG = Message(Role.USER, ("look", Media("image/png", "AAAA")))
PDF = Message(Role.USER, ("read", Media("application/pdf", "AAAA")))


def asked(*must: str, **more: Any) -> Request:
    return Request("m", (Message(Role.SYSTEM, "S"), USER), tools=TOOLS, must_call=must, **more)


def shaped(request: Request, *events: Event) -> list[Event]:
    shaper = Shaper(request)
    return [out for event in events for out in shaper.feed(event)]


def test_N1_a_request_that_leaves_the_choice_is_left_as_it_is() -> None:
    assert as_format(asked()) is not None and as_format(asked()).tools == TOOLS


def test_N1_one_function_is_asked_for_by_its_own_schema() -> None:
    wanted = as_format(asked("count"))
    assert wanted.format == JsonFormat(NUMBER, "call")
    assert (wanted.tools, wanted.must_call) == ((), ())
    assert wanted.system.startswith("S\n\n") and "'count'" in wanted.system
    assert wanted.turns == (USER,)


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ({"name": "count", "arguments": {"n": 1}}, True),
        ({"name": "say", "arguments": {"w": "x"}}, True),
        ({"name": "say", "arguments": {"n": "x"}}, False),
        ({"name": "other", "arguments": {"n": 1}}, False),
        ({"n": 1}, False),
    ],
)
def test_N1_several_functions_are_one_schema_with_its_references(
    answer: dict[str, Any], fits: bool
) -> None:
    wanted = as_format(asked("count", "say")).format
    assert wanted is not None
    assert (conform(json.dumps(answer), wanted)[1] is None) is fits


@pytest.mark.parametrize("stream", [False, True])
def test_N1_the_answer_is_given_as_a_call(stream: bool) -> None:
    request = asked("count", stream=stream)
    out = shaped(request, Text('{"n":'), Text(" 5}"), Done())
    begun, arguments, _, done = out
    assert isinstance(begun, CallStarted) and begun.name == "count"
    assert isinstance(arguments, CallArguments) and json.loads(arguments.text) == {"n": 5}
    assert done == Done(Finish.TOOL_CALLS)
    again = shaped(request, Text('{"n": 6}'), Done())[0]
    assert isinstance(again, CallStarted) and again.id != begun.id


def test_N1_of_several_functions_the_named_one_is_called() -> None:
    text = json.dumps({"name": "say", "arguments": {"w": "ü"}})
    begun, arguments, *_ = shaped(asked("count", "say"), Text(text), Done())
    assert isinstance(begun, CallStarted) and begun.name == "say"
    assert isinstance(arguments, CallArguments) and arguments.text == '{"w": "ü"}'


@pytest.mark.parametrize("text", ["no JSON", '{"n": "x"}', "{}", "[]"])
def test_N1_arguments_that_do_not_fit_are_an_error(text: str) -> None:
    (failed,) = shaped(asked("count"), Text(text), Done())
    assert isinstance(failed, Failed) and failed.trouble is Trouble.FORMAT_MISMATCH


def test_N1_arguments_of_another_function_are_an_error() -> None:
    text = json.dumps({"name": "say", "arguments": {"n": 1}})
    assert call_from(text, asked("count", "say"))[1] is not None


def test_N1_calls_go_through_the_shaper_after_the_text_before_them() -> None:
    request = Request("m", (USER,), stop=("STOP",), tools=TOOLS)
    begun, arguments = CallStarted(0, "c", "f"), CallArguments(0, "{}")
    out = shaped(request, Text("so ST"), begun, arguments, Done(Finish.TOOL_CALLS))
    assert [e for e in out if isinstance(e, Text)] == [Text("so "), Text("ST")]
    assert out[2:4] == [begun, arguments] and out[-1] == Done(Finish.TOOL_CALLS)


def test_N4_half_characters_can_be_sent(stream: bool = False) -> None:
    text = json.dumps({"name": "say", "arguments": {"w": "\ud83d"}})
    _, arguments, *_ = shaped(asked("count", "say"), Text(text), Done())
    assert isinstance(arguments, CallArguments)
    arguments.text.encode()
    pieces = [CallArguments(0, '{"w": "\ud83d'), CallArguments(0, '\ude00"}')]
    out = shaped(asked(), CallStarted(0, "c", "f"), *pieces, Done(Finish.TOOL_CALLS))
    said = "".join(event.text for event in out if isinstance(event, CallArguments))
    assert said == '{"w": "\U0001f600"}'


def test_N1_text_before_calls_comes_before_them_even_if_json_was_wanted() -> None:
    request = Request("m", (USER,), format=JsonFormat(), tools=TOOLS)
    begun = CallStarted(0, "c", "f")
    out = shaped(request, Text("let me see"), begun, Done(Finish.TOOL_CALLS))
    assert [type(event).__name__ for event in out] == ["Text", "CallStarted", "Usage", "Done"]


def test_N1_half_a_call_that_was_insisted_on_is_not_shown_as_text() -> None:
    out = shaped(asked("count"), Text('{"n":'), Done(Finish.LENGTH))
    assert not any(isinstance(event, Text) for event in out) and out[-1] == Done(Finish.LENGTH)


def test_L5_what_is_estimated_counts_calls_tools_and_images() -> None:
    begun, arguments = CallStarted(0, "c", "f"), CallArguments(0, "x" * 4000)
    out = shaped(asked(), begun, arguments, Done(Finish.TOOL_CALLS))
    (usage,) = [event for event in out if isinstance(event, Usage)]
    assert usage.estimated and usage.output == 1000 and usage.input > 50
    (seen,) = [e for e in shaped(Request("m", (PNG,)), Done()) if isinstance(e, Usage)]
    assert seen.input > 1000


def test_N1_a_schema_does_not_stand_in_the_way_of_a_call() -> None:
    request = Request("m", (USER,), format=JsonFormat(WORD), tools=TOOLS)
    begun = CallStarted(0, "c", "f")
    out = shaped(request, Text("let me see"), begun, Done(Finish.TOOL_CALLS))
    assert begun in out and out[-1] == Done(Finish.TOOL_CALLS)


# --- what a hop can do ---------------------------------------------------------------------------

ALL = tuple(Ability)


@pytest.mark.parametrize(
    ("request_", "ability", "param"),
    [
        (asked(), Ability.TOOLS, "tools"),
        (asked("count"), Ability.SCHEMA, "tool_choice"),
        (Request("m", (USER,), format=JsonFormat(WORD)), Ability.SCHEMA, "response_format"),
        (Request("m", (PNG,)), Ability.IMAGES, "messages"),
        (Request("m", (PDF,)), Ability.FILES, "messages"),
    ],
)
def test_N2_what_a_hop_cannot_do_is_named(request_: Request, ability: Ability, param: str) -> None:
    assert lacking(request_, "It", ALL) is None
    failed = lacking(request_, "It", [one for one in ALL if one is not ability])
    assert failed is not None
    assert (failed.trouble, failed.param) == (Trouble.INCAPABLE, param)
    assert failed.detail.startswith("It cannot ")


def test_N2_text_needs_nothing() -> None:
    plain = Request("m", (USER,), format=JsonFormat())
    assert lacking(plain, "It", ()) is None
    assert not only_by_session(plain)
    assert only_by_session(asked()) and only_by_session(Request("m", (PNG,)))
    assert not only_by_session(as_format(asked("count")))
    assert Ability.TOOLS not in able(ALL, oneshot=True) and able(ALL, oneshot=False) == list(ALL)
