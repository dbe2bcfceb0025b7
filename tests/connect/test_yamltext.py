"""Lines are put into a YAML file, and everything else in it stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from olp.connect.base import CannotMerge
from olp.connect.yamltext import put_item, set_keys

ITEM = {"name": "OLP", "apiBase": "http://x/v1", "roles": ("chat", "edit")}
PLAIN = {"name": "OLP", "apiBase": "http://x/v1", "roles": ["chat", "edit"]}

CONTINUE = """\
# my config
name: Mine   # a name
version: 1.0.0
schema: v1

models:
  # the first
  - name: Other
    provider: openai
    apiKey: "x # no comment"
    prompt: |
      - name: OLP
      text

  - name: 'OLP'    # ours
    apiBase: http://old/v1
  - name: Third

# rules follow
rules:
  - be kind
"""


def without(tree: Any, name: str) -> Any:
    tree["models"] = [model for model in tree["models"] or () if model["name"] != name]
    return tree


def test_an_element_of_ours_is_replaced_in_its_place() -> None:
    new = put_item(CONTINUE, ITEM, under="models")
    told = yaml.safe_load(new)
    assert [model["name"] for model in told["models"]] == ["Other", "OLP", "Third"]
    assert told["models"][1] == PLAIN
    assert without(told, "OLP") == without(yaml.safe_load(CONTINUE), "OLP")
    for comment in ("# my config", "# a name", "# the first", "# rules follow"):
        assert comment in new
    assert put_item(new, ITEM, under="models") == new


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "name: a\n",
        "name: a\nmodels:\n",
        "name: a\nmodels: []\nrules: [x]\n",
        "models:\n- name: Other\n  a: 1\nname: a\n",
        "models:\n    - name: Other\n      a: 1\n\n\n# end\n",
        "models:\n  -\n    name: Other\n",
        "---\nmodels:\n  - name: Other\n",
        "name: a\r\nmodels:\r\n  - name: Other\r\nx: 1\r\n",
        "\ufeffname: a\nmodels:\n  - name: Other\n",
    ],
)
def test_a_list_under_a_key(text: str) -> None:
    new = put_item(text, ITEM, under="models", head=("name: Head",))
    told = yaml.safe_load(new)
    assert PLAIN in told["models"]
    old = yaml.safe_load(text) or {"name": "Head"}
    assert without(told, "OLP") == without({"models": [], **old}, "OLP")
    assert ("\r\n" in new) == ("\r\n" in text)
    assert put_item(new, ITEM, under="models") == new


@pytest.mark.parametrize(
    "text", ["", "# mine\n", "- name: a\n  b: 1\n", "- name: OLP\n  b: 1\n- name: z\n# end\n"]
)
def test_a_file_that_is_a_list(text: str) -> None:
    new = put_item(text, ITEM, under=None)
    told = yaml.safe_load(new)
    old = [item for item in yaml.safe_load(text) or [] if item["name"] != "OLP"]
    assert [item for item in told if item["name"] != "OLP"] == old
    assert told.count(PLAIN) == 1
    assert put_item(new, ITEM, under=None) == new


@pytest.mark.parametrize(
    "text",
    [
        "models: [{name: a}]\n",
        "models: &all\n  - name: a\n",
        "models:\n  [{name: a}]\n",
        "models:\n  <<: *x\n",
        "models:\n  - name: a\nmodels:\n  - name: b\n",
        "{models: []}\n",
        "- name: a\n",
        "a: 1\n---\nb: 2\n",
        "models:\n\t- name: a\n",
        "a: 1\r\nb: 2\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    with pytest.raises(CannotMerge):
        put_item(text, ITEM, under="models")


AIDER = """\
## aider
model: gpt-4o  # for now
#openai-api-base: xxx
dark-mode: true
lint-cmd:
  - "python: flake8"
openai-api-key: 'a # b'
"""


def test_keys_at_the_top() -> None:
    fields = {"openai-api-base": "http://x/v1", "openai-api-key": "k", "model": "openai/auto"}
    new = set_keys(AIDER, fields)
    assert yaml.safe_load(new) == yaml.safe_load(AIDER) | fields
    assert "## aider\n" in new and "  # for now" in new and "#openai-api-base: xxx" in new
    assert set_keys(new, fields) == new


@pytest.mark.parametrize(
    "text",
    [
        "model: |\n  x\n",
        "model: a\nmodel: b\n",
        "- a\n",
        "model:\n  - a\n",
        "model: [a]\n",
        "[a]\n",
    ],
)
def test_keys_that_are_left_alone(text: str) -> None:
    with pytest.raises(CannotMerge):
        set_keys(text, {"model": "openai/auto"})
