"""Measurements of one process during one request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProcessStats:
    """Stats of a worker's process."""

    spawned_at: float | None = None
    """Start of the process, or of the request on a warm one; monotonic seconds."""

    first_output_at: float | None = None
    """First output, monotonic seconds."""

    ended_at: float | None = None
    """Exit of the process, monotonic seconds."""

    written: int = 0
    """Bytes written to it."""

    read: int = 0
    """Bytes read from its stdout."""

    exit_code: int | None = None
    """Exit code; negative for a signal."""

    waits: bool = False
    """Whether it is a warm process, which may outlive the request."""
