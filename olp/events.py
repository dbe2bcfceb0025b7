"""The events of an answer, as a closed union of frozen dataclasses.

A driver turns a CLI's output into events, the walk decides which of them go to the client, and a
dialect's encoder serialises those. A failure is an event too, not an exception, since the walk must
handle it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from olp.model import Field


class ErrorCode(StrEnum):
    """Error codes of failed attempts, as shown to clients, in headers and in logs."""

    SPAWN_FAILED = "SPAWN_FAILED"
    CLI_NOT_FOUND = "CLI_NOT_FOUND"
    SPAWN_TIMEOUT = "SPAWN_TIMEOUT"
    CONCURRENCY_LIMIT = "CONCURRENCY_LIMIT"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"
    RATE_LIMITED = "RATE_LIMITED"
    OVERLOADED = "OVERLOADED"
    AUTH_MISSING = "AUTH_MISSING"
    BAD_REQUEST = "BAD_REQUEST"
    CONTEXT_TOO_LONG = "CONTEXT_TOO_LONG"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    FORMAT_MISMATCH = "FORMAT_MISMATCH"
    VENDOR_CUT = "VENDOR_CUT"
    EMPTY_ANSWER = "EMPTY_ANSWER"
    INCAPABLE = "INCAPABLE"
    SOFT_TRIGGER = "SOFT_TRIGGER"
    QUOTA_HOLD = "QUOTA_HOLD"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    DEADLINE = "DEADLINE"
    UNKNOWN = "UNKNOWN"


class Finish(StrEnum):
    """Finish reason, with the values of the OpenAI API."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Started:
    """The vendor started to answer. `model` is the id it reports, if any."""

    model: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A delta of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A delta of the model's reasoning, which is not part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """Start of a call of a client's tool. `index` counts the answer's calls from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A delta of a call's arguments, which together are JSON."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Window:
    """One reading of a plan's quota window, as reported by the CLI.

    `used` is a percentage from 0 to 100, `resets_at` epoch seconds. `name` is `five_hour`,
    `seven_day`, `credits` or the vendor's own; `model` is set for a limit of one model.
    """

    name: str
    used: float
    resets_at: float | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota readings that a CLI reported, at no cost."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer."""

    input: int = 0
    """Tokens of the prompt, `cached` and `cache_written` included: the length of the client's
    conversation."""

    output: int = 0
    """Tokens of the answer, `reasoning` included."""

    cached: int = 0
    """Tokens read from the vendor's prompt cache."""

    cache_written: int = 0
    """Tokens written to the vendor's prompt cache."""

    reasoning: int = 0
    """Tokens of reasoning."""

    cost: float | None = None
    """US dollars, as stated by the CLI."""

    estimated: bool = False
    """Whether OLP estimated the tokens, since the CLI ended before it reported them."""

    beyond: int = 0
    """Input tokens of the CLI's further requests to the vendor for this answer: for the usage
    store, not for the client."""


@dataclass(frozen=True, slots=True)
class Done:
    """The answer is complete, or as complete as it will be.

    `truncated`: the CLI died before the end; usable, but never cached. `empty`: the model ended
    without text, call or refusal. `mismatch`: how the arguments of a forced call violate their
    schema.
    """

    finish: Finish = Finish.STOP
    truncated: bool = False
    empty: bool = False
    mismatch: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt ended without a complete answer."""

    code: ErrorCode

    detail: str
    """One line for people."""

    status: int | None = None
    """The vendor's HTTP status, if known."""

    resets_at: float | None = None
    """When the vendor will serve again, epoch seconds."""

    model_limit: bool = False
    """Whether the limit is of the model, not of the plan."""

    request_limit: bool = False
    """Whether the limit is only of requests like this one: no hold then."""

    field: Field | None = None
    """The part of the request at fault."""

    by_model: bool = False
    """Whether the model's behaviour caused it, which any prompt can provoke: not counted by the
    breaker."""

    living: bool = False
    """Whether the CLI was alive: its text so far must not be salvaged as a truncated answer."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The models that a CLI lists, its default first, and the (model, tokens) context windows that
    it reports."""

    models: tuple[str, ...]
    contexts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """A file made from a CLI's survey, to be stored under `name` for its later launches."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Reads:
    """The context window of the answering model in tokens, as reported by the CLI."""

    tokens: int


Content = Text | CallStarted | CallArguments
"""The parts of an answer that a client may act on."""

Event = Started | Content | Reasoning | Quota | Usage | Reads | Listed | Keep | Done | Failed


class TriggerType(StrEnum):
    """The effect of a failure on the chain."""

    HARD = "hard"
    SOFT = "soft"
    AUTH_MISSING = "auth_missing"
    CLIENT_ERROR = "client_error"
    NON_TRIGGER = "non_trigger"


@dataclass(frozen=True, slots=True)
class HopRecord:
    """One hop that failed or was skipped, for the detail header. `hop` counts from 0."""

    hop: int
    provider: str
    model: str
    code: str
    error_message: str
    trigger_type: TriggerType


@dataclass(frozen=True, slots=True)
class Answering:
    """The first output of an answer: the hop that answers, and those that failed before it.

    `hops` is the index of the hop that answers. `conversation` is `new`, `replayed` (the earlier
    turns were sent to the CLI) or `live` (its process held them). `empty`: no text, call or refusal
    follows.
    """

    provider: str
    model: str
    hops: int
    records: tuple[HopRecord, ...] = ()
    cache: str = "miss"
    conversation: str | None = None
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The only output when no hop could answer.

    `failed` determines status and code; its detail covers every hop tried. `advice` is a clause on
    what to do. `exhausted` lists the chain's providers if all of several were tried; `retry_after`
    is in seconds; `retry`: whether an automatic retry by the client makes sense.
    """

    provider: str
    model: str
    hops: int
    failed: Failed
    status: int
    advice: str
    records: tuple[HopRecord, ...] = ()
    exhausted: tuple[str, ...] = ()
    retry_after: int | None = None
    retry: bool = False


Output = Answering | Refused | Event
