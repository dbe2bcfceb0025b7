"""The quota book: what fires, what is too old to, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from olp.config import Thresholds
from olp.core.admission.quota import (
    CREDITS,
    FIVE_HOURS,
    SOURCES,
    UNTOLD_RESET_S,
    QuotaBook,
    Reading,
    watches_windows,
    without_source,
)
from olp.events import ErrorCode, Failed, Window

WALL = 1_800_000_000.0
DAY, NEXT_DAY = "2027-01-15", "2027-01-16"


def limits(five: float | None = None, credit: float | None = None, daily: int | None = None) -> Any:
    return Thresholds(
        five_hour_window_percent_threshold=five,
        credit_pool_percent_threshold=credit,
        daily_request_count_threshold=daily,
    )


def book(*windows: Window, wall: float = WALL) -> QuotaBook:
    new = QuotaBook()
    new.note("claude", windows, wall, "answer")
    return new


def five(used: float, resets_in: float | None = 3600, model: str | None = None) -> Window:
    return Window(FIVE_HOURS, used, None if resets_in is None else WALL + resets_in, model)


def credits(used: float, resets_in: float | None = None) -> Window:
    return Window(CREDITS, used, None if resets_in is None else WALL + resets_in)


def fired(book: QuotaBook, threshold: Thresholds, wall: float = WALL) -> Failed | None:
    return book.fired("claude", threshold, wall, DAY)


# --- E1 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "fires"), [(0.0, False), (89.9, False), (90.0, True), (91.0, True), (250.0, True)]
)
@pytest.mark.parametrize("window", [FIVE_HOURS, CREDITS])
def test_E1_a_percentage_fires_from_its_threshold_on(window: str, used: float, fires: bool) -> None:
    one = book(Window(window, used, WALL + 60))
    threshold = limits(five=90) if window == FIVE_HOURS else limits(credit=90)
    end = fired(one, threshold)
    assert (end is not None) == fires
    if end is not None:
        assert end.code is ErrorCode.SOFT_TRIGGER
        assert end.resets_at == WALL + 60
        assert window in end.detail and "threshold 90 %" in end.detail


@pytest.mark.parametrize(("made", "fires"), [(0, False), (4, False), (5, True), (6, True)])
def test_E1_the_requests_of_the_day_fire_from_their_threshold_on(made: int, fires: bool) -> None:
    one = QuotaBook()
    for _ in range(made):
        one.count("claude", DAY)
    end = fired(one, limits(daily=5))
    assert (end is not None) == fires
    if end is not None:
        assert end.detail == f"{made} requests today, threshold 5"


def test_E1_no_threshold_never_fires() -> None:
    one = book(five(100), credits(100))
    one.count("claude", DAY, 10**6)
    assert fired(one, Thresholds()) is None


def test_E1_any_of_several_thresholds_fires() -> None:
    every = limits(five=90, credit=50, daily=3)
    assert fired(book(five(10), credits(10)), every) is None
    assert fired(book(five(10), credits(60)), every)
    one = book(five(10), credits(10))
    one.count("claude", DAY, 3)
    assert fired(one, every)


@pytest.mark.parametrize("name", ["seven_day", "5_hour", "300_minutes"])
def test_E1_another_window_is_not_looked_at(name: str) -> None:
    assert fired(book(Window(name, 100, WALL + 60)), limits(five=1, credit=1)) is None


def test_E1_a_models_window_is_not_the_plans() -> None:
    assert fired(book(five(100, model="opus")), limits(five=1)) is None


def test_E1_another_providers_reading_says_nothing() -> None:
    one = book(five(100))
    one.count("codex", DAY, 100)
    assert one.fired("codex", limits(five=1), WALL, DAY) is None
    assert one.fired("claude", limits(daily=1), WALL, DAY) is None


# --- E2: stale, missing, kept, counted -----------------------------------------------------------


def test_E2_a_missing_value_never_fires() -> None:
    assert fired(QuotaBook(), limits(five=0.1, credit=0.1, daily=1)) is None


@pytest.mark.parametrize(("later", "fires"), [(0.0, True), (3599.0, True), (3600.0, False)])
def test_E2_a_reading_is_stale_when_its_window_has_reset(later: float, fires: bool) -> None:
    assert (fired(book(five(95, 3600)), limits(five=90), WALL + later) is not None) == fires


@pytest.mark.parametrize("later", [0.0, UNTOLD_RESET_S - 1, UNTOLD_RESET_S, 1e7])
def test_E2_a_reading_without_a_reset_is_stale_after_an_hour(later: float) -> None:
    one = book(credits(95))
    assert (fired(one, limits(credit=90), WALL + later) is not None) == (later < UNTOLD_RESET_S)


@pytest.mark.parametrize("used", [float("nan"), -1.0])
def test_E2_a_value_that_is_none_never_fires(used: float) -> None:
    assert fired(book(five(used)), limits(five=0.1)) is None


def test_E2_windows_that_a_reading_does_not_mention_keep_what_is_known() -> None:
    one = book(five(95), credits(20), five(10, model="opus"))
    one.note("claude", [five(96, 7200)], WALL + 10, "survey")
    known = {(r.window.name, r.window.model): r for r in one.readings("claude")}
    assert known[FIVE_HOURS, None] == Reading(five(96, 7200), WALL + 10, "survey")
    assert known[CREDITS, None] == Reading(credits(20), WALL, "answer")
    assert known[FIVE_HOURS, "opus"] == Reading(five(10, model="opus"), WALL, "answer")
    one.note("claude", [], WALL + 20, "survey")
    assert len(list(one.readings("claude"))) == 3


def test_E2_a_newer_value_replaces_an_older_one_lower_ones_too() -> None:
    one = book(five(95))
    one.note("claude", [five(3, 18000)], WALL + 60, "answer")
    assert fired(one, limits(five=90)) is None


def test_E2_a_reading_tells_its_source_and_its_age_even_when_stale() -> None:
    one = book(five(95, 10))
    [reading] = one.readings("claude")
    assert (reading.source, reading.at) == ("answer", WALL)
    assert reading.fresh(WALL + 9) and not reading.fresh(WALL + 10)
    assert list(one.readings("codex")) == []


def test_E2_a_new_day_begins_at_nothing() -> None:
    one = QuotaBook()
    one.count("claude", DAY, 7)
    assert one.requests("claude", DAY) == 7
    assert one.requests("claude", NEXT_DAY) == 0
    assert one.fired("claude", limits(daily=7), WALL, NEXT_DAY) is None
    one.count("claude", NEXT_DAY)
    assert (one.requests("claude", NEXT_DAY), one.requests("claude", DAY)) == (1, 0)
    assert one.requests("codex", DAY) == 0


def test_E2_counts_of_before_a_restart_are_added_to() -> None:
    one = QuotaBook()
    one.count("claude", DAY, 41)
    one.count("claude", DAY)
    assert one.requests("claude", DAY) == 42


# --- E3 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "windows", "blind"),
    [
        (limits(five=90), (), ("five_hour_window_percent_threshold",)),
        (limits(five=90, credit=50), (FIVE_HOURS,), ("credit_pool_percent_threshold",)),
        (limits(five=90, credit=50), (FIVE_HOURS, CREDITS, "seven_day"), ()),
        (limits(daily=5), (), ()),
        (limits(), (), ()),
    ],
)
def test_E3_a_threshold_that_can_never_fire_is_found(
    threshold: Thresholds, windows: tuple[str, ...], blind: tuple[str, ...]
) -> None:
    assert without_source(threshold, windows) == blind


def test_E3_every_threshold_has_a_source_or_is_olps_own_count() -> None:
    assert {*SOURCES, "daily_request_count_threshold"} == set(Thresholds.__struct_fields__)


@pytest.mark.parametrize(
    ("threshold", "watched"),
    [(limits(five=1), True), (limits(credit=1), True), (limits(daily=1), False)],
)
def test_E2_a_plan_is_asked_again_where_a_threshold_looks_at_it(
    threshold: Thresholds, watched: bool
) -> None:
    assert watches_windows(threshold) == watched
