"""The check that an answer is the JSON that was asked for."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olp.formats import JsonText, conform, fault
from olp.model import JsonFormat
from tests.support import examples

OBJECT = JsonFormat()
NUMBER = JsonFormat({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]})

_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def short(text: str) -> str:
    return repr(text)[:20]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n ',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```',
        '```json\r\n{"a": 1}\r\n```'.replace("\r", ""),
        '\n```json  \n\n{"a": 1}\n\n```\n',
        '```json\n{"a": 1}',
        '```JSON\n{"a": 1}```',
        '```{"a": 1}```',
        '   ```json\n   {"a": 1}\n   ```',
        'Here it is:\n```json\n{"a": 1}\n```',
        'Here it is:\n```json\n{"a": 1}\n```\nAsk me for more!',
        'Here {it} is:\n\n{"a": 1}\n',
        'For example\n[Note] this:\n{"a": 1}',
    ],
)
@pytest.mark.parametrize("wanted", [OBJECT, NUMBER], ids=["object", "schema"])
def test_N1_good_answers(text: str, wanted: JsonFormat) -> None:
    assert conform(text, wanted) == ('{"a": 1}', None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "{",
        "[]",
        "1",
        "null",
        '"{}"',
        '{"a": 1} and more',
        '{"a": 1}\n```',
        '{"a": 1} {"b": 2}',
        '```json\n{"a": 1} so\n```',
        '```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```',
        "Sure! {}",
        "I cannot do that.",
        '[{"a": 1}]',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        "{'a': 1}",
    ],
)
def test_N1_not_a_json_object(text: str) -> None:
    assert conform(text, OBJECT)[1] is not None


@pytest.mark.parametrize("text", ["{}", '{"a": "1"}', "[]", "null"])
def test_N1_not_what_the_schema_says(text: str) -> None:
    problem = conform(text, NUMBER)[1]
    assert problem is not None
    assert problem.startswith("it breaks the schema at $")


def test_N1_a_schema_may_ask_for_something_else_than_an_object() -> None:
    assert conform("[1, 2]", JsonFormat({"type": "array"})) == ("[1, 2]", None)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000], ids=short)
def test_N4_json_that_cannot_be_read_is_a_mismatch_and_no_crash(text: str) -> None:
    problem = conform(text, OBJECT)[1]
    assert problem is not None and "not JSON" in problem


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}])
def test_N4_a_schema_that_refers_to_itself_without_end_is_a_mismatch(schema: Any) -> None:
    assert "without end" in str(conform("1", JsonFormat(schema))[1])


def test_N4_a_recursive_schema_that_ends_is_fine() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    assert conform('{"child": {"child": {}}}', JsonFormat(tree))[1] is None
    assert conform('{"child": {"x": {}}}', JsonFormat(tree))[1] is not None


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#", "$ref": 5}, "1"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "$ref": {}}, "1"),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "type": "zzz"}, "1"),
        ({"multipleOf": 0.5}, "1" + "0" * 400),
    ],
)
def test_N4_a_rule_that_cannot_be_applied_is_a_mismatch(schema: Any, answer: str) -> None:
    assert "cannot be applied" in str(conform(answer, JsonFormat(schema))[1])


def test_M1_a_schema_cannot_make_olp_read_a_file(tmp_path: Path) -> None:
    canary = tmp_path / "schema.json"
    canary.write_text('{"type": "string"}')
    problem = conform("1", JsonFormat({"$ref": canary.as_uri()}))[1]
    assert problem is not None
    assert "does not define" in problem, "the file was read, and its rule applied"


@pytest.mark.parametrize(
    "ref", ["http://127.0.0.1:9/x", "https://example.com/x", "other.json", "#/no/such", "#anchor"]
)
def test_M1_a_schema_cannot_make_olp_fetch_anything(ref: str) -> None:
    assert "does not define" in str(conform("1", JsonFormat({"$ref": ref}))[1])


def test_N1_the_dialects_own_schemas_are_known() -> None:
    draft = "https://json-schema.org/draft/2020-12/schema"
    assert conform('{"type": "string"}', JsonFormat({"$ref": draft}))[1] is None
    assert conform('{"type": 5}', JsonFormat({"$ref": draft}))[1] is not None


@given(_json)
def test_N1_every_value_conforms_to_the_schema_that_allows_all(value: Any) -> None:
    body, problem = conform(json.dumps(value), JsonFormat({}))
    assert problem is None
    assert json.loads(body) == value


@given(st.text())
def test_N4_no_text_makes_the_check_fail_otherwise(text: str) -> None:
    for wanted in (OBJECT, NUMBER):
        body, problem = conform(text, wanted)
        assert problem is not None or json.loads(body)


def test_M5_a_hostile_schema_ends_in_time() -> None:
    deep: dict[str, object] = {"a40": {"type": "string"}}
    for level in range(40):
        ref = {"$ref": f"#/$defs/a{level + 1}"}
        deep[f"a{level}"] = {"allOf": [ref, ref]}
    schema = {"$defs": deep, "$ref": "#/$defs/a0"}
    assert conform('"x"', JsonFormat(schema))[1] == "the schema takes too long to check"


def test_M5_a_hostile_pattern_ends_in_time() -> None:
    schema = {"type": "string", "pattern": "^(a|aa)+$"}
    text = '"' + "a" * 60 + 'b"'
    assert conform(text, JsonFormat(schema))[1] is not None


def test_patterns_are_checked() -> None:
    schema = {
        "properties": {"x": {"pattern": "^a+$"}},
        "patternProperties": {"^n": {"type": "number"}},
    }
    assert conform('{"x": "aa", "n": 1}', JsonFormat(schema))[1] is None
    assert "'pattern'" in (conform('{"x": "b"}', JsonFormat(schema))[1] or "")
    assert "'type'" in (conform('{"n": "1"}', JsonFormat(schema))[1] or "")


# --- piece by piece ------------------------------------------------------------------------------

_scraps = st.lists(
    st.sampled_from(
        [
            *(
                '{"a": 1}',
                '{"a": ',
                "{",
                "}",
                "[",
                "]",
                '"',
                "\\\\",
                "\\",
                "\n",
                " ",
                "```",
                "json\n",
            ),
            *(
                '{"b": "x}\\\\"y"}',
                "[1, {}]",
                "Here",
                "`",
                "1",
                "null",
                "\t\n",
                '{"é": "\U0001f600"}',
            ),
        ]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)
_anything = st.one_of(
    _scraps,
    st.sampled_from(["", "Sure:\n", "```json\n"]).flatmap(
        lambda before: st.tuples(_json, st.sampled_from(["", "\n```", " and more", "\n"])).map(
            lambda both: before + json.dumps(both[0], indent=1) + both[1]
        )
    ),
)
_wanted = st.sampled_from(
    [
        OBJECT,
        NUMBER,
        JsonFormat({}),
        JsonFormat({"type": ["array", "null"]}),
        JsonFormat({"type": "string"}),
    ]
)


def in_pieces(text: str, cuts: list[int], wanted: JsonFormat) -> tuple[list[str], str | None]:
    """What is handed on of a text that comes in pieces, and what is wrong around it."""
    found = JsonText(wanted)
    at = sorted({0, *(cut % (len(text) + 1) for cut in cuts), len(text)})
    out = [found.feed(text[a:b]) for a, b in pairwise(at)]
    return [*out, found.end()], found.code


@settings(max_examples=examples(1000), deadline=None)
@given(_anything, st.lists(st.integers(0, 200), max_size=8), _wanted)
def test_R3_pieces_come_to_the_same_as_the_whole(
    text: str, cuts: list[int], wanted: JsonFormat
) -> None:
    pieces, trouble = in_pieces(text, cuts, wanted)
    every, same = in_pieces(text, list(range(len(text))), wanted)
    body, problem = conform(text, wanted)
    assert "".join(pieces) == "".join(every) == body
    assert trouble == same
    assert problem == (trouble or fault(body, wanted))


@settings(max_examples=examples(500), deadline=None)
@given(_json, st.integers(0, 3), st.lists(st.integers(0, 200), max_size=8))
def test_R3_a_value_goes_out_as_it_comes(value: Any, indent: int, cuts: list[int]) -> None:
    text = json.dumps({"a": value}, indent=indent or None, ensure_ascii=bool(indent))
    found = JsonText(OBJECT)
    shown = ""
    for at, letter in enumerate(text):
        shown += found.feed(letter)
        assert text.startswith(shown)
        assert len(shown) == at + 1 or not shown, "once it has begun, nothing is held back"
    assert (shown, found.end(), found.code) == (text, "", None)


def test_R3_nothing_goes_out_that_cannot_become_the_wanted_json() -> None:
    for text in (
        "Sure, here",
        "```python\nx = {1}",
        "{x: 1}",
        "[1, 2]",
        "[Note] so",
        "null",
        "{ \n",
    ):
        found = JsonText(OBJECT)
        assert found.feed(text) == "" and not found.begun, text


@pytest.mark.parametrize("text", ["\n" * 200_000, "{\n" * 100_000, "```\n" * 50_000, " " * 200_000])
def test_M5_no_answer_makes_the_search_for_json_last(text: str) -> None:
    began = time.monotonic()
    found = JsonText(OBJECT)
    for at in range(0, len(text), 1000):
        found.feed(text[at : at + 1000])
    found.end()
    assert time.monotonic() - began < 5
