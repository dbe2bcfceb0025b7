"""Health report of the providers, from the results and ages of their last requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from olp.core.admission.quota import Reading
from olp.core.days import day_of
from olp.core.routing.chains import Catalogue
from olp.events import ErrorCode
from olp.runtime.pool.pool import Pool
from olp.runtime.process.fleet import Fleet
from olp.runtime.serving.lasting import Lasting

DOWN = frozenset({"failing", "used_up"})
"""States of a provider that cannot answer now."""


class Health:
    """Reports on one service. `clock` is monotonic, `wall` in epoch seconds."""

    def __init__(
        self,
        fleet: Fleet,
        pool: Pool,
        lasting: Lasting,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._pool = pool
        self._admission = lasting.admission
        self._store = lasting.store
        self._started = lasting.started
        self._clock = clock
        self._wall = wall

    def report(self, catalogue: Catalogue, in_flight: int) -> dict[str, Any]:
        """The full report, for the owner."""
        now, wall = self._clock(), self._wall()
        providers = {name: self._provider(name, now, wall) for name in self._fleet.members}
        usable = any(report["state"] not in DOWN for report in providers.values())
        return {
            "status": "ok" if usable else "failing",
            "uptime_s": round(now - self._started),
            "in_flight": in_flight,
            "record": self._store.problem or "ok",
            "record_lost": self._store.lost,
            "providers": providers,
            "chains": {
                name: [str(hop) for hop in chain.hops] for name, chain in catalogue.chains.items()
            },
        }

    def summary(self, chains: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """For a user limited to `chains`: their hops, and whether any can answer."""
        now, wall = self._clock(), self._wall()
        report = {}
        for name, hops in chains.items():
            states = {self._admission.state(hop.partition("/")[0], now, wall) for hop in hops}
            report[name] = {"hops": list(hops), "ok": not states <= DOWN}
        usable = any(chain["ok"] for chain in report.values()) or not report
        return {"status": "ok" if usable else "failing", "chains": report}

    def _provider(self, name: str, now: float, wall: float) -> dict[str, Any]:
        admission = self._admission
        day = day_of(wall)
        member = self._fleet.members[name]
        report = admission.health.report(name, now)
        failure = report["last_failure"]
        if failure and failure["code"] == ErrorCode.AUTH_MISSING:
            report["fix"] = member.provider.info.login
        return {
            **report,
            "state": admission.state(name, now, wall),
            "waiting": self._pool.report(name),
            "slots": {"active": admission.slots.active[name], "max": admission.slots.limits[name]},
            "queued": admission.queue.waiting(name),
            "quota": {
                "requests_today": admission.quota.requests(name, day),
                "windows": [_window(r, wall) for r in admission.quota.readings(name)],
                "holds": [
                    {
                        "model": scope[1],
                        "next_probe_s": round(left),
                        "resets_at": resets_at,
                        "reason": reason,
                    }
                    for scope, left, resets_at, reason in admission.holds.report(now)
                    if scope[0] == name
                ],
            },
            "open_circuits": [
                {"model": hop.model, "next_try_s": round(left)}
                for hop, left in admission.breaker.open_circuits(now)
                if hop.provider == name
            ],
        }


def _window(reading: Reading, wall: float) -> dict[str, Any]:
    window = reading.window
    return {
        "name": window.name,
        "model": window.model,
        "used_percent": round(window.used, 1),
        "resets_at": window.resets_at,
        "age_s": round(wall - reading.at),
        "source": reading.source,
        "fresh": reading.fresh(wall),
    }
