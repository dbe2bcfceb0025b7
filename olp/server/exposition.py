"""Metrics in Prometheus' format.

All values are read at scrape time: counters from the tally, gauges from the health report. Names
and units follow Prometheus' conventions: seconds, bytes and ratios, `_total` for counters. Labels
are bounded; a person's name is a label only if the owner enables it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from olp import __version__
from olp.runtime.usage.counters import Counters, Histogram

__all__ = ["CONTENT_TYPE", "exposition"]

Health = Mapping[str, Any]


def exposition(health: Health, counters: Counters, *, people: bool) -> bytes:
    """All metrics in the text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ServerCollector(health, counters, people))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _ServerCollector(Collector):
    def __init__(self, health: Health, counters: Counters, people: bool) -> None:
        self._health = health
        self._counts = counters
        self._people = people

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("olp_build", "The OLP that runs", {"version": __version__})
        yield from _counters(self._counts, self._people)
        yield from _latencies(self._counts)
        yield from _server(self._health)
        yield from _providers(self._health["providers"])


# --- counters ----------------------------------------------------------------------------------


def _counters(counters: Counters, people: bool) -> Iterator[Metric]:
    yield _counter(
        "olp_requests",
        "Requests of known persons that are over, by how they ended for the client",
        ("provider", "model", "outcome", "code"),
        counters.requests,
        people,
    )
    hops = CounterMetricFamily(
        "olp_hops",
        "Hops that answered (code OK), failed or were passed over, by what that meant",
        labels=("provider", "model", "code", "trigger_type"),
    )
    for by, count in counters.hops.items():
        hops.add_metric(by, count)
    yield hops
    yield _counter(
        "olp_tokens",
        "Tokens; cached and cache_written are part of input, reasoning is part of output",
        ("provider", "model", "kind"),
        counters.tokens,
        people,
    )
    yield _counter(
        "olp_cost_estimate_usd",
        "What the CLIs state that answers would cost, an estimate: a subscription pays nothing",
        ("provider", "model"),
        counters.cost,
        people,
    )


def _counter(
    name: str,
    about: str,
    labels: tuple[str, ...],
    counts: Mapping[Any, float],
    people: bool,
) -> Metric:
    """A counter family. The keys of `counts` are label values and a person, which is either a label
    or summed over.
    """
    family = CounterMetricFamily(name, about, labels=(*labels, "person") if people else labels)
    shown: Counter[tuple[str, ...]] = Counter()
    for by, count in counts.items():
        shown[by if people else by[:-1]] += count  # type: ignore[assignment]
    for by, count in shown.items():
        family.add_metric(by, count)
    return family


def _latencies(counters: Counters) -> Iterator[Metric]:
    for name, about, found in (
        ("olp_first_content_seconds", "Time from request to first content", counters.first),
        ("olp_request_duration_seconds", "Time from request to its end", counters.total),
    ):
        family = HistogramMetricFamily(name, about, labels=("provider",))
        for provider, histogram in found.items():
            family.add_metric((provider,), _buckets(histogram), histogram.sum)
        yield family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative buckets: each upper bound with the number of values up to it."""
    total, buckets = 0, []
    for bound, count in zip((*histogram.bounds, None), histogram.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(float(bound)), float(total)))
    return buckets


# --- gauges ------------------------------------------------------------------------------------


def _server(health: Health) -> Iterator[Metric]:
    for name, about, value in (
        ("olp_uptime_seconds", "Time since the server started", health["uptime_s"]),
        ("olp_requests_in_flight", "Client requests in flight", len(health["live"])),
        ("olp_answers_in_flight", "Answers in flight; identical requests share one",
         health["in_flight"]),
        ("olp_usage_store_failing", "1 if the database cannot be written",
         health["record"] != "ok"),
        ("olp_healthy", "1 unless every provider is failing", health["status"] == "ok"),
    ):  # fmt: skip
        yield GaugeMetricFamily(name, about, value=float(value))
    lost = health["record_lost"]
    yield CounterMetricFamily(
        "olp_usage_store_lost", "Entries lost from the usage database", value=lost
    )


def _providers(providers: Mapping[str, Any]) -> Iterator[Metric]:
    for name, about, read in (
        ("olp_slots_taken", "Slots in use",
         lambda p: p["slots"]["active"]),
        ("olp_slots_limit", "Slot limit",
         lambda p: p["slots"]["max"]),
        ("olp_waiting_workers", "Warm processes",
         lambda p: p["waiting"]["ready"]),
        ("olp_parked_workers", "Parked processes that wait for client tool results",
         lambda p: p["waiting"]["parked"]),
        ("olp_waiting_requests", "Requests queued for a slot",
         lambda p: p["queued"]),
        ("olp_worker_memory_bytes", "Memory of idle processes",
         lambda p: p["waiting"]["memory_mb"] * 1024 * 1024),
        ("olp_quota_holds", "Active quota holds",
         lambda p: len(p["quota"]["holds"])),
        ("olp_open_circuits", "Models with an open circuit",
         lambda p: len(p["open_circuits"])),
        ("olp_attempts_today", "Attempts today (local time)",
         lambda p: p["quota"]["requests_today"]),
        ("olp_provider_failing", "1 if the last request failed",
         lambda p: p["state"] == "failing"),
    ):  # fmt: skip
        family = GaugeMetricFamily(name, about, labels=("provider",))
        for provider, report in providers.items():
            family.add_metric((provider,), float(read(report)))
        yield family
    yield _quota(providers)


def _quota(providers: Mapping[str, Any]) -> Metric:
    family = GaugeMetricFamily(
        "olp_quota_used_ratio",
        "Usage of a plan window, from 0 to 1, by the last valid reading",
        labels=("provider", "window", "model"),
    )
    for provider, report in providers.items():
        for window in report["quota"]["windows"]:
            if window["fresh"]:
                by = (provider, window["name"], window["model"] or "")
                family.add_metric(by, window["used_percent"] / 100)
    return family
