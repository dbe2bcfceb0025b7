"""The files that are made from the code say what the code says."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from olp.config import Config, load
from olp.config.options import sections
from olp.core.routing.triggers import RULES
from olp.providers import all_providers

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = (ROOT / "olp.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """scripts/generated.py."""
    spec = importlib.util.spec_from_file_location("generated", ROOT / "scripts" / "generated.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(text: str) -> Config:
    """A configuration as the command line reads it."""
    return load(text, file="olp.toml", providers=tuple(all_providers())).config


def without_marks(text: str) -> str:
    """The template with the mark in front of each key taken away."""
    return re.sub(r"^#(?=[\w\[])", "", text, flags=re.M)


def test_the_committed_files_are_current(generated: ModuleType) -> None:
    stale = [
        name for name, text in generated.files().items() if (ROOT / name).read_text("utf-8") != text
    ]
    assert stale == [], "run scripts/generate"


def test_the_template_as_it_is_changes_nothing() -> None:
    assert read(TEMPLATE) == read("[providers.claude]\n[providers.codex]\n[providers.vibe]\n")


def test_the_template_without_its_marks_is_valid_and_complete() -> None:
    text = without_marks(TEMPLATE)
    config = read(text)
    raw = tomllib.loads(text)
    for name, section in sections().items():
        keys = {option.name for option in section.options}
        if name == "chains":
            assert set(raw["chains"]["patient"]) == keys
            assert len(raw["chains"]["everyday"]) == 3
        elif name == "providers":
            assert {frozenset(table) for table in raw["providers"].values()} == {frozenset(keys)}
        else:
            assert set(raw[name]) == keys
            assert getattr(config, name) == getattr(Config(), name), "a default is wrong"


def test_every_key_is_explained() -> None:
    silent = [
        f"{name}.{option.name}"
        for name, section in sections().items()
        for option in section.options
        if not option.about
    ]
    assert silent == []


def test_A12_every_trigger_is_in_the_table() -> None:
    table = (ROOT / "docs" / "fallback.md").read_text("utf-8")
    for code, rule in RULES.items():
        assert f"| `{code}` | {rule.trigger} |" in table


def request_errors() -> set[tuple[str, int | None]]:
    """Code and status of every RequestError that the code raises; None for a status that is not
    written there."""
    found: set[tuple[str, int | None]] = set()
    for module in (ROOT / "olp").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "RequestError":
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                code = ast.literal_eval(given.get("code", "None"))
                status = given.get("status", "400")
                found.add((code or "null", int(status) if status.isdigit() else None))
    return found


def test_every_code_of_a_refused_request_is_documented(generated: ModuleType) -> None:
    documented = {(code, status) for code, status, *_ in generated.REQUEST_ERRORS}
    raised = request_errors()
    assert {code for code, _ in documented} == {code for code, _ in raised}
    assert {pair for pair in raised if pair[1] is not None} <= documented
