"""The days by which things are counted."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache


def day_of(at: float) -> str:
    """The local date, as YYYY-MM-DD, of a time in epoch seconds."""
    return _day_of(int(at))


@lru_cache(maxsize=8)
def _day_of(second: int) -> str:
    return datetime.fromtimestamp(second).date().isoformat()
