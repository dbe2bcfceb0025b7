"""Provider health, from the results and times of its last requests.

A login token or a process that starts is no evidence of health; only a finished request is, and it
goes stale. An exhausted plan is not a failure: its hold reports that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from olp.core.routing.triggers import RULES
from olp.events import Done, ErrorCode, Failed, TriggerType

WINDOW = 100
"""Number of last attempts that the success rate covers."""

STALE_S = 3600.0
"""Seconds without a request after which the state is `stale`."""


@dataclass(slots=True)
class _Vitals:
    ends: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    well: bool | None = None
    ok_at: float | None = None
    failed_at: float | None = None
    code: str | None = None
    detail: str | None = None


class ProviderHealth:
    """Health by provider. Times are in seconds of one clock."""

    def __init__(self, providers: Iterable[str]) -> None:
        self._vitals = {name: _Vitals() for name in providers}

    def adopt(self, providers: Iterable[str]) -> None:
        """Add these providers; the state of the others is kept."""
        for name in providers:
            self._vitals.setdefault(name, _Vitals())

    def forget(self, provider: str) -> None:
        """Reset the state of a provider."""
        self._vitals[provider] = _Vitals()

    def note(self, provider: str, end: Done | Failed, now: float) -> None:
        """Record the end of an attempt. Client errors and attempts that were never made do not
        count."""
        vitals = self._vitals[provider]
        if isinstance(end, Done):
            vitals.well = not end.truncated
            vitals.ends.append(vitals.well)
            vitals.ok_at = now
        elif _is_conclusive(end.code):
            vitals.ends.append(False)
            if end.code is not ErrorCode.QUOTA_EXHAUSTED:
                vitals.well = False
            elif not end.model_limit:
                vitals.well = None
            vitals.failed_at, vitals.code, vitals.detail = now, end.code.value, end.detail

    def state(self, provider: str, now: float) -> str:
        """`unknown` before the first request, else `ok` or `failing` by the last one, or `stale` if
        that is older than STALE_S or was an exhausted plan whose hold is over."""
        vitals = self._vitals[provider]
        times = [at for at in (vitals.ok_at, vitals.failed_at) if at is not None]
        if not times:
            return "unknown"
        if vitals.well is None or now - max(times) > STALE_S:
            return "stale"
        return "ok" if vitals.well else "failing"

    def report(self, provider: str, now: float) -> dict[str, Any]:
        """The state with its reasons; ages in seconds, the rate from 0 to 1."""
        vitals = self._vitals[provider]
        failure = None
        if vitals.failed_at is not None:
            failure = {
                "code": vitals.code,
                "error": vitals.detail,
                "age_s": round(now - vitals.failed_at),
            }
        return {
            "state": self.state(provider, now),
            "last_success_age_s": None if vitals.ok_at is None else round(now - vitals.ok_at),
            "last_failure": failure,
            "attempts": len(vitals.ends),
            "success_rate": round(sum(vitals.ends) / len(vitals.ends), 3) if vitals.ends else None,
        }


def _is_conclusive(error_code: ErrorCode) -> bool:
    if error_code is ErrorCode.CONCURRENCY_LIMIT:
        return False
    return RULES[error_code].trigger not in (TriggerType.CLIENT_ERROR, TriggerType.SOFT)
