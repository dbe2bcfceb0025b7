"""One attempt at a hop, as the engine uses it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

from olp.events import Event
from olp.runtime.process.stats import ProcessStats


class Attempt(Protocol):
    """A process that answers one request: a `Worker`, started for it, or a `Lease` on a warm one.

    Use it as an async context manager; leaving the block ends the process or returns it to the
    pool.
    """

    @property
    def keeps_max_tokens(self) -> bool:
        """Whether the CLI itself enforces `max_tokens`."""

    @property
    def opening_s(self) -> float | None:
        """Timeout in seconds for the first content, if the CLI reports when its vendor starts."""

    @property
    def conversation(self) -> str:
        """`live`, `replayed` or `new`."""

    @property
    def report(self) -> ProcessStats:
        """Measurements of the process."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...

    async def events(self, until: float) -> Sequence[Event]:
        """The next events; empty if there are none before `until` (monotonic seconds)."""
