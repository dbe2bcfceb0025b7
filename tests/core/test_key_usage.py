"""Limits: what is within them, what is over, and when it resets."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime

import pytest

from olp.core.keys.key import Key
from olp.core.keys.key_usage import KEPT_DAYS, DayUsage, KeyUsage
from olp.errors import RequestError
from tests.core.test_keys import key

NOON = datetime(2027, 1, 15, 12, 0)
DAY = "2027-01-15"


def ask(usage: KeyUsage, one: Key | None, local: datetime = NOON, person: str = "p") -> str:
    """Ask once, and leave; what came of it."""
    try:
        with usage.enter(person, one, local, background=False):
            return "in"
    except RequestError as error:
        told = dict(error.headers)
        assert told["x-should-retry"] == "false"
        return f"{error.status} {error.code} {told['Retry-After']} {error.message}"


def test_without_a_limit_everything_is_counted_and_nothing_refused() -> None:
    usage = KeyUsage()
    for one in (None, key()):
        assert {ask(usage, one) for _ in range(100)} == {"in"}
    assert usage.count(DAY, "p") == DayUsage(200, 0, 0)
    assert usage.count("2027-01-14", "p") == DayUsage()


def test_the_requests_of_a_day() -> None:
    usage, one = KeyUsage(), key(daily_requests=3)
    told = [ask(usage, one) for _ in range(5)]
    assert told[:3] == ["in"] * 3
    assert told[3].startswith("429 insufficient_quota 43200 This key's 3 requests of today")
    assert "in 12 h 00 min" in told[4]
    assert usage.count(DAY, "p").requests == 3, "what is refused is not counted"
    assert ask(usage, one, person="other") == "in"
    assert ask(usage, one, datetime(2027, 1, 16, 0, 0)) == "in"


def test_the_tokens_of_a_day() -> None:
    usage, one = KeyUsage(), key(daily_tokens=100)
    usage.spend(DAY, "p", 99)
    assert ask(usage, one) == "in"
    usage.spend(DAY, "p", 500)
    assert ask(usage, one).startswith("429 insufficient_quota 43200 This key's 100 tokens")
    assert "599 used" in ask(usage, one)


def test_M5_what_answers_are_likely_to_cost_is_set_aside_until_they_are_charged_for() -> None:
    usage, one = KeyUsage(), key(daily_tokens=100)
    first = usage.enter("p", one, NOON, background=False, tokens=60)
    second = usage.enter("p", one, NOON, background=False, tokens=60)
    assert usage.aside("p") == 120, "the one that crosses the line is let in, as ever"
    told = ask(usage, one)
    assert told.startswith(
        "429 insufficient_quota 2 What is left of this key's 100 tokens of today"
    )
    assert ask(usage, one, person="other") == "in"
    with first:
        first.settle()
        usage.spend(DAY, "p", 5)
        assert ask(usage, one) == "in", "60 are set aside, and 5 are used"
    with second:
        pass
    assert usage.aside("p") == 0
    usage.spend(DAY, "p", 95)
    assert ask(usage, one).startswith("429 insufficient_quota 43200 This key's 100 tokens")


def test_M5_what_is_set_aside_is_settled_once_and_by_the_answer_it_was_handed_to() -> None:
    usage = KeyUsage()
    with usage.enter("p", None, NOON, background=False, tokens=7) as entry:
        entry.hand_over()
    assert (usage.aside("p"), usage.in_air("p")) == (7, 0), "the client left, the CLI is ending"
    entry.settle()
    entry.settle()
    assert usage.aside("p") == 0


def test_M5_a_budget_smaller_than_any_answer_serves_one_at_a_time() -> None:
    usage, one = KeyUsage(), key(daily_tokens=20)
    with usage.enter("p", one, NOON, background=False, tokens=1001):
        assert ask(usage, one).startswith("429 insufficient_quota 2 ")
    assert ask(usage, one) == "in"


def test_requests_at_one_time() -> None:
    usage, one = KeyUsage(), key(concurrent=2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(usage.enter("p", one, NOON, background=False))
        assert ask(usage, one).startswith("429 insufficient_quota 2 This key may have 2 requests")
        assert ask(usage, one, person="other") == "in"
    assert usage.in_air("p") == 0
    assert ask(usage, one) == "in"


def test_hours() -> None:
    usage, one = KeyUsage(), key(hours="22:00-06:00")
    told = ask(usage, one)
    assert told.startswith("403 outside_hours 36000 This key may be used from 22:00 to 06:00")
    assert "it is 12:00 now. It opens again in 10 h 00 min" in told
    assert ask(usage, one, datetime(2027, 1, 15, 23, 0)) == "in"
    assert ask(usage, one, datetime(2027, 1, 15, 3, 0)) == "in"


def test_background_jobs_are_counted_with_the_rest_and_apart() -> None:
    usage = KeyUsage()
    for background in (True, False, True):
        with usage.enter("p", None, NOON, background=background):
            pass
    assert usage.count(DAY, "p") == DayUsage(3, 0, 2)


def test_what_was_counted_before_a_restart_counts() -> None:
    usage, one = KeyUsage(), key(daily_requests=3)
    usage.begin(DAY, {"p": DayUsage(2, 0, 0)})
    assert [ask(usage, one)[:3] for _ in range(2)] == ["in", "429"]


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    usage, one = KeyUsage(), key(daily_requests=1)
    after = datetime(2027, 1, 16, 0, 5)
    assert [ask(usage, one, when)[:3] for when in (NOON, after)] == ["in", "in"]
    assert [ask(usage, one, when)[:3] for when in (NOON, after)] == ["429", "429"]


def test_days_are_forgotten() -> None:
    usage = KeyUsage()
    for day in range(1, 20):
        usage.begin(f"2027-01-{day:02}", {})
    assert [usage.knows(f"2027-01-{day:02}") for day in (19 - KEPT_DAYS, 19)] == [False, True]


@pytest.mark.parametrize(
    ("zone", "day", "seconds"),
    [
        ("Europe/Berlin", datetime(2027, 3, 28, 0, 0), 23 * 3600),
        ("Europe/Berlin", datetime(2027, 10, 31, 0, 0), 25 * 3600),
        ("UTC", datetime(2027, 3, 28, 0, 0), 24 * 3600),
    ],
)
def test_a_day_is_as_long_as_the_local_day(
    monkeypatch: pytest.MonkeyPatch, zone: str, day: datetime, seconds: int
) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        usage, one = KeyUsage(), key(daily_requests=1)
        ask(usage, one, day)
        assert ask(usage, one, day).startswith(f"429 insufficient_quota {seconds} ")
    finally:
        monkeypatch.undo()
        time.tzset()
