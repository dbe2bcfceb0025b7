"""What a walk reports: records for the log, and results for traces and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from olp.events import ErrorCode, TriggerType


@dataclass(frozen=True, slots=True)
class Note:
    """One log record."""

    event: str
    level: str = "info"
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """What came of a hop, for traces and statistics. `code` is None for an answer, and for a hop
    that was skipped and is tried after all (`retried`)."""

    index: int
    """The hop's position in the chain."""

    code: ErrorCode | None = None
    trigger: TriggerType | None = None
    status: int | None = None
    retried: bool = False
