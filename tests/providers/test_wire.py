"""Lines of JSON to the CLIs and from them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.providers.shared.wire import (
    count,
    is_cut,
    is_json,
    line_of,
    moment,
    number,
    parse_line,
    rows,
    table,
    text,
)

TEXT = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_what_is_written_is_one_line_and_read_as_the_same(message: dict[str, Any]) -> None:
    line = line_of(message)
    text = line.decode()
    assert text.splitlines() == [text[:-1]] or "\x85" in text, "for Node too"
    assert not {"\u2028", "\u2029"} & set(text)
    assert json.loads(line) == message
    assert parse_line(text) == message


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}),
        ('{"a": 1e400, "b": 2}', {"a": float("inf"), "b": 2}),
        (f'{{"a": {10**40}}}', {"a": 10**40}),
        ("[1]", {}),
        ("Loading…", {}),
        ("", {}),
        ('{"a": ', {}),
        ("[" * 100_000, {}),
    ],
)
def test_a_line_is_an_object_or_nothing(line: str, read: dict[str, Any]) -> None:
    assert parse_line(line) == read


def test_a_models_arguments_are_json_or_not() -> None:
    assert is_json('{"a": 1}') and is_json("{}") and is_json('"x"')
    assert not is_json('{"a": ]') and not is_json("") and not is_json("[" * 100_000)


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=3), st.data())
def test_what_is_cut_is_told_from_what_is_wrong(message: dict[str, Any], data: Any) -> None:
    text = json.dumps(message)
    at = data.draw(st.integers(1, len(text) - 1))
    assert not is_json(text[:at])
    assert not is_cut(text)
    assert not is_cut(f"{text[:-1]}]") and not is_cut(f"x{text}")


@pytest.mark.parametrize("text", ['{"a": "lon', '{"a"', '{"a": ', "{", '{"a": [1, ', "", " "])
def test_what_could_go_on_is_cut(text: str) -> None:
    assert is_cut(text) and not is_json(text)


NO_NUMBERS = [None, True, False, "7", "soon", [7], {"a": 7}, float("nan"), float("inf")]
NO_NUMBERS += [-float("inf"), 10**400, -(10**400), 1e300]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: repr(value)[:12])
def test_what_is_no_number_is_dropped(value: Any) -> None:
    assert (count(value), number(value), moment(value)) == (0, None, None)


@pytest.mark.parametrize(
    ("value", "counted", "read"),
    [(0, 0, 0.0), (7, 7, 7.0), (7.0, 7, 7.0), (7.5, 0, 7.5), (-3, 0, -3.0), (-0.5, 0, -0.5)],
)
def test_a_number_is_of_its_kind(value: Any, counted: int, read: float) -> None:
    assert (count(value), number(value)) == (counted, read)
    assert type(count(value)) is int and type(number(value)) is float


@pytest.mark.parametrize(
    ("value", "read"),
    [(1_796_021_589, 1_796_021_589.0), (0, None), (-5, None), (1_796_021_589_000, None)],
)
def test_a_moment_is_one_that_a_calendar_shows(value: Any, read: float | None) -> None:
    assert moment(value) == read


@given(VALUES)
def test_a_field_of_any_type_is_read_as_the_one_wanted(value: Any) -> None:
    assert text(value) in (value, None) and isinstance(text(value), str | None)
    assert table(value) in (value, {}) and isinstance(table(value), dict)
    assert all(isinstance(row, dict) for row in rows(value))
    assert rows([value, {}])[-1] == {}
    assert rows(value) == [] or isinstance(value, list)
