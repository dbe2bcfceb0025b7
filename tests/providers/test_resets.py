"""When a limit resets, read from the words of vendors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.core.days import LOCAL
from olp.providers.shared.notices import reset_time
from olp.providers.shared.resets import LONGEST_S

HOME = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=HOME)
"""A Monday, at noon."""

NEW_YORK, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")


def at(month: int, day: int, hour: int, minute: int = 0, year: int = 2026) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=HOME)


def utc(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


def later(**span: float) -> datetime:
    return NOW + timedelta(**span)


WORDS: dict[str, datetime] = {
    # A time of day: the next one, but for one that is just past.
    "resets 3:45pm": at(11, 30, 15, 45),
    "resets at 3:45 PM": at(11, 30, 15, 45),
    "Your limit will reset at 3pm": at(11, 30, 15),
    "resets 3pm": at(11, 30, 15),
    "resets 3 p.m.": at(11, 30, 15),
    "resets 11am": at(12, 1, 11),
    "resets 11:01am": NOW,
    "resets 11:59am": NOW,
    "resets 12:00pm": NOW,
    "resets 12:01pm": at(11, 30, 12, 1),
    "resets 12am": at(12, 1, 0),
    "resets at noon": NOW,
    "resets at midnight": at(12, 1, 0),
    "resets 15:45": at(11, 30, 15, 45),
    "resets at 09:30": at(12, 1, 9, 30),
    "try again at 17:05:30.": at(11, 30, 17, 5),
    "resets tomorrow at 9am": at(12, 1, 9),
    "resets 3pm tomorrow": at(12, 1, 15),
    "available again at 16:00": at(11, 30, 16),
    # A weekday.
    "resets Mon 12:00am": at(12, 7, 0),
    "resets Mon 3pm": at(11, 30, 15),
    "resets Mon 11:30am": NOW,
    "resets Tuesday, 1am": at(12, 1, 1),
    "resets Sun 11:59pm": at(12, 6, 23, 59),
    "resets on Wednesday": at(12, 2, 0),
    "resets Thurs 08:15": at(12, 3, 8, 15),
    # A date.
    "resets Dec 5 at 3pm": at(12, 5, 15),
    "resets Dec 5": at(12, 5, 0),
    "resets 5 Dec 2026 15:00": at(12, 5, 15),
    "resets Dec 29, 9am": at(12, 29, 9),
    "or try again at Dec 5th, 2026 3:45 PM.": at(12, 5, 15, 45),
    "resets Nov 30, 9pm": at(11, 30, 21),
    "resets Nov 30, 11:58am": NOW,
    "resets Nov 28, 9pm": NOW,
    "resets Jan 2, 9am": later(days=31),
    "resets Jun 5": NOW,
    "try again at Sep 5th, 2026 3:45 PM": NOW,
    "try again at Jan 1st, 2030 12:00 AM": later(days=31),
    # A zone.
    "resets 8pm (Europe/Berlin)": at(11, 30, 20),
    "resets 6:53am (UTC)": utc(12, 1, 6, 53),
    "resets 11:30am (UTC)": utc(11, 30, 11, 30),
    "resets 15:30 UTC": utc(11, 30, 15, 30),
    "resets 8pm (America/New_York)": datetime(2026, 11, 30, 20, tzinfo=NEW_YORK),
    "Your limit will reset at 3pm (America/Santiago).": utc(11, 30, 18),
    "resets 8pm (Etc/GMT+5)": utc(12, 1, 1),
    "resets 8pm (GMT+2)": utc(11, 30, 18),
    "resets 8pm GMT-3": utc(11, 30, 23),
    "resets 8pm UTC+05:30": utc(11, 30, 14, 30),
    "resets 3pm PST": utc(11, 30, 23),
    "resets 3pm (EST)": utc(11, 30, 20),
    "resets 3pm PT": utc(11, 30, 23),
    "resets 8pm CET": at(11, 30, 20),
    "resets Dec 1, 9:00pm (UTC)": utc(12, 1, 21),
    "resets 3pm to the full limit": at(11, 30, 15),
    "resets 3pm (see /usage)": at(11, 30, 15),
    # ISO.
    "spend limit reached (daily; resets 2026-12-01)": at(12, 1, 0),
    "resets at 2026-12-01T15:30:00Z": utc(12, 1, 15, 30),
    "resets at 2026-12-01T15:30:00.123+02:00": utc(12, 1, 13, 30),
    "try again after 2026-12-01 15:30 UTC": utc(12, 1, 15, 30),
    '{"resets_at": "2026-12-01T15:30:00Z"}': utc(12, 1, 15, 30),
    "resets 2026-12-01 08:15": at(12, 1, 8, 15),
    # A span.
    "or try again in 3 days 6 hours.": later(days=3, hours=6),
    "or try again in 2 days 17 hours 14 minutes.": later(days=2, hours=17, minutes=14),
    "in 1 day": later(days=1),
    "in 45 minutes": later(minutes=45),
    "in 1 hour, 5 minutes": later(hours=1, minutes=5),
    "in 1 hour and 5 minutes": later(hours=1, minutes=5),
    "in 90 seconds": later(seconds=90),
    "Please try again in 11.054s.": later(seconds=11.054),
    "Please try again in 5m30s.": later(minutes=5, seconds=30),
    "Please try again in 1h2m3s": later(hours=1, minutes=2, seconds=3),
    "try again in 250ms": later(milliseconds=250),
    "resets in 2d 3h": later(days=2, hours=3),
    "resets in about 20 mins": later(minutes=20),
    "try again in an hour": later(hours=1),
    "Please wait 20 seconds": later(seconds=20),
    "retry after 30s": later(seconds=30),
    "Retry-After: 30": later(seconds=30),
    '"resets_in_seconds": 1800': later(minutes=30),
    "Sign in to your account or try again in 3 hours": later(hours=3),
    "in 999999999 days": later(days=31),
    # Numbers of a clock.
    "Claude AI usage limit reached|1796040000": datetime.fromtimestamp(1796040000, UTC),
    "Claude AI usage limit reached|1796021589": NOW,
    "Claude AI usage limit reached|9999999999": later(days=31),
    '"resets_at": 1796040000': datetime.fromtimestamp(1796040000, UTC),
}


@pytest.mark.parametrize("text", WORDS)
def test_E5_the_reset_is_read_from_words(text: str) -> None:
    found = reset_time(text, NOW)
    assert found is not None
    assert datetime.fromtimestamp(found, HOME) == WORDS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Try again later.",
        "resets soon",
        "in a while",
        "in a few minutes",
        "resets 8pm (No/Where)",
        "resets 8pm (Europe)",
        "resets 8pm (IST)",
        "resets 8pm CST",
        "resets 8:99pm",
        "resets 13pm",
        "resets 24:30",
        "resets Feb 30 1pm",
        "resets 8pm (GMT+99)",
        "try again at Dec 5th, 0000 3:45 PM",
        "resets at 2026-13-01",
        "in 99999999999 days",
        "|12345",
        "try again, saturated",
        "try another model, such as gpt-5.5-2026-10-01",
        "resets 3",
    ],
)
def test_E5_what_tells_no_time_gives_none(text: str) -> None:
    assert reset_time(text, NOW) is None


@pytest.mark.parametrize("minutes", [2, 30, 59])
@pytest.mark.parametrize("text", ["resets Nov 30, 9:00pm (UTC)", "resets 9:00pm (UTC)"])
def test_E5_just_past_is_now_and_no_year_or_day(text: str, minutes: int) -> None:
    now = datetime(2026, 11, 30, 21, minutes, tzinfo=UTC)
    assert reset_time(text, now) == now.timestamp()


def test_E5_just_past_over_midnight_and_over_the_year() -> None:
    now = datetime(2027, 1, 1, 0, 10, tzinfo=UTC)
    assert reset_time("resets 11:50pm", now) == now.timestamp()
    assert reset_time("resets Dec 31, 11:50pm", now) == now.timestamp()
    eve = datetime(2026, 12, 31, 23, 50, tzinfo=UTC)
    assert reset_time("resets Jan 1, 12:10am", eve) == eve.timestamp() + 20 * 60


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        # The clocks of Berlin go back on 25 October and forward on 28 March 2027, at night.
        (datetime(2026, 10, 24, 20), "resets 8am", datetime(2026, 10, 25, 8)),
        (datetime(2026, 10, 24, 20), "resets Oct 26, 8am", datetime(2026, 10, 26, 8)),
        (datetime(2026, 10, 24, 20), "resets Mon 8am", datetime(2026, 10, 26, 8)),
        (datetime(2027, 3, 27, 20), "resets 8am", datetime(2027, 3, 28, 8)),
        (datetime(2027, 3, 27, 20), "resets Mar 29 08:00", datetime(2027, 3, 29, 8)),
        (datetime(2026, 10, 24, 20), "in 24 hours", datetime(2026, 10, 25, 19)),
        (datetime(2027, 3, 27, 20), "in 24 hours", datetime(2027, 3, 28, 21)),
    ],
)
def test_E5_a_clock_shows_what_was_told_beyond_a_change_of_summer_time(
    berlin: None, now: datetime, text: str, expected: datetime
) -> None:
    for zone in (BERLIN, LOCAL):
        found = reset_time(text, now.replace(tzinfo=zone))
        assert found is not None
        assert datetime.fromtimestamp(found, BERLIN).replace(tzinfo=None) == expected


@pytest.fixture
def berlin() -> Iterator[None]:
    """The system is in Berlin."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def test_the_systems_own_zone_is_as_the_system_says(berlin: None) -> None:
    for month in range(1, 13):
        moment = datetime(2026, month, 15, 12, tzinfo=UTC)
        assert moment.astimezone(LOCAL).utcoffset() == moment.astimezone(BERLIN).utcoffset()
        assert datetime.now(LOCAL).timestamp() == pytest.approx(time.time(), abs=5)


_pieces = st.lists(
    st.sampled_from(
        [
            *WORDS,
            *(
                "resets ",
                "again at ",
                "in ",
                "Mon ",
                "Feb ",
                "29",
                "th, ",
                "2027 ",
                "12",
                ":59",
                "am",
            ),
            *(
                "pm",
                " (Europe/Paris)",
                " (UTC)",
                "9999",
                " days ",
                " hours",
                "|1796021589",
                " ",
                "1",
            ),
            *("0000", "-", "T", "Z", "+14:00", " CST", "noon", " tomorrow", "retry-after: ", "1e9"),
        ]
    )
).map("".join)
_nows = st.datetimes(datetime(2001, 1, 1), datetime(2037, 1, 1))


@given(st.one_of(st.text(), _pieces), _nows, st.sampled_from([UTC, HOME, BERLIN, LOCAL]))
def test_E5_no_words_are_a_crash_or_a_wait_beyond_the_longest_window(
    text: str, now: datetime, zone: timezone
) -> None:
    here = now.replace(tzinfo=zone)
    found = reset_time(text, here)
    assert found is None or 0 <= found - here.timestamp() <= LONGEST_S


@given(st.integers(1, 12), st.integers(0, 59), st.sampled_from(["am", "pm"]), st.integers(0, 23))
def test_E5_a_time_of_day_is_the_next_one(hour: int, minute: int, half: str, now: int) -> None:
    here = NOW.replace(hour=now, minute=30)
    found = reset_time(f"resets {hour}:{minute:02d}{half}", here)
    assert found is not None
    told = datetime.fromtimestamp(found, HOME)
    assert 0 <= found - here.timestamp() <= 23 * 3600
    assert told == here or (told.hour % 12, told.minute) == (hour % 12, minute)
