"""The log: what is told once, what is counted, and what is never written."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from olp.runtime.log import KINDS, QUIET_S, Libraries, Log


class Clock:
    """A wall clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The time."""
    return Clock()


@pytest.fixture
def text() -> io.StringIO:
    """What was written."""
    return io.StringIO()


@pytest.fixture
def log(text: io.StringIO, clock: Clock) -> Log:
    """A log of everything."""
    return Log(text, level="debug", wall=clock)


@pytest.fixture
def library(log: Log) -> Iterator[logging.Logger]:
    """A library's logger, whose warnings end up in the log."""
    logger = logging.getLogger("tests.library")
    handler = Libraries(log)
    logger.addHandler(handler)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)


def lines(text: io.StringIO) -> list[dict[str, Any]]:
    """What was written, read."""
    return [json.loads(line) for line in text.getvalue().splitlines()]


def test_L1_a_kind_of_warning_is_told_once_a_minute_with_its_count(
    log: Log, text: io.StringIO, clock: Clock
) -> None:
    for number in range(443):
        log.warn("library", told="out of system resource", fd=number)
    assert [line["fd"] for line in lines(text)] == [0]
    clock.now += QUIET_S
    log.warn("library", told="out of system resource", fd=443)
    assert [(line["fd"], line.get("times")) for line in lines(text)] == [(0, None), (442, 442)]
    clock.now += QUIET_S
    log.info("something else")
    assert [(line["event"], line.get("times")) for line in lines(text)[2:]] == [
        ("library", 1),
        ("something else", None),
    ]


def test_L1_a_count_is_told_at_the_end(log: Log, text: io.StringIO) -> None:
    for _ in range(3):
        log.error("task_failed", task="survey")
    log.close()
    log.close()
    assert [line.get("times") for line in lines(text)] == [None, 2]


def test_L1_kinds_are_told_apart_by_what_they_say_and_not_by_who_caused_them(
    log: Log, text: io.StringIO
) -> None:
    for number in range(50):
        log.warn("key_refused", reason="invalid_api_key", remote=f"10.0.0.{number}")
        log.warn("key_refused", reason="expired", remote=f"10.0.0.{number}")
        log.error("unexpected", request_id=f"r{number}", error="KeyError in f (a.py:1)")
    assert [line.get("reason") for line in lines(text)] == ["invalid_api_key", "expired", None]


def test_L1_the_story_of_a_request_is_told_whole(log: Log, text: io.StringIO) -> None:
    for number in range(20):
        log.bind(request_id=f"r{number}").warn("fallback_hop_error", provider="claude")
    assert [line["request_id"] for line in lines(text)] == [f"r{n}" for n in range(20)]


def test_L1_a_bound_log_counts_together_with_the_one_it_came_from(
    log: Log, text: io.StringIO
) -> None:
    for _ in range(5):
        log.bind(part="pool").warn("slow")
        log.warn("slow")
    assert [line.get("part") for line in lines(text)] == ["pool", None]


def test_L1_a_clock_that_is_set_back_silences_nothing(
    log: Log, text: io.StringIO, clock: Clock
) -> None:
    log.warn("slow")
    clock.now -= 86_400
    log.warn("slow")
    assert len(lines(text)) == 2


def test_L1_no_number_of_kinds_fills_the_memory(log: Log, text: io.StringIO) -> None:
    for number in range(KINDS * 3):
        log.warn("odd", told=str(number))
    assert len(log._repeats._known) == KINDS
    assert len(lines(text)) == KINDS * 3


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("Error handling request from %s", "Error handling request from …"),
        ("%(name)s took %5.1f ms of %d, 100%% in all", "… took … ms of …, 100% in all"),
        (
            "socket.accept() out of system resource\nsocket: x",
            "socket.accept() out of system resource",
        ),
    ],
)
def test_L3_a_librarys_words_are_written_without_what_was_put_in(
    log: Log, text: io.StringIO, template: str, told: str
) -> None:
    try:
        raise ValueError("the prompt")
    except ValueError:
        why = sys.exc_info()
    store = logging.LogRecord("aiohttp.server", 40, "x.py", 1, template, ("the prompt",), why)
    Libraries(log).emit(store)
    (line,) = lines(text)
    assert line["told"] == told
    assert line["error"].startswith("ValueError in test_L3_a_librarys_words")
    assert "the prompt" not in text.getvalue()


def test_L1_a_librarys_warning_comes_once(library: logging.Logger, text: io.StringIO) -> None:
    for number in range(100):
        library.warning("Error handling request from %s", number)
    assert len(lines(text)) == 1
