"""Every promise of docs/behaviour.md has a test that carries its id in its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
BEHAVIOUR = TESTS.parent / "docs" / "behaviour.md"
SECTIONS = "ABCDEFGHIJKLMN"

_LINE = re.compile(r"^- \*\*([A-Z]\d+)\*\* (\S.*(?:\n  \S.*)*)", re.MULTILINE)
_NAME = re.compile(r"test((?:_[A-Z]\d+)+)_[a-z]")


def promised() -> list[tuple[str, str]]:
    """The ids in the order in which they stand there, each with its text."""
    return _LINE.findall(BEHAVIOUR.read_text("utf-8"))


def ids_of(name: str) -> list[str]:
    """The ids that the name of a test carries: `test_A4_A5_all_fail` has two."""
    found = _NAME.match(name)
    return found[1].strip("_").split("_") if found else []


def names() -> Iterator[str]:
    """The name of every function in a test file: read, and not imported."""
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name


IDS = [promise for promise, _ in promised()]
TESTED = {promise for name in names() for promise in ids_of(name)}


@pytest.mark.parametrize("promise", IDS)
def test_every_promise_has_a_test(promise: str) -> None:
    assert promise in TESTED, f"no test is called test_{promise}_…"


def test_no_test_is_of_a_promise_that_was_never_made() -> None:
    claimed = {promise for promise in TESTED if promise[0] in SECTIONS}
    assert sorted(claimed - set(IDS)) == []


def test_the_promises_are_numbered_without_a_gap_and_each_says_something() -> None:
    assert [letter for letter, _ in groupby(IDS, key=lambda promise: promise[0])] == list(SECTIONS)
    for letter, group in groupby(IDS, key=lambda promise: promise[0]):
        numbers = [int(promise[1:]) for promise in group]
        assert numbers == list(range(1, len(numbers) + 1)), letter
    assert all(len(text) > 40 and text.rstrip().endswith(".") for _, text in promised())


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_A4_the_first_error", ["A4"]),
        ("test_A4_A5_all_fail", ["A4", "A5"]),
        ("test_A10_gone", ["A10"]),
        ("test_A1", []),
        ("test_a_chain_A1_no", []),
        ("test_K_every_row", []),
    ],
)
def test_ids_are_read_from_names(name: str, ids: list[str]) -> None:
    assert ids_of(name) == ids
