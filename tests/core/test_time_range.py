"""Spans of time as people write them, at the edges where computers stop counting."""

from __future__ import annotations

from datetime import datetime

import pytest

from olp.core.keys.time_range import time_range

NOW = datetime(2026, 11, 30, 12, 0)


@pytest.mark.parametrize("text", ["9999-12-31", "0001-01-01", "9999-12-31T23:59:59-12:00"])
def test_a_time_at_the_end_of_the_calendar_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="no time"):
        time_range(text, None, NOW)
    with pytest.raises(ValueError, match="no time"):
        time_range(None, text, NOW)


def test_whole_days_are_whole() -> None:
    found = time_range("7d", "2026-11-30", NOW)
    assert found.since == datetime(2026, 11, 24)
    assert found.until == datetime(2026, 12, 1)
