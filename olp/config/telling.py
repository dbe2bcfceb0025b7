"""The configuration of the request log and the metrics."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class RecordConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Retention of the usage database: one row per request, never its content. The oldest rows are
    deleted first; daily totals are kept for `keep_days`."""

    keep_days: Annotated[int, Meta(ge=1, description="requests older than this are deleted")] = 400
    max_mb: Annotated[
        int, Meta(ge=10, description="maximum size in MiB; the oldest requests are deleted first")
    ] = 200


class MetricsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Prometheus metrics. The owner can always read them at /metrics."""

    listen: Annotated[
        str,
        Meta(
            pattern=r"^$|^(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):[0-9]{1,5}$",
            description="address for /metrics only, without a key: 127.0.0.1:9464; unset: none",
        ),
    ] = ""
    people: Annotated[bool, Meta(description="label metrics with the names of keys")] = False
