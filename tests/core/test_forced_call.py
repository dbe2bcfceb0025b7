"""A call that the client insists on: asked for as JSON, given as a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olp.core.answer.forced_call import as_format
from olp.core.answer.shaper import Shaper
from olp.core.routing.capabilities import able, lacking, only_by_session
from olp.events import (
    CallArguments,
    CallStarted,
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    Text,
    Usage,
)
from olp.formats import conform
from olp.model import Capability, JsonFormat, Media, Message, Request, Role, Tool
from tests.support import examples

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


def shaped(request: Request, *events: Event, live: bool = False, id: str = "call_1") -> list[Event]:
    shaper = Shaper(request, live=live, id=id)
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


def arguments_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, CallArguments))


@pytest.mark.parametrize("live", [False, True])
def test_N1_the_answer_is_given_as_a_call(live: bool) -> None:
    out = shaped(asked("count"), Text('{"n":'), Text(" 5}"), Done(), live=live)
    begun, *_, usage, done = out
    assert begun == CallStarted(0, "call_1", "count")
    assert json.loads(arguments_of(out)) == {"n": 5}
    assert isinstance(usage, Usage) and done == Done(Finish.TOOL_CALLS)


def test_R3_the_arguments_of_a_call_go_out_as_they_come() -> None:
    shaper = Shaper(asked("count"), live=True, id="call_1")
    assert shaper.feed(Text("```json\n{")) == []
    begun, first = shaper.feed(Text('"n"'))
    assert (begun, first) == (CallStarted(0, "call_1", "count"), CallArguments(0, '{"n"'))
    assert shaper.feed(Text(": 5")) == [CallArguments(0, ": 5")]


def test_R3_the_arguments_of_one_of_several_functions_go_out_as_they_come() -> None:
    shaper = Shaper(asked("count", "say"), live=True, id="call_1")
    assert shaper.feed(Text('{"name": "sa')) == []
    assert shaper.feed(Text('y", "arguments": ')) == []
    begun, first = shaper.feed(Text('{"w"'))
    assert (begun, first) == (CallStarted(0, "call_1", "say"), CallArguments(0, '{"w"'))
    assert shaper.feed(Text(': "x"}')) == [CallArguments(0, ': "x"}')]
    assert shaper.feed(Text("}")) == []
    assert shaper.feed(Done())[-1] == Done(Finish.TOOL_CALLS)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"name": "say", "arguments": {"w": "ü"}}', '{"w": "ü"}'),
        ('{"arguments": {"w": "ü"}, "name": "say"}', '{"w": "ü"}'),
        ('```json\n{"name": "say",\n "arguments": {"w": "}"}}\n```', '{"w": "}"}'),
        ('{"name": "s\\u0061y", "arguments": {"w": ""}, "why": 1}', '{"w": ""}'),
        ('{"name": "say", "arguments": {}}', "{}"),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_N1_of_several_functions_the_named_one_is_called(
    text: str, arguments: str, live: bool
) -> None:
    for pieces in ([text], list(text)):
        out = shaped(asked("count", "say"), *map(Text, pieces), Done(), live=live)
        assert out[0] == CallStarted(0, "call_1", "say")
        assert arguments_of(out) == arguments
        assert isinstance(out[-1], Done) and out[-1].finish is Finish.TOOL_CALLS


@pytest.mark.parametrize(
    ("must", "text"),
    [
        (("count",), "no JSON"),
        (("count",), "I would call count."),
        (("count",), '{"n": 5'),
        (("count",), '{"n": 5} and so'),
        (("count",), "[]"),
        (("count",), '"n"'),
        (("count", "say"), '{"name": "fly", "arguments": {}}'),
        (("count", "say"), '{"name": "say"}'),
        (("count", "say"), '{"name": "say", "arguments": "x"}'),
        (("count", "say"), '{"name": 5, "arguments": {}}'),
        (("count", "say"), '{"n": 5}'),
        (("count", "say"), '{"name": "say", "arguments": {}'),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_N1_what_is_no_call_at_all_is_an_error(
    must: tuple[str, ...], text: str, live: bool
) -> None:
    for pieces in ([text], list(text)):
        failed = shaped(asked(*must), *map(Text, pieces), Done(), live=live)[-1]
        assert isinstance(failed, Failed) and failed.code is ErrorCode.FORMAT_MISMATCH


@pytest.mark.parametrize(
    ("must", "text", "arguments", "where"),
    [
        (("count",), '{"n": "x"}', '{"n": "x"}', "$.n"),
        (("count",), "{}", "{}", "$"),
        (("count", "say"), '{"name": "say", "arguments": {"n": 1}}', '{"n": 1}', "$"),
        (("count", "say"), '{"arguments": {"n": ""}, "name": "count"}', '{"n": ""}', "$.n"),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_N1_arguments_that_do_not_fit_are_given_with_a_remark(
    must: tuple[str, ...], text: str, arguments: str, where: str, live: bool
) -> None:
    out = shaped(asked(*must), Text(text), Done(), live=live)
    done = out[-1]
    assert isinstance(done, Done) and done.finish is Finish.TOOL_CALLS
    assert arguments_of(out) == arguments
    assert str(done.mismatch).startswith(f"it breaks the schema at {where} ")


@pytest.mark.parametrize("live", [False, True])
def test_N1_a_call_that_the_limit_cut_is_told_as_far_as_it_came(live: bool) -> None:
    out = shaped(asked("count"), Text('{"n": 1'), Done(Finish.LENGTH), live=live)
    assert (arguments_of(out), out[-1]) == ('{"n": 1', Done(Finish.LENGTH))
    prose = shaped(asked("count"), Text("I would"), Done(Finish.LENGTH), live=live)
    assert [type(event) for event in prose] == [Usage, Done]


_pieces = st.lists(
    st.sampled_from(
        [
            *('{"n": 1}', '{"n": ', '"x"', "1}", "}", "{", '{"name": ', '"say"', '"count"', ", "),
            *('"arguments": ', '{"w": "}"}', "```json\n", "\n```", " ", "so\n"),
        ]
    ),
    max_size=9,
)


@settings(max_examples=examples(500), deadline=None)
@given(
    _pieces,
    st.sampled_from([("count",), ("count", "say")]),
    st.sampled_from([Done(), Done(Finish.LENGTH)]),
)
def test_R3_a_call_that_streams_is_the_one_of_a_whole_answer(
    pieces: list[str], must: tuple[str, ...], end: Done
) -> None:
    live = shaped(asked(*must), *map(Text, pieces), end, live=True)
    held = shaped(asked(*must), *map(Text, pieces), end)
    letters = shaped(asked(*must), *map(Text, "".join(pieces)), end, live=True)
    assert live[-1] == held[-1] == letters[-1]
    if isinstance(held[-1], Done):
        assert arguments_of(live) == arguments_of(held) == arguments_of(letters)
        begun = [event for event in held if isinstance(event, CallStarted)]
        assert [event for event in live if isinstance(event, CallStarted)] == begun


def test_N1_calls_go_through_the_shaper_after_the_text_before_them() -> None:
    request = Request("m", (USER,), stop=("STOP",), tools=TOOLS)
    begun, arguments = CallStarted(0, "c", "f"), CallArguments(0, "{}")
    out = shaped(request, Text("so ST"), begun, arguments, Done(Finish.TOOL_CALLS))
    assert [e for e in out if isinstance(e, Text)] == [Text("so "), Text("ST")]
    assert out[2:4] == [begun, arguments] and out[-1] == Done(Finish.TOOL_CALLS)


def test_N4_half_characters_can_be_sent(stream: bool = False) -> None:
    for told in ({"name": "say", "arguments": {"w": "\ud83d"}}, {"arguments": {"w": "\ud83d"}}):
        text = json.dumps({**told, "name": "say"})
        out = shaped(asked("count", "say"), Text(text), Done())
        arguments_of(out).encode()
    pieces = [CallArguments(0, '{"w": "\ud83d'), CallArguments(0, '\ude00"}')]
    out = shaped(asked(), CallStarted(0, "c", "f"), *pieces, Done(Finish.TOOL_CALLS))
    said = "".join(event.text for event in out if isinstance(event, CallArguments))
    assert said == '{"w": "\U0001f600"}'


def test_N1_text_before_calls_comes_before_them_even_if_json_was_wanted() -> None:
    request = Request("m", (USER,), format=JsonFormat(), tools=TOOLS)
    begun = CallStarted(0, "c", "f")
    out = shaped(request, Text("let me see"), begun, Done(Finish.TOOL_CALLS))
    assert [type(event).__name__ for event in out] == ["Text", "CallStarted", "Usage", "Done"]


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

ALL = tuple(Capability)


@pytest.mark.parametrize(
    ("request_", "ability", "param"),
    [
        (asked(), Capability.TOOLS, "tools"),
        (asked("count"), Capability.SCHEMA, "forced_call"),
        (Request("m", (USER,), format=JsonFormat(WORD)), Capability.SCHEMA, "schema"),
        (Request("m", (PNG,)), Capability.IMAGES, "messages"),
        (Request("m", (PDF,)), Capability.FILES, "messages"),
    ],
)
def test_N2_what_a_hop_cannot_do_is_named(
    request_: Request, ability: Capability, param: str
) -> None:
    assert lacking(request_, "It", ALL) is None
    failed = lacking(request_, "It", [one for one in ALL if one is not ability])
    assert failed is not None
    assert (failed.code, failed.field) == (ErrorCode.INCAPABLE, param)
    assert failed.detail.startswith("It cannot ")


def test_N2_text_needs_nothing() -> None:
    plain = Request("m", (USER,), format=JsonFormat())
    assert lacking(plain, "It", ()) is None
    assert not only_by_session(plain)
    assert only_by_session(asked()) and only_by_session(Request("m", (PNG,)))
    assert not only_by_session(as_format(asked("count")))
    assert Capability.TOOLS not in able(ALL, oneshot=True) and able(ALL, oneshot=False) == list(ALL)
