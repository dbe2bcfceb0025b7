"""What outlives a change of the configuration."""

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
    """Everything that is remembered between requests. The service that a change of the
    configuration makes goes on with the very same object."""

    admission: Admission
    store: UsageStore
    cache: Cache
    people: People
    request_log: RequestLog

    answers: dict[str, SharedAnswer] = field(default_factory=dict)
    """The answers in flight, by what makes two requests the same."""

    traces: dict[str, RequestTrace] = field(default_factory=dict)
    """Their traces, by the same."""

    models: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The models that each CLI has told of."""

    started: float = field(default_factory=time.monotonic)
    """When the server started, in steady seconds."""

    started_at: int = field(default_factory=lambda: int(time.time()))
    """The same in epoch seconds."""

    def forget(self, provider: str) -> None:
        """What is known of a provider is no longer true: it is another account or program."""
        self.admission.forget(provider)
        self.models.pop(provider, None)
        self.cache.clear()
