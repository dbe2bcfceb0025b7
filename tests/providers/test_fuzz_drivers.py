"""Every driver over lines that no CLI should write: recorded ones, with fields of another kind.

Whatever comes, what a driver makes of it is well-typed and finite, since the engine, the book and
the page trust events. A line that raises is the worker's to catch (ODD); here none may.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from olp.events import Done, Event, Failed, Listed, Quota, Usage, Window
from olp.providers.base import Driver, Exit
from olp.providers.claude.answer import Driver as Claude
from olp.providers.claude.survey import SurveyDriver as ClaudeSurvey
from olp.providers.codex.answer import Driver as Codex
from olp.providers.codex.survey import CatalogueDriver, LimitsDriver
from olp.providers.vibe.answer import Driver as Vibe
from tests.providers.replay import NOW, Recording, names
from tests.providers.test_vibe_session import NAMES as VIBE_SESSIONS
from tests.providers.test_vibe_session import Recording as VibeRecording

LINES = 2000
"""Mutated lines for each recording."""

ODD: list[Any] = [None, True, False, 0, -1, 0.5, 1e300, float("inf"), float("nan"), 10**400, "soon"]
ODD += ["", "\ud83d", [], [1], [[]], {}, {"a": 1}, {"type": 5}, "9" * 400]

MAKERS: dict[str, Callable[[], Driver]] = {
    "claude": lambda: Claude("hi", structured=False, now=NOW),
    "claude, structured": lambda: Claude("hi", structured=True, now=NOW),
    "codex": lambda: Codex("hi", now=NOW),
    "vibe": lambda: Vibe("hi", "m", now=NOW),
}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value, as its container and the key in it."""
    inner = list(value.items()) if isinstance(value, dict) else []
    inner += list(enumerate(value)) if isinstance(value, list) else []
    for key, one in inner:
        yield value, key
        yield from places(one)


def mutated(line: str, rng: random.Random) -> str:
    message = json.loads(line)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if found := list(places(message)):
            container, key = rng.choice(found)
            container[key] = copy.deepcopy(rng.choice(ODD))
    return json.dumps(message)


def check(event: Event) -> None:
    """Its fields are of their kind and finite."""
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, float):
            assert math.isfinite(value), event
    if isinstance(event, Usage):
        counts = (event.input, event.output, event.cached, event.cache_written, event.reasoning)
        assert all(type(n) is int and 0 <= n < 10**14 for n in counts), event
        assert event.cost is None or type(event.cost) is float, event
    if isinstance(event, Failed):
        assert isinstance(event.detail, str) and isinstance(event.status, int | None), event
        assert isinstance(event.resets_at, float | int | None), event
    if isinstance(event, Quota):
        assert all(isinstance(window, Window) for window in event.windows)
        for window in event.windows:
            assert type(window.name) is str and math.isfinite(window.used), event
            assert window.resets_at is None or math.isfinite(window.resets_at), event
    texts = [getattr(event, name, "") for name in ("text", "id", "name")]
    assert all(isinstance(one, str) for one in texts), event
    assert isinstance(getattr(event, "model", None), str | None), event


@pytest.mark.parametrize(
    ("maker", "name"),
    [(maker, name) for maker in MAKERS for name in names(maker.partition(",")[0])],
)
def test_whatever_a_cli_writes_events_are_well_typed(maker: str, name: str) -> None:
    lines = Recording.load(maker.partition(",")[0], name).lines
    rng = random.Random(f"{maker} {name}")
    spent = 0
    while lines and spent < LINES:
        driver = MAKERS[maker]()
        for line in lines:
            spent += 1
            changed = mutated(line, rng) if rng.random() < 0.5 else line
            steps = list(driver.receive(changed))
            for step in steps:
                if isinstance(step, Event):
                    check(step)
            if any(isinstance(step, Done | Failed) for step in steps):
                break
        else:
            for event in driver.exited(Exit(rng.choice((0, 1, None)), "")):
                check(event)


# --- sessions and surveys ------------------------------------------------------------------------


def twisted(line: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A recorded line with its JSON mutated; what a client brought stays as it was."""
    name = next(iter(line)) if "socket" not in line else "line"
    if "results" in line or rng.random() < 0.5:
        return line
    return {**line, name: mutated(line[name], rng)}


@pytest.mark.parametrize("name", VIBE_SESSIONS)
def test_whatever_a_waiting_vibe_writes_events_are_well_typed(name: str) -> None:
    recorded = VibeRecording.load(name)
    rng = random.Random(name)
    spent = 0
    while recorded.lines and spent < LINES:
        spent += len(recorded.lines)
        recorded.play([twisted(line, rng) for line in recorded.lines])
        for step in recorded.steps:
            if isinstance(step, Event):
                check(step)


WINDOW = {"utilization": 12.5, "resets_at": "2026-12-01T05:00:00Z"}
SCOPED = {"kind": "weekly", "percent": 40, "scope": {"model": {"display_name": "Opus"}}}
MODELS = [{"value": "sonnet", "resolvedModel": "claude-sonnet-5-5"}, {"value": "default"}]
SURVEYS: dict[str, tuple[Callable[[], Driver], list[Any]]] = {
    "claude": (
        ClaudeSurvey,
        [
            {
                "type": "control_response",
                "response": {"request_id": id, "subtype": "success", "response": response},
            }
            for id, response in (
                ("olp-initialize", {"models": MODELS}),
                ("olp-usage", {"rate_limits": {"five_hour": WINDOW, "limits": [SCOPED]}}),
            )
        ],
    ),
    "codex limits": (
        lambda: LimitsDriver("1"),
        [
            {"id": 1, "result": {}},
            {
                "id": 2,
                "result": {
                    "rateLimits": {
                        "primary": {
                            "usedPercent": 30,
                            "windowDurationMins": 300,
                            "resetsAt": 1_796_000_000,
                        },
                        "individualLimit": {"remainingPercent": 70},
                    }
                },
            },
        ],
    ),
    "codex catalogue": (
        CatalogueDriver,
        [
            {
                "models": [
                    {
                        "slug": "gpt",
                        "visibility": "list",
                        "priority": 1,
                        "context_window": 272_000,
                        "max_context_window": 400_000,
                    }
                ]
            }
        ],
    ),
}


@pytest.mark.parametrize("name", SURVEYS)
def test_whatever_a_cli_says_of_itself_is_well_typed(name: str) -> None:
    make, lines = SURVEYS[name]
    rng = random.Random(name)
    for _ in range(LINES // len(lines)):
        driver = make()
        driver.start()
        steps = [step for line in lines for step in driver.receive(mutated(json.dumps(line), rng))]
        for step in (*steps, *driver.exited(Exit(0, ""))):
            if isinstance(step, Event):
                check(step)
            if isinstance(step, Listed):
                assert all(type(name) is str for name in step.models), step
                assert all(type(n) is int and n > 0 for _, n in step.contexts), step


def test_the_surveys_above_are_understood() -> None:
    """Else their mutations would prove nothing."""
    for make, lines in SURVEYS.values():
        driver = make()
        steps = [step for line in lines for step in driver.receive(json.dumps(line))]
        steps += driver.exited(Exit(0, ""))
        assert any(isinstance(step, Quota | Listed) for step in steps)
