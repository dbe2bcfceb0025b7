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
    """A request in flight. The field names are those of the columns."""

    id: str
    """Request id."""

    run: str
    """Id of the server run."""

    at: float
    """Arrival, epoch seconds."""

    day: str
    """Local date of the arrival, YYYY-MM-DD."""

    person: str
    """Key id."""

    dialect: str
    """Name of the dialect."""

    stream: int
    """0 or 1."""

    background: str
    """Name of the background job; empty if it is none."""

    asked: str
    """The requested model."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A finished request. The field names are those of the columns."""

    id: str
    """Request id."""

    at: float
    """Arrival, epoch seconds."""

    day: str
    """Local date of the arrival, YYYY-MM-DD."""

    person: str
    """Key id."""

    dialect: str
    """Name of the dialect."""

    stream: int
    """0 or 1."""

    background: str
    """Name of the background job; empty if it is none."""

    asked: str
    """The requested model."""

    provider: str
    """Provider of the hop that answered, or of the last one tried."""

    model: str
    """Model of that hop."""

    hops: int
    """Index of that hop in the chain."""

    codes: str
    """The failed or skipped hops, as `claude/sonnet=RATE_LIMITED`, separated by blanks."""

    cache: str
    """`hit`, `miss`, `bypass`, or `shared` for one of several requests with a shared answer, whose
    tokens are in the row of only one of them."""

    outcome: str
    """An `Outcome` value."""

    status: int | None
    """HTTP status, if known."""

    code: str
    """The error code sent to the client."""

    input: int
    """Tokens, as in `Usage`."""

    output: int
    """Tokens."""

    cached: int
    """Tokens."""

    cache_written: int
    """Tokens."""

    reasoning: int
    """Tokens."""

    estimated: int
    """0 or 1: whether the tokens are an estimate."""

    cost: float | None
    """US dollars, if the CLI stated a cost."""

    first_ms: int | None
    """Milliseconds to the first content, if any."""

    total_ms: int
    """Duration in milliseconds."""

    bytes_in: int
    """Bytes received."""

    bytes_out: int
    """Bytes sent."""


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
