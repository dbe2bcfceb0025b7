"""The configuration of the request log and the metrics."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class RecordConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How much is kept of who used what: one line for each request, and never its content. The
    oldest lines go first; the sums of each day stay for as long as `keep_days` says."""

    keep_days: Annotated[int, Meta(ge=1, description="requests older than this are forgotten")] = (
        400
    )
    max_mb: Annotated[
        int, Meta(ge=10, description="size of the record, in MiB; the oldest requests go first")
    ] = 200


class MetricsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers for Prometheus. The owner gets them at /metrics in any case."""

    listen: Annotated[
        str,
        Meta(
            pattern=r"^$|^(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):[0-9]{1,5}$",
            description="an address for /metrics alone, without a key: 127.0.0.1:9464; unset: none",
        ),
    ] = ""
    people: Annotated[
        bool, Meta(description="tell there who asked, by the names of their keys")
    ] = False
