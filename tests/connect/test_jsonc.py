"""One value is set in a JSON file with comments, and no other character changes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.connect.base import CannotMerge
from olp.connect.jsonc import parse, set_in

PATH = ("language_models", "openai_compatible", "olp")
VALUE = {"api_url": "http://x/v1", "list": [1, {"a": None}]}

SETTINGS = """\
// Zed settings
{
  "theme": "One Dark", // the best
  /* models
     of others */
  "language_models": {
    "openai_compatible": {
      // theirs
      "other": { "api_url": "https://other/v1", "available_models": [], }, // keep
    },
  },
  "vim_mode": true,
}
"""


def nested(value: Any) -> Any:
    for name in reversed(PATH):
        value = {name: value}
    return value


def test_comments_and_commas_are_kept() -> None:
    new = set_in(SETTINGS, PATH, VALUE)
    for line in SETTINGS.splitlines():
        assert line in new
    told = parse(new)
    assert told["language_models"]["openai_compatible"]["olp"] == VALUE
    del told["language_models"]["openai_compatible"]["olp"]
    assert told == parse(SETTINGS)


def test_setting_it_twice_changes_nothing_more() -> None:
    once = set_in(SETTINGS, PATH, VALUE)
    assert set_in(once, PATH, VALUE) == once


def test_an_old_value_is_replaced_alone() -> None:
    once = set_in(SETTINGS, PATH, VALUE)
    again = set_in(once, PATH, {"api_url": "http://y/v1"})
    assert parse(again)["language_models"]["openai_compatible"]["olp"] == {"api_url": "http://y/v1"}
    assert "// theirs" in again and "// keep" in again


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "// nothing yet\n",
        "{}",
        "{ }",
        "{\n}",
        '{"a": 1}',
        '{"a": 1,}',
        '{\n\t"a": 1\n}\n',
        '{\n    "a": 1 // one\n}',
        '{"language_models": {}}',
        '{"language_models": {"openai_compatible": {"a": 1}}}',
        '{\n  "a": "// no comment",\n  "b": "/* nor this */"\n}',
        '{"a": "\\"quoted\\" \\\\ \\u00e4"}',
    ],
)
def test_what_files_look_like(text: str) -> None:
    new = set_in(text, PATH, VALUE)
    told = parse(new)
    assert told["language_models"]["openai_compatible"]["olp"] == VALUE
    old = parse(text) if "{" in text else {}
    for name, value in old.items():
        if name != "language_models":
            assert told[name] == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "is there, but is no object"),
        ('{"language_models": []}', "language_models.openai_compatible is there, but is no object"),
        ('{"a": 1} {"b": 2}', "line 1: there is something after its end"),
        ('{"a": 1\n"b": 2}', "line 2: a comma is missing"),
        ('{"a" 1}', "a colon is missing"),
        ("{a: 1}", "a name in quotation marks is missing"),
        ('{"a": nope}', "this is no JSON value"),
        ('{"a": 01}', "this is no JSON value"),
        ("{", "a name in quotation marks is missing"),
        ('{"language_models": {}, "language_models": {}}', "'language_models' stands in it twice"),
        ("[" * 200 + "]" * 200, "it is nested too deeply"),
    ],
)
def test_what_is_left_alone(text: str, why: str) -> None:
    with pytest.raises(CannotMerge, match=".*" + re.escape(why)):
        set_in(text, PATH, VALUE)


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "language_models", "x"]), trees, max_size=4)


@given(objects, st.sampled_from([None, 1, 2, 4, "\t"]), st.booleans())
def test_any_object_keeps_the_rest(tree: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=ascii_only)
    try:
        new = set_in(text, PATH, VALUE)
    except CannotMerge:
        assert "language_models" in tree
        return
    told = json.loads(new)
    assert told["language_models"]["openai_compatible"].pop("olp") == VALUE
    expected = json.loads(text)
    expected.setdefault("language_models", {}).setdefault("openai_compatible", {}).pop("olp", None)
    assert told == expected
