"""Tools, calls, results, images and files of chat completions: what goes in, and what comes out."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.dialects.openai_chat import Order, StreamEncoder, decode, whole
from olp.errors import RequestError
from olp.events import (
    Answering,
    CallArguments,
    CallStarted,
    Done,
    Finish,
    Output,
    Text,
    Usage,
)
from olp.model import CANCELLED, Media, Message, Request, Role, ToolCall

from .. import pictures

USER = {"role": "user", "content": "hi"}
F = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {}}}
G = {"type": "function", "function": {"name": "g"}}
PNG = base64.b64encode(pictures.png()).decode()
JPEG = base64.b64encode(pictures.jpeg()).decode()
PDF = base64.b64encode(b"%PDF-1.7 rest").decode()


def order(**more: Any) -> Order:
    return decode(json.dumps({"model": "auto", "messages": [USER]} | more).encode())


def asked(**more: Any) -> Request:
    return order(**more).request


def refusal(**more: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        order(**more)
    return caught.value


# --- tools ---------------------------------------------------------------------------------------


def test_N1_tools_are_read_and_parameters_are_an_object_whatever_is_missing() -> None:
    tools = asked(tools=[F, G]).tools
    assert [(t.name, t.description) for t in tools] == [("f", "F."), ("g", "")]
    assert all(t.parameters == {"type": "object", "properties": {}} for t in tools)


def test_N1_a_schema_arrives_as_it_was_sent() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"enum": ["x", None]}},
        "$defs": {"A": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "additionalProperties": False,
        "strict": "unknown words too",
    }
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": schema}}
    assert asked(tools=[tool]).tools[0].parameters == schema


@pytest.mark.parametrize(
    ("choice", "tools", "must"),
    [
        ("auto", ["f", "g"], ()),
        (None, ["f", "g"], ()),
        ("none", [], ()),
        ("required", ["f", "g"], ("f", "g")),
        ({"type": "function", "function": {"name": "g"}}, ["f", "g"], ("g",)),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
            ["f"],
            (),
        ),
    ],
)
def test_N1_the_choice_of_a_tool(choice: Any, tools: list[str], must: tuple[str, ...]) -> None:
    request = asked(tools=[F, G], tool_choice=choice)
    assert ([tool.name for tool in request.tools], request.must_call) == (tools, must)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": {"a": 1}}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [F, {"type": "custom", "custom": {"name": "x"}}]}, "tools[1].type"),
        ({"tools": [F, F]}, "tools[1]"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "f", "parameters": {"type": "array"}},
                    }
                ]
            },
            "tools[0].function.parameters",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [F], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [F], "tool_choice": {"type": "function"}}, "tool_choice"),
        (
            {"tools": [F], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice",
        ),
        ({"functions": [{"name": "f"}], "tools": [F]}, "functions"),
        ({"tools": [F], "tool_choice": "auto", "function_call": "auto"}, "function_call"),
        ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call"),
    ],
)
def test_N2_what_is_wrong_with_tools_is_named(more: dict[str, Any], param: str) -> None:
    error = refusal(**more)
    assert (error.status, error.param) == (400, param), error.message


def test_N2_a_schema_that_is_checked_must_be_one() -> None:
    bad = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "any"}}}}
    tool = {"type": "function", "function": bad}
    assert asked(tools=[tool]).tools  # a vendor may put up with it
    assert refusal(tools=[tool], tool_choice="required").param == "tool_choice"


def test_M5_tools_and_calls_have_bounds() -> None:
    large = {"type": "function", "function": {"name": "f", "description": "x" * 1_100_000}}
    assert refusal(tools=[large]).param == "tools"
    named = [{"type": "function", "function": {"name": f"f{n}"}} for n in range(200)]
    assert len(asked(tools=named).tools) == 200
    assert refusal(tools=named, tool_choice="required").param == "tool_choice"
    said = {"role": "assistant", "tool_calls": [call(str(n)) for n in range(1025)]}
    assert refusal(messages=[USER, said], tools=[F]).param == "messages[1].tool_calls"


def test_M5_many_calls_and_results_take_no_time() -> None:
    ids = [f"c{n}" for n in range(1000)]
    said = {"role": "assistant", "tool_calls": [call(id) for id in ids]}
    messages = [USER, *[m for _ in range(3) for m in (said, *map(result, ids))]]
    began = time.process_time()
    assert len(asked(messages=messages, tools=[F]).messages) == 3004
    assert time.process_time() - began < 1


def test_M5_a_schema_has_a_bounded_depth() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
    assert refusal(tools=[tool]).param == "tools[0].function.parameters"


def test_N1_functions_are_tools_of_an_older_day() -> None:
    found = order(functions=[{"name": "f"}], function_call={"name": "f"})
    assert found.functions and not found.request.parallel_calls
    assert ([t.name for t in found.request.tools], found.request.must_call) == (["f"], ("f",))


def test_N2_the_choice_counts_whatever_it_is_called() -> None:
    assert asked(functions=[{"name": "f"}], tool_choice="none").tools == ()
    assert asked(tools=[F], function_call="none").tools == ()
    assert len(asked(tools=[F], functions=[]).tools) == 1


def test_I8_that_a_schema_is_to_be_kept_strictly_is_listed() -> None:
    strict = {"type": "function", "function": {"name": "f", "strict": True}}
    assert asked(tools=[strict]).ignored == ("tools.function.strict",)
    assert asked(tools=[F]).ignored == ()


def test_N1_a_refusal_that_is_sent_back_is_what_was_said() -> None:
    said = {"role": "assistant", "content": None, "refusal": "No."}
    assert asked(messages=[USER, said, USER]).messages[1].text == "No."


def test_N1_parallel_calls_can_be_switched_off() -> None:
    assert asked(tools=[F]).parallel_calls
    assert not asked(tools=[F], parallel_tool_calls=False).parallel_calls


# --- calls and results ---------------------------------------------------------------------------


def call(id: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def result(id: str, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def turns(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return asked(messages=[USER, *messages], tools=[F]).messages[1:]


@pytest.mark.parametrize("content", [None, "", [], "text"])
@pytest.mark.parametrize("arguments", [None, '{"a":1}', {"a": 1}])
def test_N1_a_call_and_its_result(content: Any, arguments: Any) -> None:
    said = {"role": "assistant", "content": content, "tool_calls": [call("c1", arguments)]}
    spoken, answered = turns(said, result("c1"))
    assert spoken.text == (content or "")
    (made,) = spoken.calls
    assert json.loads(made.arguments) == ({"a": 1} if arguments else {})
    assert (answered.role, answered.answers, answered.text) == (Role.TOOL, "c1", "r")


@given(st.permutations(["a", "b", "c"]), st.integers(0, 3))
def test_N1_results_come_in_any_order_and_what_is_missing_was_cancelled(
    ids: list[str], given: int
) -> None:
    said = {"role": "assistant", "tool_calls": [call(id) for id in "abc"]}
    _, *answers = turns(said, *(result(id, f"r{id}") for id in ids[:given]))
    assert [message.answers for message in answers] == ["a", "b", "c"]
    for message in answers:
        there = message.answers in ids[:given]
        assert message.cancelled is not there
        assert message.text == (f"r{message.answers}" if there else CANCELLED)


def test_N1_an_interrupted_agent_goes_on_with_what_the_user_says() -> None:
    said = {"role": "assistant", "tool_calls": [call("a"), call("b")]}
    messages = turns(said, result("a"), {"role": "user", "content": "stop that"})
    assert [m.role for m in messages] == [Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.USER]
    assert messages[2].cancelled


def test_N1_the_function_call_of_an_older_day() -> None:
    said = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    spoken, answered = turns(said, {"role": "function", "name": "f", "content": "r"})
    assert spoken.calls[0].id == answered.answers != ""


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([result("c1")], "messages[1].role"),
        ([{"role": "function", "name": "f", "content": "x"}], "messages[1].role"),
        ([{"role": "assistant", "tool_calls": [call("")]}], "messages[1].tool_calls[0].id"),
        (
            [{"role": "assistant", "tool_calls": [call("a"), call("a")]}],
            "messages[1].tool_calls[1].id",
        ),
        ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], "messages[1].tool_calls[0]"),
        ([{"role": "assistant", "tool_calls": [call("a")]}, result("b")], "messages"),
        (
            [
                {"role": "assistant", "tool_calls": [call("a")]},
                {"role": "tool", "content": "x"},
            ],
            "messages[2].tool_call_id",
        ),
    ],
)
def test_N4_calls_and_results_that_do_not_fit_are_named(messages: Any, param: str) -> None:
    error = refusal(messages=[USER, *messages], tools=[F])
    assert (error.status, error.param) == (400, param), error.message


# --- images and files ----------------------------------------------------------------------------


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def pdf(data: str, name: str = "a.pdf") -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": data}}


def test_N1_images_keep_their_place_in_the_text() -> None:
    content = [
        {"type": "text", "text": "one"},
        image(f"data:image/png;base64,{PNG}"),
        {"type": "text", "text": "two"},
    ]
    (message,) = asked(messages=[{"role": "user", "content": content}]).messages
    assert message.parts == ("one", Media("image/png", PNG), "two")
    assert message.text == "one\ntwo"


def test_N1_an_image_is_of_the_type_that_its_bytes_say() -> None:
    content = [image(f"data:image/png;base64,{JPEG}")]
    (message,) = asked(messages=[{"role": "user", "content": content}]).messages
    assert message.media == (Media("image/jpeg", JPEG),)


def test_N1_a_file_of_text_is_text_and_a_pdf_is_a_file() -> None:
    text = base64.b64encode("Grüße".encode()).decode()
    content = [
        pdf(f"data:text/plain;base64,{text}", "note.txt"),
        pdf(f"data:application/pdf;base64,{PDF}"),
    ]
    (message,) = asked(messages=[{"role": "user", "content": content}]).messages
    assert message.parts == (
        "File note.txt:\nGrüße",
        Media("application/pdf", PDF, "a.pdf"),
    )


def test_N1_the_result_of_a_tool_may_hold_an_image() -> None:
    said = {"role": "assistant", "tool_calls": [call("a")]}
    _, answered = turns(said, result("a", [image(f"data:image/png;base64,{PNG}")]))
    assert answered.media == (Media("image/png", PNG),)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "data:image/png,plain",
        "data:image/png;base64,",
        "data:image/png;base64,????",
        "data:image/png;base64,aGVsbG8=",
        "file:///etc/passwd",
        "/etc/passwd",
        "http://127.0.0.1/x.png",
    ],
)
def test_N2_what_is_no_image_is_named(url: str) -> None:
    error = refusal(messages=[{"role": "user", "content": [image(url)]}])
    assert (error.status, error.param) == (400, "messages[0].content[0].image_url.url")


def test_N2_what_is_called_a_pdf_and_is_none_is_named() -> None:
    data = base64.b64encode(b"%PD").decode()
    part = pdf(f"data:application/pdf;base64,{data}")
    error = refusal(messages=[{"role": "user", "content": [part]}])
    assert error.param == "messages[0].content[0].file.file_data"


def test_N2_a_program_is_no_file_to_read() -> None:
    data = base64.b64encode(b"\x7fELF").decode()
    error = refusal(messages=[{"role": "user", "content": [pdf(f"data:x/y;base64,{data}")]}])
    assert error.param == "messages[0].content[0].file.file_data"


# --- answers -------------------------------------------------------------------------------------

CALLS: list[Output] = [
    Answering("claude", "sonnet", 0),
    Text("Looking."),
    CallStarted(0, "c1", "f"),
    CallArguments(0, '{"a":'),
    CallArguments(0, "1}"),
    CallStarted(1, "c2", "g"),
    CallArguments(1, "{}"),
    Usage(3, 4),
    Done(Finish.TOOL_CALLS),
]


def test_N1_a_whole_answer_with_calls() -> None:
    body = json.loads(whole(order(tools=[F, G]), CALLS, id="x", created=1))
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Looking."
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def frames(found: Order, outputs: list[Output]) -> list[Any]:
    encoder = StreamEncoder(found, id="x", created=1)
    data = b"".join(map(encoder.event, outputs)).decode()
    lines = [line.removeprefix("data: ") for line in data.split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_N1_a_stream_with_calls() -> None:
    found = frames(order(tools=[F, G]), CALLS)
    deltas = [frame["choices"][0]["delta"] for frame in found]
    calls = [part for delta in deltas for part in delta.get("tool_calls", ())]
    assert [part["index"] for part in calls] == [0, 0, 0, 1, 1]
    assert [part.get("id") for part in calls] == ["c1", None, None, "c2", None]
    first = "".join(part["function"]["arguments"] for part in calls if part["index"] == 0)
    assert first == '{"a":1}'
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_N1_functions_get_their_answer_in_their_own_form() -> None:
    found = order(functions=[{"name": "f"}])
    outputs = [*CALLS[:1], CallStarted(0, "c1", "f"), CallArguments(0, "{}"), CALLS[-1]]
    body = json.loads(whole(found, outputs, id="x", created=1))
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    streamed = frames(found, outputs)
    assert streamed[1]["choices"][0]["delta"] == {"function_call": {"name": "f", "arguments": ""}}
    assert streamed[-1]["choices"][0]["finish_reason"] == "function_call"


def test_N1_a_call_that_does_not_fit_has_a_remark_in_its_stream() -> None:
    outputs: list[Output] = [*CALLS[:-1], Done(Finish.TOOL_CALLS, mismatch="it breaks\n$.é")]
    encoder = StreamEncoder(order(tools=[F, G]), id="x", created=1)
    data = b"".join(map(encoder.event, outputs)).decode()
    assert "\n\n: the arguments of the call do not fit: it breaks?$.?\n\ndata: {" in data
    assert data.endswith("data: [DONE]\n\n")


def test_N1_a_refusal_says_so() -> None:
    outputs: list[Output] = [CALLS[0], Text("No."), Done(Finish.CONTENT_FILTER)]
    message = json.loads(whole(order(), outputs, id="x", created=1))["choices"][0]["message"]
    assert (message["refusal"], message["content"]) == ("No.", "No.")
    strict = order(response_format={"type": "json_object"})
    message = json.loads(whole(strict, outputs, id="x", created=1))["choices"][0]["message"]
    assert (message["refusal"], message["content"]) == ("No.", "No.")
    assert frames(order(), outputs)[-1]["choices"][0]["delta"]["refusal"] == "No."
    (_, end) = frames(order(), [outputs[0], outputs[-1]])
    assert end["choices"][0]["delta"]["refusal"]


def test_N1_a_request_says_what_is_new_since_the_assistant_spoke() -> None:
    said = {"role": "assistant", "tool_calls": [call("a")]}
    request = asked(messages=[USER, said, result("a"), USER], tools=[F])
    assert [message.role for message in request.latest] == [Role.TOOL, Role.USER]
    assert asked().latest == (Message(Role.USER, "hi"),)
    assert request.turns[1].calls == (ToolCall("a", "f", "{}"),)
