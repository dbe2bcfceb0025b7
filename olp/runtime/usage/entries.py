"""The entries of the usage store. A request log row is one client request, without content."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from olp.core.keys.key_usage import DayUsage


class Outcome(StrEnum):
    """How a request ended for its client."""

    ANSWERED = "answered"
    """Complete, or cut at the client's own `max_tokens`."""
    TRUNCATED = "truncated"
    """The CLI died; the partial answer was sent, marked as truncated."""
    BROKE_OFF = "broke_off"
    """It ended with an error after its first byte."""
    FAILED = "failed"
    """No hop could answer."""
    REFUSED = "refused"
    """No hop was asked: over a limit, or an invalid request."""
    LEFT = "left"
    """The client disconnected."""
    INTERRUPTED = "interrupted"
    """The server stopped or crashed."""
    ERROR = "error"
    """A bug in OLP."""


@dataclass(frozen=True, slots=True)
class RequestInFlight:
    """A request in flight in the server run with the id `run`."""

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
    """A finished request. The field names are those of the columns.

    `at` is its arrival in epoch seconds and `day` the local date of that; `person` is the id of a
    key. `codes` lists the failed or skipped hops, as `claude/sonnet=RATE_LIMITED`, separated by
    blanks. `cache` is `hit`, `miss`, `bypass`, or `shared` for one of several requests with a
    shared answer, whose tokens are in the row of only one of them. `code` is the error code sent to
    the client. Tokens are as in `Usage`; `estimated` and `stream` are 0 or 1.
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
    """A finished request and the current `name` of its person. `hop` is the chain's name of the
    answering model, if the model id differs."""

    row: RequestRow
    name: str
    hop: str = ""


class ProviderAsked(NamedTuple):
    """One request to `provider` on `day`."""

    day: str
    provider: str


class KeyUsed(NamedTuple):
    """Usage to add to a person (key id) on `day`."""

    day: str
    person: str
    used: DayUsage


class TraceEnded(NamedTuple):
    """The trace of a finished answer, as JSON."""

    id: str
    at: float
    trace: str
