"""Kept answers: only whole ones, not for long, and not too many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.config import CacheConfig
from olp.core.answer.cache import EVENT_BYTES, Cache
from olp.events import Done, ErrorCode, Event, Failed, Finish, Quota, Reasoning, Text, Usage

WHOLE: tuple[Event, ...] = (Text("hello"), Usage(1, 1), Done())


def cache(ttl_s: float = 60, max_entries: int = 3, max_bytes: int = 10_000) -> Cache:
    return Cache(CacheConfig(ttl_s=ttl_s, max_entries=max_entries, max_bytes=max_bytes))


def full(*keys: str, size: int = 3) -> Cache:
    new = cache(max_entries=size)
    for key in keys:
        assert new.keep(key, "m", WHOLE, 0)
    return new


def keys(cache: Cache, asked: str, now: float = 0) -> str:
    return "".join(key for key in asked if cache.find(key, now))


# --- H2 ------------------------------------------------------------------------------------------


def test_H2_it_is_off_by_default_and_keeps_nothing() -> None:
    new = Cache(CacheConfig())
    assert not new.on
    assert not new.keep("a", "m", WHOLE, 0)
    assert new.find("a", 0) is None and len(new) == 0


def test_H2_what_was_kept_is_found_under_its_key_alone() -> None:
    new = full("a")
    kept = new.find("a", 0)
    assert kept is not None
    assert (kept.model, kept.events) == ("m", WHOLE)
    assert new.find("b", 0) is None


@pytest.mark.parametrize(("now", "there"), [(0, True), (59.9, True), (60, False), (1e9, False)])
def test_H2_it_is_kept_for_the_time_to_live(now: float, there: bool) -> None:
    new = full("a")
    assert (new.find("a", now) is not None) == there
    if not there:
        assert (len(new), new.size) == (0, 0), "what is too old takes no room"


def test_H2_being_found_does_not_make_it_live_longer() -> None:
    new = full("a")
    assert new.find("a", 59) and new.find("a", 60) is None


def test_H2_the_least_recently_used_goes_first() -> None:
    new = full("a", "b", "c")
    new.find("a", 0)
    new.keep("d", "m", WHOLE, 0)
    assert keys(new, "abcd") == "acd"
    new.keep("e", "m", WHOLE, 0)
    assert keys(new, "abcde") == "cde"


def test_H2_it_goes_by_bytes_too() -> None:
    size = 5 + 3 * EVENT_BYTES
    new = cache(max_entries=100, max_bytes=2 * size)
    for key in "abc":
        new.keep(key, "m", WHOLE, 0)
    assert keys(new, "abc") == "bc" and new.size == 2 * size
    large = (Text("x" * size), Done())
    new.keep("d", "m", large, 0)
    assert keys(new, "bcd") == "d"


def test_H2_an_answer_that_is_too_large_pushes_nobody_out() -> None:
    new = cache(max_bytes=1000)
    new.keep("a", "m", WHOLE, 0)
    assert not new.keep("b", "m", (Text("x" * 1000), Done()), 0)
    assert keys(new, "ab") == "a"


def test_H2_bytes_are_those_of_the_text_and_many_events_are_not_free() -> None:
    new = cache(max_bytes=10**6)
    new.keep("a", "m", (Text("äöü"), Reasoning("日本"), Done()), 0)
    assert new.size == 6 + 6 + 3 * EVENT_BYTES
    assert not cache(max_bytes=10_000).keep("b", "m", (*[Text("")] * 1000, Done()), 0)


def test_H2_a_newer_answer_takes_the_place_of_an_older_one() -> None:
    new = full("a")
    new.keep("a", "m2", (Text("other"), Done()), 30)
    kept = new.find("a", 80)
    assert kept is not None and kept.model == "m2"
    assert len(new) == 1 and new.size == 5 + 2 * EVENT_BYTES


STEPS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 400), st.booleans()))


@given(STEPS, st.integers(1, 4), st.integers(200, 900))
def test_H2_it_never_holds_more_than_it_may(
    steps: list[tuple[str, int, bool]], entries: int, room: int
) -> None:
    new = cache(ttl_s=5, max_entries=entries, max_bytes=room)
    for now, (key, length, keep) in enumerate(steps):
        if keep:
            new.keep(key, "m", (Text("x" * length), Done()), now)
        else:
            new.find(key, now)
        sizes = [kept.size for kept in new._kept.values()]
        assert len(new) <= entries and sum(sizes) == new.size <= room


# --- H3 ------------------------------------------------------------------------------------------


BROKEN: dict[str, Sequence[Event]] = {
    "nothing": (),
    "no end": (Text("a"),),
    "a failure": (Text("a"), Failed(ErrorCode.OVERLOADED, "no")),
    "a failure before the end": (Failed(ErrorCode.OVERLOADED, "no"), Done()),
    "a salvage": (Text("a"), Done(Finish.LENGTH, truncated=True)),
    "a truncation that says stop": (Text("a"), Done(Finish.STOP, truncated=True)),
    "cut at a limit": (Text("a"), Done(Finish.LENGTH)),
    "refused content": (Text("a"), Done(Finish.CONTENT_FILTER)),
    "something after the end": (Done(), Usage(1, 1)),
}


@pytest.mark.parametrize("events", BROKEN)
def test_H3_only_a_complete_answer_is_kept(events: str) -> None:
    new = cache()
    assert not new.keep("a", "m", BROKEN[events], 0)
    assert new.find("a", 0) is None


@pytest.mark.parametrize("events", [WHOLE, (Done(),), (Quota(()), Reasoning("hm"), *WHOLE)])
def test_H3_a_complete_answer_is_kept_as_it_was(events: Sequence[Event]) -> None:
    new = cache()
    assert new.keep("a", "m", events, 0)
    kept = new.find("a", 0)
    assert kept is not None and kept.events == tuple(events)
