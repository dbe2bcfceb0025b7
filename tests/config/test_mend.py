"""TOML as people write it: what is told, and what is read all the same."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.config.mend import MAX_FAULTS, mended

FAULTS: list[tuple[str, dict[str, Any], list[tuple[int, str]]]] = [
    ("a = True", {"a": True}, [(1, "write true and false in lower case: a = true")]),
    ("a = no # off", {"a": False}, [(1, "write true or false: a = false # off")]),
    (
        "a = \u201cx\u201d",
        {"a": "x"},
        [(1, 'curly quotes cannot be read, use straight ones: a = "x"')],
    ),
    ("a = 127.0.0.1", {"a": "127.0.0.1"}, [(1, 'text needs quotes: a = "127.0.0.1"')]),
    (
        "a = [b/c, d]",
        {"a": ["b/c", "d"]},
        [(1, 'each text in a list needs quotes: a = ["b/c", "d"]')],
    ),
    (
        'a = ["b" "c"]',
        {"a": ["b", "c"]},
        [(1, 'a comma is missing between two entries of the list: a = ["b", "c"]')],
    ),
    (
        'a = ["b"\n"c"]',
        {"a": ["b", "c"]},
        [(2, "a comma is missing before this entry of the list")],
    ),
    ('a = "b", "c"', {"a": ["b", "c"]}, [(1, 'a list needs brackets: a = ["b", "c"]')]),
    ("a: 5", {"a": 5}, [(1, "use = between a key and its value: a = 5")]),
    ("a == 5", {"a": 5}, [(1, "use = between a key and its value: a = 5")]),
    (
        "a:\n  b: 5",
        {"a": {"b": 5}},
        [
            (1, "the name of a table needs brackets: [a]"),
            (2, "use = between a key and its value: b = 5"),
        ],
    ),
    (
        "[a/b]",
        {"a": {"b": {}}},
        [(1, "the name of a table needs brackets, and dots between its parts: [a.b]")],
    ),
    ("[a] b = 5\nc = 1", {"a": {"c": 1}}, [(1, "a key needs a line of its own, below [a]")]),
    ("a = 1\na = 2", {"a": 1}, [(2, "a is set twice")]),
    (
        "[a]\nx = 1\n[b]\n[a]\ny = 2",
        {"a": {"x": 1, "y": 2}, "b": {}},
        [(4, "[a] appears twice: put all its keys under the first one")],
    ),
    ('a = "x', {"a": "x"}, [(1, 'the quotes are not closed: a = "x"')]),
    ('a = ["x\nb = 1', {"a": ["x"], "b": 1}, [(1, 'the quotes are not closed: a = ["x"]')]),
    ("a = 'it's'", {"a": "it's"}, [(1, "text with ' in it needs double quotes: a = \"it's\"")]),
    (
        'a = "C:\\Users"',
        {"a": "C:\\Users"},
        [(1, "text with a \\ needs single quotes: a = 'C:\\Users'")],
    ),
    ("a = 5,", {"a": 5}, [(1, "nothing may follow a value: a = 5")]),
    ("a = 90%", {"a": 90}, [(1, "write the number alone, without %: a = 90")]),
    ("a = 30s", {"a": 30}, [(1, "write the number alone, without s: a = 30")]),
    ("a = 2,5", {"a": 2.5}, [(1, "write the fraction with a point: a = 2.5")]),
    ("a = 012", {"a": 12}, [(1, "a number cannot start with 0: a = 12")]),
    (
        "// x\na = 1 ; y",
        {"a": 1},
        [(1, "a comment starts with #: # x"), (2, "a comment starts with #: a = 1 # y")],
    ),
    (
        "a\u00a0= 5",
        {"a": 5},
        [(1, "an invisible character (U+00A0) is in this line; type it again: a = 5")],
    ),
    (
        "a = {b = 1,\nc = 2}\nd = 3",
        {"a": {"b": 1, "c": 2}, "d": 3},
        [(1, "a table in braces must be on one line: { \u2026 }")],
    ),
    (
        'a = [\n"b",\nc = 5',
        {"a": ["b"], "c": 5},
        [(1, "the list that starts here has no ] at its end")],
    ),
    (
        "a =\nb = True",
        {"b": True},
        [(1, "a has no value"), (2, "write true and false in lower case: b = true")],
    ),
    (
        "hello\nb = 1",
        {"b": 1},
        [(1, "this is neither KEY = VALUE nor the name of a table in brackets")],
    ),
    ('{"a": 1}', {}, [(1, "this looks like JSON, and the file is TOML: see olp.toml")]),
]


@pytest.mark.parametrize(("text", "tree", "faults"), FAULTS, ids=[text for text, _, _ in FAULTS])
def test_O_a_fault_is_told_with_what_was_meant(
    text: str, tree: dict[str, Any], faults: list[tuple[int, str]]
) -> None:
    read = mended(text)
    assert (read.tree, read.faults) == (tree, faults)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_O_line_ends_and_a_mark_at_the_beginning_mean_nothing(mark: str, ending: str) -> None:
    text = mark + ending.join(["[a]", "b = 1", 'c = "x"', ""])
    assert mended(text).tree == {"a": {"b": 1, "c": "x"}}
    assert mended(text).faults == []


@pytest.mark.parametrize(
    "line",
    [
        "api_key = abc",
        "env = { HTTPS_PROXY = http://me:hush@proxy }",
        "proxy = http://me:hush@proxy",
        "password = \u201chush\u201d",
    ],
)
def test_L3_a_line_that_may_hold_a_secret_is_not_repeated(line: str) -> None:
    ((_, message),) = mended(line).faults
    assert "hush" not in message and "abc" not in message


def test_O_a_text_full_of_faults_ends_soon() -> None:
    assert len(mended("a = True\n" * 500).faults) == MAX_FAULTS


_LINES = st.lists(
    st.sampled_from(
        [
            "[a]",
            "[a",
            "a]",
            "b = 1",
            "b = x",
            "b: 1",
            "c = [",
            "]",
            '"x",',
            "d = {",
            "}",
            "=",
            "#",
            '"',
        ]
    )
)


@given(st.one_of(st.text(max_size=80), _LINES.map("\n".join)))
def test_O_right_toml_is_left_alone_and_wrong_toml_is_always_told(text: str) -> None:
    plain = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    try:
        right: dict[str, Any] | None = tomllib.loads(plain)
    except tomllib.TOMLDecodeError:
        right = None
    read = mended(text)
    if right is not None:
        assert (read.tree, read.faults) == (right, [])
    else:
        assert read.faults
        assert all(1 <= line <= plain.count("\n") + 1 for line, _ in read.faults)
