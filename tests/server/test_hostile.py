"""What a client of the house could do with one request to stop it for everybody else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any

import pytest

from olp.dialects.schemas import schema_problem
from olp.formats import conform
from olp.model import JsonFormat, Message, Role
from olp.providers.shared.transcript import transcript
from tests.conftest import OpenHouse
from tests.fakes.plan import says
from tests.support import ask

SOON_S = 5.0
"""Seconds; each of these took minutes or had no end, and takes at most about one now."""

DRAFT = "https://json-schema.org/draft/2020-12/schema"
EVIL = "^(a+)+$"
LONG = "a" * 40 + "b"


def short(value: Any) -> str:
    return repr(value)[:20]


def objects(count: int) -> list[Any]:
    return [{"a": n} for n in range(count)]


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"pattern": "^(a|a)*$"}, LONG),
        ({"patternProperties": {EVIL: {}}, "additionalProperties": False}, {LONG: 1}),
        ({"patternProperties": {EVIL: {}}, "unevaluatedProperties": False}, {LONG: 1}),
        ({"allOf": [{"$schema": DRAFT, "pattern": EVIL}]}, LONG),
        ({"uniqueItems": True}, objects(20_000)),
        ({"pattern": "(" * 30 + "a" + "){1,9}" * 30}, LONG),
        ({"pattern": "(" * 30 + "a" + ")+" * 30}, LONG),
        ({"pattern": "((((a){99}){99}){99}){99}"}, LONG),
        ({"pattern": "(?x)" + "(" * 30 + "a" + ") #\n{9}" * 30}, LONG),
        ({"allOf": [{"enum": objects(2000)}] * 2000}, {"a": -1}),
    ],
    ids=short,
)
def test_N4_no_schema_makes_the_check_of_an_answer_last(schema: Any, answer: Any) -> None:
    began = time.monotonic()
    conform(json.dumps(answer), JsonFormat(schema))
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{}] * 200_000},
        {
            "$defs": {f"a{n}": {"$anchor": f"x{n}"} for n in range(1500)},
            "allOf": [{"$ref": f"#x{n}"} for n in range(1500)],
        },
        {"enum": [{"$ref": f"#/enum/{n}"} for n in range(200_000)]},
        {"$schema": "http://json-schema.org/draft-04/schema#", "enum": objects(20_000)},
    ],
    ids=short,
)
def test_N4_no_schema_makes_its_own_check_last(schema: Any) -> None:
    began = time.monotonic()
    schema_problem(schema)
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], [{"a": 1}, {"a": 1.0}]),
        ({"uniqueItems": True}, [0, False], [[1, {"a": []}], [1, {"a": []}]]),
        (
            {
                "properties": {"a": {}},
                "patternProperties": {"^x": {}},
                "additionalProperties": False,
            },
            {"a": 1, "x1": 2},
            {"b": 1},
        ),
        ({"additionalProperties": {"type": "string"}}, {"b": "1"}, {"b": 1}),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"pattern": r"^\d{4}-(\d{2}){2}$"}, "2026-1130", "2026"),
    ],
    ids=short,
)
def test_N1_our_own_rules_are_those_of_json_schema(schema: Any, good: Any, bad: Any) -> None:
    assert schema_problem(schema) is None
    assert conform(json.dumps(good), JsonFormat(schema))[1] is None
    assert "breaks the schema" in str(conform(json.dumps(bad), JsonFormat(schema))[1])


def test_M7_tags_that_were_foreseen_do_not_make_a_conversation_last() -> None:
    tags = (hashlib.sha256(f"{n}:user:hi".encode()).hexdigest()[:8] for n in range(300_000))
    turns = [Message(Role.USER, "hi"), Message(Role.USER, " ".join(f"turn-{t}" for t in tags))]
    began = time.monotonic()
    text = transcript(turns)
    assert time.monotonic() - began < SOON_S
    tag = text.partition("between <")[2].partition(">")[0]
    assert not any(tag in turn.text for turn in turns)


async def test_N4_others_are_served_while_a_schema_is_checked(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    schema: dict[str, Any] = {"allOf": [{}] * 100_000}
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    asking = asyncio.ensure_future(house.chat(ask(response_format=wanted)))
    slowest = 0.0
    while not asking.done():
        began = time.monotonic()
        await asyncio.sleep(0.01)
        slowest = max(slowest, time.monotonic() - began)
    assert (await asking).status == 400
    assert slowest < 0.5
