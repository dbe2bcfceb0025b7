"""What is measured of one process while it answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProcessStats:
    """What a worker tells of its process. Times are steady seconds, sizes are bytes. One that
    `waits` was there before the request, and may be there after it."""

    spawned_at: float | None = None
    first_output_at: float | None = None
    ended_at: float | None = None
    written: int = 0
    read: int = 0
    exit_code: int | None = None
    waits: bool = False
