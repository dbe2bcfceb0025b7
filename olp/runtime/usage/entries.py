"""What the record is made of; a line of the book is one request of a client, without its words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from olp.core.keys.key_usage import DayUsage


class Outcome(StrEnum):
    """How a request ended for the one who made it."""

    ANSWERED = "answered"
    """Whole, as far as it was asked for: cut at the client's own limit is whole."""
    TRUNCATED = "truncated"
    """The CLI died under it; what had come was given, and said to be cut."""
    BROKE_OFF = "broke_off"
    """It ended with an error after its first byte."""
    FAILED = "failed"
    """No hop could answer."""
    REFUSED = "refused"
    """No hop was asked: over a limit, or not a proper request."""
    LEFT = "left"
    """The client hung up."""
    INTERRUPTED = "interrupted"
    """The server ended under it."""
    ERROR = "error"
    """OLP's own mistake."""


@dataclass(frozen=True, slots=True)
class RequestInFlight:
    """A request that is being answered by the run of the server with the id `run`."""

    id: str
    run: str
    at: float
    day: str
    person: str
    dialect: str
    stream: int
    background: str
    asked: str


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request that is over. The names are those of the columns.

    `at` is its arrival in epoch seconds and `day` the local date of that; `person` is the id of a
    key. `codes` names each hop that failed or was skipped: `claude/sonnet=RATE_LIMITED`, with
    blanks between. `cache` is `hit`, `miss`, `bypass`, or `shared` for one of several identical
    requests that had one answer: its tokens are in the line of one of them. `code` is the error
    that the client was told. Tokens are as in `Usage`; `estimated` and `stream` are 0 or 1.
    """

    id: str
    at: float
    day: str
    person: str
    dialect: str
    stream: int
    background: str
    asked: str
    provider: str
    model: str
    hops: int
    codes: str
    cache: str
    outcome: str
    status: int | None
    code: str
    input: int
    output: int
    cached: int
    cache_written: int
    reasoning: int
    estimated: int
    cost: float | None
    first_ms: int | None
    total_ms: int
    bytes_in: int
    bytes_out: int


class RequestEnded(NamedTuple):
    """A request that is over, of a person who is called `name` now. `hop` is the model as the chain
    has it, where one answered and calls itself otherwise."""

    row: RequestRow
    name: str
    hop: str = ""


class ProviderAsked(NamedTuple):
    """One more request went to `provider` on `day`."""

    day: str
    provider: str


class KeyUsed(NamedTuple):
    """A person, by the id of their key, used so much more on `day`."""

    day: str
    person: str
    used: DayUsage


class TraceEnded(NamedTuple):
    """An answer that requests shared is over, and this is its trace, as JSON."""

    id: str
    at: float
    trace: str
