"""State that survives a configuration reload."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from olp.core.admission.admission import Admission
from olp.core.answer.cache import Cache
from olp.runtime.access.people import People
from olp.runtime.serving.shared_answer import SharedAnswer
from olp.runtime.usage.request_log import RequestLog
from olp.runtime.usage.store import UsageStore
from olp.runtime.usage.trace import RequestTrace


@dataclass(frozen=True, slots=True)
class Lasting:
    """All state kept between requests. A reload builds a new service around the same object."""

    admission: Admission
    store: UsageStore
    cache: Cache
    people: People
    request_log: RequestLog

    answers: dict[str, SharedAnswer] = field(default_factory=dict)
    """The answers in flight, by request identity (SHA-256 hex)."""

    traces: dict[str, RequestTrace] = field(default_factory=dict)
    """Their traces, by the same key."""

    models: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The model ids that each CLI reported, by provider."""

    started: float = field(default_factory=time.monotonic)
    """Start of the server, monotonic seconds."""

    started_at: int = field(default_factory=lambda: int(time.time()))
    """Start of the server, epoch seconds."""

    def forget(self, provider: str) -> None:
        """Drop what is known of a provider: its account or program has changed."""
        self.admission.forget(provider)
        self.models.pop(provider, None)
        self.cache.clear()
