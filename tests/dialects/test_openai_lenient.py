"""What is no letter of the API and yet clear is taken; what is left out of it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olp.dialects.openai_chat import decode, model_in, request_error_body
from olp.dialects.openai_chat.params import HONOURED
from olp.errors import RequestError
from olp.model import Request, Role
from tests.support import examples

USER = {"role": "user", "content": "hi"}


def body(**more: Any) -> bytes:
    return json.dumps({"model": "auto", "messages": [USER]} | more).encode()


def asked(**more: Any) -> Request:
    return decode(body(**more)).request


def refusal(**more: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        decode(body(**more))
    json.loads(request_error_body(caught.value))
    return caught.value


# --- half characters, and bytes in front ---------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"a\ud83db", "a\ufffdb"),
        (rb"\ude00", "\ufffd"),
        (rb"\uD83D", "\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\\ud83d\ud83d", "\\ud83d\ufffd"),
        (rb"\\\ud83d", "\\\ufffd"),
        (rb"\ud83d\n\u0041\"", '\ufffd\nA"'),
        (b"a\xed\xa0\xbdb", "a\ufffdb"),
        (b"\xed\xa0\xbd\xed\xb8\x80", "\U0001f600"),
    ],
)
def test_N4_half_a_character_is_the_sign_for_one(written: bytes, text: str) -> None:
    data = b'{"model":"auto","messages":[{"role":"user","content":"' + written + b'"}]}'
    assert decode(data).request.messages[0].content == text
    assert model_in(data) == "auto"


@pytest.mark.parametrize("where", ["model", "stop", "messages", "tools", "user"])
def test_N4_half_a_character_is_taken_wherever_it_stands(where: str) -> None:
    given = {
        "model": "m\ud83d",
        "stop": "x\ud83d",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "\ud83d"}]}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "\ud83d"}}],
        "user": "\ud83d",
    }
    request = decode(body(**{where: given[where]})).request
    assert "\\ud83d" not in repr(request)
    repr(request).encode()


def test_N4_a_mark_of_the_byte_order_is_no_mistake() -> None:
    data = b"\xef\xbb\xbf" + body()
    assert decode(data).request.model == model_in(data) == "auto"


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_N4_a_whole_number_may_be_written_as_a_fraction(name: str) -> None:
    assert asked(**{name: 4096.0}).max_tokens == 4096
    assert asked(n=1.0, top_logprobs=0.0).ignored == ()


@pytest.mark.parametrize("value", [4096.5, 0.0, -1.0, 1e30, "4096", "4096.0", True, [1]])
def test_N4_any_other_number_is_refused(value: Any) -> None:
    assert refusal(max_tokens=value).param == "max_tokens"


# --- null for what is absent ---------------------------------------------------------------------

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FILE = {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk="}}


def with_null(value: Any, path: tuple[str | int, ...]) -> Any:
    """A copy of `value` in which null stands at `path`."""
    if not path:
        return None
    copy = value.copy()
    copy[path[0]] = with_null(copy.get(path[0]) if isinstance(copy, dict) else copy[0], path[1:])
    return copy


@pytest.mark.parametrize(
    "path",
    [
        *((name,) for name in sorted(HONOURED - {"model", "messages"})),
        *(("messages", 0, name) for name in ("name", "tool_calls", "function_call", "refusal")),
        *(("messages", 0, "content", 0, "file", name) for name in ("filename",)),
        *(("messages", 0, "content", 0, name) for name in ("text", "image_url", "refusal")),
        *(("tools", 0, "function", name) for name in ("description", "parameters", "strict")),
        ("stream_options", "include_usage"),
        ("response_format", "json_schema", "name"),
        ("response_format", "json_schema", "strict"),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_N4_null_is_as_good_as_absent(path: tuple[str | int, ...]) -> None:
    given: dict[str, Any] = {
        "messages": [{"role": "user", "content": [FILE]}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "stream_options": {},
        "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
    }
    request = asked(**with_null(given, path))
    assert request.model == "auto" and request.ignored == ()


# --- earlier turns -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"type": "thinking", "thinking": "hm", "signature": "x"}, "messages.content.thinking"),
        ({"type": "redacted_thinking", "data": "x"}, "messages.content.redacted_thinking"),
        ({"type": "reasoning", "text": ["hm"]}, "messages.content.reasoning"),
        ({"type": "reasoning", "summary": [], "id": "r"}, "messages.content.reasoning"),
        ({"type": "image_url", "image_url": 5}, "messages.content.image_url"),
        ({"type": "audio", "file": "x"}, "messages.content.audio"),
        ({"type": "a new one"}, "messages.content"),
    ],
)
def test_N1_what_the_assistant_said_beside_its_words_ends_no_conversation(
    part: dict[str, Any], told: str
) -> None:
    said = {"role": "assistant", "content": [part, {"type": "text", "text": "so"}]}
    alone = {"role": "assistant", "content": [part], "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c", "name": "f", "content": "1"}
    request = asked(messages=[USER, said, USER, alone, result])
    assert [m.text for m in request.messages] == ["hi", "so", "hi", "", "1"]
    assert request.messages[3].calls[0].name == "f"
    assert request.ignored == (told,)


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_N2_what_somebody_else_says_is_not_left_out(role: str) -> None:
    part = {"type": "thinking", "thinking": "hm"}
    message = {"role": role, "content": [part], "tool_call_id": "c"}
    before = [USER, {"role": "assistant", "tool_calls": [CALL]}] if role == "tool" else []
    error = refusal(messages=[*before, message])
    assert error.param == f"messages[{len(before)}].content[0].type"


@pytest.mark.parametrize("part", [5, None, "x", [], {}, {"type": 5}, {"type": None}])
def test_N4_what_is_no_part_at_all_is_refused_in_every_turn(part: Any) -> None:
    for role in ("user", "assistant"):
        error = refusal(messages=[USER, {"role": role, "content": [part]}])
        assert str(error.param).startswith("messages[1].content[0]")


# --- nothing is dropped without a word -----------------------------------------------------------

ICON = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42m"
    "Nk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"messages": [{**USER, "name": "anna"}]}, "messages.name"),
        ({"messages": [{**USER, "cache_control": {"type": "x"}}]}, "messages.cache_control"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}]},
            "messages.content.x",
        ),
        (
            {"messages": [USER, {**USER, "role": "assistant", "reasoning_content": "h"}, USER]},
            "messages.reasoning_content",
        ),
        (
            {
                "tools": [
                    {"function": {"name": "f"}, "cache_control": {}},
                    {"type": "function", "function": {"name": "g"}, "cache_control": {"type": "x"}},
                ]
            },
            "tools.cache_control",
        ),
        ({"functions": [{"name": "f", "strict": True}]}, "functions.strict"),
        ({"response_format": {"type": "text", "grammar": "x"}}, "response_format.grammar"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"description": "d", "strict": True, "schema": {}},
                }
            },
            "response_format.json_schema.description",
        ),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ],
)
def test_I8_a_field_inside_a_parameter_that_has_no_effect_is_listed(
    more: dict[str, Any], told: str
) -> None:
    assert asked(**more).ignored == (told,)


@pytest.mark.parametrize(
    ("detail", "told"),
    [("high", ("messages.content.image_url.detail",)), ("auto", ()), (None, ())],
)
def test_I8_the_detail_of_an_image_is_listed_unless_it_is_the_default(
    detail: Any, told: tuple[str, ...]
) -> None:
    image = {"type": "image_url", "image_url": {"url": ICON, "detail": detail}}
    assert asked(messages=[{"role": "user", "content": [image]}]).ignored == told


def test_I8_the_messages_of_the_openai_library_have_nothing_to_list() -> None:
    said: dict[str, Any] = {
        "role": "assistant",
        "content": "x",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    assert asked(messages=[USER, said, USER]).ignored == ()


# --- the words that are allowed ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        ({"reasoning_effort": "ultra"}, "reasoning_effort", ("none", "minimal", "xhigh", "max")),
        ({"reasoning_effort": 5}, "reasoning_effort", ("none", "max")),
        (
            {"response_format": {"type": "xml"}},
            "response_format.type",
            ("text", "json_object", "json_schema"),
        ),
        (
            {"messages": [USER, {"role": "king", "content": "x"}]},
            "messages[1].role",
            ("system", "developer", "user", "assistant", "tool", "function"),
        ),
    ],
)
def test_N4_a_word_that_is_none_of_the_allowed_is_told_which_are(
    more: dict[str, Any], param: str, words: tuple[str, ...]
) -> None:
    error = refusal(**more)
    assert error.param == param
    assert error.message.startswith(f"{param}: ")
    assert all(word in error.message for word in words), error.message


# --- whatever comes ------------------------------------------------------------------------------

_words = [
    *("role", "content", "type", "text", "name", "function", "tool_calls", "arguments", "id"),
    *("tool_call_id", "parameters", "image_url", "url", "file", "file_data", "json_schema"),
    *("schema", "$ref", "properties", "items", "mode", "allowed_tools", "tools", "detail"),
]
_said = [
    *("user", "assistant", "tool", "function", "system", "text", "thinking", "image_url", "file"),
    *("auto", "required", "none", "json_schema", "json_object", "object", "string", "c", "{}"),
    *("data:image/png;base64,iVBORw0KGgo=", "http://x", "#/$defs/a", "\ud83d"),
]
_value: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=6)
    | st.sampled_from(_said),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_words) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=14,
)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(_said[:5]) | _value},
    optional={
        "content": _value | st.lists(st.dictionaries(st.sampled_from(_words), _value, max_size=4)),
        "tool_calls": _value,
        "function_call": _value,
        "tool_call_id": _value,
        "name": _value,
    },
)
_request = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("auto") | _value,
        "messages": st.lists(_message, max_size=4) | _value,
        **dict.fromkeys(sorted(HONOURED - {"model", "messages"}), _value),
        **dict.fromkeys(("n", "logprobs", "seed", "metadata", "modalities"), _value),
    },
)


@settings(max_examples=examples(2000), deadline=None)
@given(_request | _value)
def test_N4_whatever_is_asked_is_decoded_or_refused_as_this_api_refuses(value: Any) -> None:
    data = json.dumps(value).encode("utf-8", "surrogatepass")
    try:
        order = decode(data, links=True)
    except RequestError as error:
        assert 400 <= error.status < 500
        assert json.loads(request_error_body(error))["error"]["message"]
    else:
        request = order.request
        assert request.messages and request.model
        assert all(isinstance(name, str) for name in request.ignored)
        assert {m.role for m in request.messages} <= set(Role)
    model_in(data)
