"""What is really known of each provider's health: how its last requests ended, and when.

A token that is present is not health, and neither is a process that starts. Only a finished
request says something, and less with every minute that passes. A plan that is used up is no
illness: that is told by its hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from olp.core.routing.triggers import RULES
from olp.events import Done, ErrorCode, Failed, TriggerType

WINDOW = 100
"""Attempts that the success rate is taken over."""

STALE_S = 3600.0
"""After this long without a request, what was seen says little about now."""


@dataclass(slots=True)
class _Seen:
    ends: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    well: bool | None = None
    ok_at: float | None = None
    failed_at: float | None = None
    code: str | None = None
    detail: str | None = None


class ProviderHealth:
    """By provider. Times are in seconds of one clock."""

    def __init__(self, providers: Iterable[str]) -> None:
        self._seen = {name: _Seen() for name in providers}

    def adopt(self, providers: Iterable[str]) -> None:
        """Know these providers too; what is known of the others is kept."""
        for name in providers:
            self._seen.setdefault(name, _Seen())

    def forget(self, provider: str) -> None:
        """Nothing is known of the provider any more."""
        self._seen[provider] = _Seen()

    def note(self, provider: str, end: Done | Failed, now: float) -> None:
        """One attempt ended. What the client did wrong says nothing about the provider, and
        neither does an attempt that was never made."""
        seen = self._seen[provider]
        if isinstance(end, Done):
            seen.well = not end.truncated
            seen.ends.append(seen.well)
            seen.ok_at = now
        elif _says_something(end.code):
            seen.ends.append(False)
            if end.code is not ErrorCode.QUOTA_EXHAUSTED:
                seen.well = False
            elif not end.model_limit:
                seen.well = None
            seen.failed_at, seen.code, seen.detail = now, end.code.value, end.detail

    def state(self, provider: str, now: float) -> str:
        """`unknown` before the first request, else `ok` or `failing` by the last one, or `stale`
        when that is long ago or was only a plan that is not used up any more."""
        seen = self._seen[provider]
        times = [at for at in (seen.ok_at, seen.failed_at) if at is not None]
        if not times:
            return "unknown"
        if seen.well is None or now - max(times) > STALE_S:
            return "stale"
        return "ok" if seen.well else "failing"

    def report(self, provider: str, now: float) -> dict[str, Any]:
        """The state with its reasons; ages in seconds, the rate from 0 to 1."""
        seen = self._seen[provider]
        failure = None
        if seen.failed_at is not None:
            failure = {
                "code": seen.code,
                "error": seen.detail,
                "age_s": round(now - seen.failed_at),
            }
        return {
            "state": self.state(provider, now),
            "last_success_age_s": None if seen.ok_at is None else round(now - seen.ok_at),
            "last_failure": failure,
            "attempts": len(seen.ends),
            "success_rate": round(sum(seen.ends) / len(seen.ends), 3) if seen.ends else None,
        }


def _says_something(error_code: ErrorCode) -> bool:
    if error_code is ErrorCode.CONCURRENCY_LIMIT:
        return False
    return RULES[error_code].trigger not in (TriggerType.CLIENT_ERROR, TriggerType.SOFT)
