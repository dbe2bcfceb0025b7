"""OpenAI's chat completions: bodies good and bad, frames, whole answers, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.dialects.openai_chat import (
    Order,
    StreamEncoder,
    decode,
    error_body,
    refused_body,
    request_error_body,
    whole,
)
from olp.dialects.openai_chat.params import HONOURED
from olp.errors import RequestError
from olp.events import (
    Answering,
    Done,
    ErrorCode,
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
from olp.model import Effort, JsonFormat, Message, Request, Role

USER = {"role": "user", "content": "hi"}


def body(**more: Any) -> bytes:
    return json.dumps({"model": "auto", "messages": [USER]} | more).encode()


def asked(**more: Any) -> Request:
    return decode(body(**more)).request


def refusal(data: bytes) -> RequestError:
    with pytest.raises(RequestError) as caught:
        decode(data)
    json.loads(request_error_body(caught.value))
    return caught.value


# --- good bodies ---------------------------------------------------------------------------------


def test_N1_the_smallest_request() -> None:
    order = decode(body())
    assert order == Order(Request("auto", (Message(Role.USER, "hi"),)))


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("system", Role.SYSTEM),
        ("developer", Role.SYSTEM),
        ("user", Role.USER),
        ("assistant", Role.ASSISTANT),
    ],
)
def test_N1_the_roles(role: str, expected: Role) -> None:
    assert asked(messages=[{"role": role, "content": "x"}, USER]).messages[0].role is expected


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}], "a"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}], "a\nb"),
        ([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}], "a"),
        ("Grüße 👋 日本", "Grüße 👋 日本"),
        ("@/etc/passwd", "@/etc/passwd"),
        ("/clear", "/clear"),
    ],
)
def test_N1_text_and_content_parts(content: Any, text: str) -> None:
    assert asked(messages=[{"role": "user", "content": content}]).messages[0].text == text


@pytest.mark.parametrize("content", [None, "", []])
def test_N1_an_empty_turn_among_others_is_kept(content: Any) -> None:
    messages = [USER, {"role": "assistant", "content": content}, USER]
    assert [m.text for m in asked(messages=messages).messages] == ["hi", "", "hi"]


def test_N1_the_system_prompt_is_the_leading_system_messages() -> None:
    def said(role: str, text: str) -> dict[str, str]:
        return {"role": role, "content": text}

    request = asked(
        messages=[
            said("system", "a"),
            said("developer", "b"),
            said("user", "c"),
            said("system", "d"),
        ]
    )
    assert request.system == "a\n\nb"
    assert [(m.role, m.text) for m in request.turns] == [(Role.USER, "c"), (Role.SYSTEM, "d")]


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("stream", True, "stream", True),
        ("stream", False, "stream", False),
        ("stream", None, "stream", False),
        ("stop", "END", "stop", ("END",)),
        ("stop", ["a", "b"], "stop", ("a", "b")),
        ("stop", ["", "b"], "stop", ("b",)),
        ("stop", "", "stop", ()),
        ("stop", None, "stop", ()),
        ("max_tokens", 5, "max_tokens", 5),
        ("max_completion_tokens", 5, "max_tokens", 5),
        ("max_tokens", None, "max_tokens", None),
        ("reasoning_effort", "none", "effort", Effort.NONE),
        ("reasoning_effort", "minimal", "effort", Effort.MINIMAL),
        ("reasoning_effort", "high", "effort", Effort.HIGH),
        ("reasoning_effort", "max", "effort", Effort.XHIGH),
        ("reasoning_effort", None, "effort", None),
        ("response_format", {"type": "text"}, "format", None),
        ("response_format", None, "format", None),
        ("response_format", {"type": "json_object"}, "format", JsonFormat()),
        (
            "response_format",
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            "format",
            JsonFormat({"type": "object"}, "n"),
        ),
        (
            "response_format",
            {"type": "json_schema", "json_schema": {"strict": True, "schema": {}}},
            "format",
            JsonFormat({}),
        ),
    ],
)
def test_N1_each_honoured_parameter(name: str, value: Any, field: str, expected: object) -> None:
    request = asked(**{name: value})
    assert getattr(request, field) == expected
    assert request.ignored == ()


def test_N1_the_newer_token_limit_wins() -> None:
    assert asked(max_tokens=5, max_completion_tokens=7).max_tokens == 7


@pytest.mark.parametrize(
    ("options", "wanted"), [({"include_usage": True}, True), ({"include_usage": False}, False)]
)
def test_N1_the_usage_of_a_stream_comes_when_it_is_asked_for(options: Any, wanted: bool) -> None:
    assert decode(body(stream=True, stream_options=options)).include_usage is wanted
    assert decode(body(stream=True)).include_usage is False


# --- ignored and refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["temperature", "top_p", "seed", "presence_penalty", "logit_bias", "user", "new_one"]
)
def test_I8_a_parameter_that_no_cli_can_honour_is_listed(name: str) -> None:
    assert asked(**{name: 1}).ignored == (name,)
    assert asked(**{name: None}).ignored == ()


def test_I8_the_list_is_sorted_and_without_what_is_honoured() -> None:
    request = asked(top_p=1, temperature=0, stop="x", seed=5, n=1, tools=[], tool_choice="auto")
    assert request.ignored == ("seed", "temperature", "top_p")
    assert "temperature" not in HONOURED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n", 0),
        ("n", "1"),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("audio", {"voice": "x"}),
        ("modalities", ["text", "audio"]),
        ("web_search_options", {}),
    ],
)
def test_N2_what_cannot_be_honoured_is_refused_by_name(name: str, value: Any) -> None:
    error = refusal(body(**{name: value}))
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", name)
    assert repr(name) in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 1),
        ("n", None),
        ("logprobs", False),
        ("tools", []),
        ("tools", None),
        ("tool_choice", "none"),
        ("modalities", ["text"]),
        ("audio", None),
        ("top_logprobs", 0),
    ],
)
def test_N2_what_asks_for_nothing_is_no_reason_to_refuse(name: str, value: Any) -> None:
    assert asked(**{name: value}).ignored == ()


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_audio"}]},
            "messages[1].content[1].type",
        ),
        ({"role": "user", "content": [{"type": "video_url"}]}, "messages[1].content[0].type"),
    ],
)
def test_N2_what_no_model_can_be_shown_is_refused_by_path(message: Any, param: str) -> None:
    error = refusal(body(messages=[USER, message]))
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", param)
    assert param in error.message


# --- bad bodies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nope",
        b"\xff\xfe",
        b"\x00",
        b"[1",
        b"{}x",
        b'{"model":}',
        b"'x'",
        b"[" * 100000,
        b'{"a":' * 100000,
        b'{"model":"m","max_tokens":' + b"9" * 5000 + b"}",
        b'{"model":"m","max_tokens":1e400}',
        b'{"a":NaN}',
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        b'{"model":"caf\xe9"}',
        b'{"model":"\\ud83d}',
        b'{"model":"\\ud8"}',
    ],
    ids=lambda data: repr(data)[:20],
)
def test_N4_what_is_no_json_is_said_to_be_none(data: bytes) -> None:
    error = refusal(data)
    assert (error.status, error.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"null", "null"),
        (b"[]", "an array"),
        (b'"x"', "a string"),
        (b"5", "a number"),
        (b"true", "a boolean"),
        (b"1.5", "a number"),
        (b" [ {} ] ", "an array"),
    ],
)
def test_N4_what_is_no_object_is_named(data: bytes, kind: str) -> None:
    error = refusal(data)
    assert (error.status, error.code) == (400, "invalid_json")
    assert error.message == f"the body must be a JSON object, not {kind}"


SCHEMA = "response_format.json_schema.schema"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"model": ""}, "model"),
        ({"model": "x" * 257}, "model"),
        ({"model": ["auto"]}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [None]}, "messages[0]"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [[]]}, "messages[0]"),
        ({"messages": [USER, {"content": "x"}]}, "messages[1]"),
        ({"messages": [USER, {"role": "boss", "content": "x"}]}, "messages[1].role"),
        ({"messages": [{"role": 5, "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": None, "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": {}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
            "messages[0].content[0].text",
        ),
        ({"messages": [{"role": "user", "content": [{"type": 5}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "assistant", "tool_calls": "x"}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"stream": "true"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"stop": 5}, "stop"),
        ({"stop": [5]}, "stop[0]"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": "x" * 4097}, "stop"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_completion_tokens": 10**30}, "max_completion_tokens"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"reasoning_effort": 5}, "reasoning_effort"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, SCHEMA),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, SCHEMA),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            SCHEMA,
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": 5, "schema": {}}}},
            "response_format.json_schema.name",
        ),
    ],
)
def test_N4_a_wrong_value_is_refused_with_its_path(more: dict[str, Any], param: str) -> None:
    error = refusal(body(**more))
    assert (error.status, error.param) == (400, param), error.message


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_N4_a_missing_field_is_named(missing: str) -> None:
    fields = json.loads(body())
    del fields[missing]
    assert missing in refusal(json.dumps(fields).encode()).message


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"type": "objekt"},
        {"properties": []},
        {"pattern": "["},
        {"required": "a"},
        {"$ref": 5},
        {"$schema": 5},
        {"$schema": []},
        {"$schema": None},
        {"$schema": "http://[x"},
        nested(150),
        nested(300),
    ],
    ids=lambda schema: repr(schema)[:30],
)
def test_N4_a_bad_schema_is_refused_before_anything_is_started(schema: Any) -> None:
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    error = refusal(body(response_format=wanted))
    assert (error.status, error.param) == (400, SCHEMA)
    assert error.message.startswith("not a valid JSON Schema: ")


def test_M5_the_number_of_messages_has_a_limit() -> None:
    data = body(messages=[USER] * 5)
    assert len(decode(data, max_messages=5).request.messages) == 5
    with pytest.raises(RequestError) as caught:
        decode(data, max_messages=4)
    assert (caught.value.status, caught.value.param) == (400, "messages")


_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["user", "text", "json_schema", "auto", "content"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.one_of(
                st.sampled_from(
                    ["role", "content", "type", "text", "schema", "json_schema", "$ref"]
                ),
                st.text(max_size=4),
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
_parameters = [*sorted(HONOURED), "n", "tools", "tool_choice", "logprobs", "modalities", "seed"]


@given(_json)
def test_N4_no_json_makes_decoding_fail_otherwise(value: Any) -> None:
    data = json.dumps(value).encode("utf-8", "surrogatepass")
    try:
        decode(data)
    except RequestError as error:
        assert 400 <= error.status < 500


@given(st.dictionaries(st.sampled_from(_parameters), _json, max_size=4))
def test_N4_no_parameter_makes_decoding_fail_otherwise(parameters: dict[str, Any]) -> None:
    try:
        request = asked(**parameters)
    except RequestError as error:
        assert error.status == 400
        json.loads(request_error_body(error))
    else:
        assert request.messages and request.model


@given(st.dictionaries(st.sampled_from(["$ref", "$id", "$schema", "type", "not", "x"]), _json))
def test_N4_no_schema_makes_decoding_fail_otherwise(schema: dict[str, Any]) -> None:
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    try:
        decode(body(response_format=wanted))
    except RequestError as error:
        assert error.status == 400


@given(st.binary(max_size=40))
def test_N4_no_bytes_make_decoding_fail_otherwise(data: bytes) -> None:
    with pytest.raises(RequestError):
        decode(data)


# --- the stream ----------------------------------------------------------------------------------


def frames(*outputs: Output, **more: Any) -> list[Any]:
    """The frames of a stream as objects, `[DONE]` as the text it is."""
    encoder = StreamEncoder(decode(body(stream=True, **more)), id="chatcmpl-1", created=7)
    data = b"".join(map(encoder.event, outputs)).decode()
    assert data == "" or data.endswith("\n\n")
    pieces = [piece.removeprefix("data: ") for piece in data.split("\n\n")[:-1]]
    return [piece if piece == "[DONE]" else json.loads(piece) for piece in pieces]


HEAD = Answering("claude", "claude-sonnet-5", 0)
USAGE = Usage(input=25, output=15, cached=5, reasoning=3)
USAGE_JSON = {
    "prompt_tokens": 25,
    "completion_tokens": 15,
    "total_tokens": 40,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def deltas(chunks: Sequence[Any]) -> list[Any]:
    return [c["choices"][0]["delta"] for c in chunks if c != "[DONE]" and c["choices"]]


def test_N1_a_stream_is_a_role_the_pieces_an_end_and_done() -> None:
    chunks = frames(HEAD, Started(), Text("a"), Text("b"), USAGE, Done())
    assert chunks[-1] == "[DONE]"
    assert deltas(chunks) == [
        {"role": "assistant", "content": ""},
        {"content": "a"},
        {"content": "b"},
        {},
    ]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]]
    assert reasons == [None, None, None, "stop"]
    for chunk in chunks[:-1]:
        assert (chunk["id"], chunk["object"], chunk["created"]) == (
            "chatcmpl-1",
            "chat.completion.chunk",
            7,
        )
        assert "usage" not in chunk


def test_J2_every_chunk_names_the_model_that_really_answers() -> None:
    chunks = frames(HEAD, Text("a"), Done())
    assert {chunk["model"] for chunk in chunks[:-1]} == {"claude-sonnet-5"}


def test_N1_the_usage_chunk_comes_last_and_only_when_asked_for() -> None:
    options = {"include_usage": True}
    chunks = frames(HEAD, Text("a"), USAGE, Done(), stream_options=options)
    assert chunks[-2]["choices"] == []
    assert chunks[-2]["usage"] == USAGE_JSON
    assert all(chunk["usage"] is None for chunk in chunks[:-2])


@pytest.mark.parametrize("finish", list(Finish))
def test_N1_the_finish_reason(finish: Finish) -> None:
    assert frames(HEAD, Done(finish))[-2]["choices"][0]["finish_reason"] == finish.value


def test_N1_reasoning_is_shown_as_reasoning() -> None:
    assert deltas(frames(HEAD, Reasoning("hm"), Text("a")))[1:] == [
        {"reasoning_content": "hm"},
        {"content": "a"},
    ]


def test_B3_a_failure_in_mid_stream_is_an_error_event_without_done() -> None:
    chunks = frames(HEAD, Text("a"), Failed(ErrorCode.OVERLOADED, "the vendor said no"))
    assert "[DONE]" not in chunks
    assert chunks[-1]["error"]["code"] == "overloaded"
    assert "the vendor said no" in chunks[-1]["error"]["message"]
    assert all("error" not in chunk for chunk in chunks[:-1])


def test_B3_a_dead_process_after_content_is_length_with_done() -> None:
    chunks = frames(HEAD, Text("a"), Done(Finish.LENGTH, truncated=True))
    assert chunks[-1] == "[DONE]"
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("output", [Started(), Started("m"), Quota(()), USAGE], ids=repr)
def test_C2_what_this_api_does_not_show_is_no_byte(output: Output) -> None:
    assert frames(output) == []


def test_C5_a_keep_alive_is_a_comment() -> None:
    assert StreamEncoder.keep_alive.startswith(b":")
    assert StreamEncoder.keep_alive.endswith(b"\n\n")
    assert StreamEncoder.media_type == "text/event-stream"


@given(st.text())
def test_N1_a_text_with_any_line_ends_is_one_frame(text: str) -> None:
    assert deltas(frames(Text(text))) == [{"content": text}]


# --- the whole answer ----------------------------------------------------------------------------


def answer(*outputs: Output) -> Any:
    return json.loads(whole(decode(body()), outputs, id="chatcmpl-1", created=7))


def test_N1_a_whole_answer() -> None:
    assert answer(HEAD, Started(), Text("a"), Quota(()), Text("b"), USAGE, Done()) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "claude-sonnet-5",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ab", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE_JSON,
    }


def test_N1_a_whole_answer_with_reasoning() -> None:
    message = answer(HEAD, Reasoning("h"), Reasoning("m"), Text("a"), Done())["choices"][0][
        "message"
    ]
    assert (message["reasoning_content"], message["content"]) == ("hm", "a")


@pytest.mark.parametrize("finish", list(Finish))
def test_N1_usage_and_finish_reason_are_always_there(finish: Finish) -> None:
    got = answer(HEAD, Done(finish))
    assert got["choices"][0]["finish_reason"] == finish.value
    assert got["usage"]["total_tokens"] == 0


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "kind", "code"),
    [
        (ErrorCode.AUTH_MISSING, "provider_auth_missing", "provider_auth_missing"),
        (ErrorCode.BAD_REQUEST, "invalid_request_error", "bad_request"),
        (ErrorCode.CONTEXT_TOO_LONG, "invalid_request_error", "context_length_exceeded"),
        (ErrorCode.MODEL_NOT_FOUND, "invalid_request_error", "model_not_found"),
        (ErrorCode.QUOTA_EXHAUSTED, "insufficient_quota", "insufficient_quota"),
        (ErrorCode.QUOTA_HOLD, "insufficient_quota", "insufficient_quota"),
        (ErrorCode.SOFT_TRIGGER, "insufficient_quota", "insufficient_quota"),
        (ErrorCode.RATE_LIMITED, "rate_limit_error", "rate_limit_exceeded"),
        (ErrorCode.CONCURRENCY_LIMIT, "rate_limit_error", "concurrency_limit"),
        (ErrorCode.FORMAT_MISMATCH, "server_error", "format_mismatch"),
        (ErrorCode.SPAWN_FAILED, "server_error", "spawn_failed"),
        (ErrorCode.SPAWN_TIMEOUT, "server_error", "spawn_timeout"),
        (ErrorCode.OVERLOADED, "server_error", "overloaded"),
        (ErrorCode.CLI_NOT_FOUND, "server_error", "cli_not_found"),
        (ErrorCode.CIRCUIT_OPEN, "server_error", "circuit_open"),
        (ErrorCode.DEADLINE, "server_error", "deadline"),
        (ErrorCode.UNKNOWN, "server_error", "unknown"),
    ],
)
def test_K_the_error_of_each_trouble(trouble: ErrorCode, kind: str, code: str) -> None:
    error = error_body(Failed(trouble, "why"))["error"]
    assert (error["type"], error["code"], error["param"]) == (kind, code, None)
    assert error["message"] == f"{trouble}: why"


def test_K_the_body_says_what_to_do_next() -> None:
    end = Refused(
        "claude", "sonnet", 1, Failed(ErrorCode.OVERLOADED, "It broke."), 503, "try again"
    )
    error = json.loads(refused_body(end))["error"]
    assert error["message"] == "OVERLOADED: It broke. What to do: try again."


def test_K_a_refused_request_has_the_same_shape() -> None:
    error = RequestError("no such thing", status=404, code="model_not_found", param="model")
    assert json.loads(request_error_body(error)) == {
        "error": {
            "message": "no such thing",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    }
    assert b"server_error" in request_error_body(RequestError("oops", status=500))


@given(st.text(st.characters()))
def test_I5_an_error_body_can_always_be_encoded(detail: str) -> None:
    end = Refused("claude", "m", 0, Failed(ErrorCode.UNKNOWN, detail), 500, "wait")
    assert detail in json.loads(refused_body(end))["error"]["message"] or detail.endswith(".")


def test_M5_a_parameter_without_effect_is_not_unpacked() -> None:
    heap = b"[" + b",".join([b"[]"] * 200_000) + b"]"
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"metadata":' + heap + b"}"
    assert decode(body).request.ignored == ("metadata",)
