"""What happens while a request is answered, as a closed union of frozen values.

A driver turns a CLI's lines into events, the walk decides which of them may go to the client, and
a dialect's encoder turns those into bytes. A failure is an event like any other, because the walk
has to look at it; nothing in this file is an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from olp.model import Field


class ErrorCode(StrEnum):
    """Every way an attempt can fail, by the code that clients, headers and logs show."""

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
    """Why an answer ended, in the words of the OpenAI API."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Started:
    """The vendor began to answer. `model` is the id it names itself by, if it does."""

    model: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's thinking, which is not part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model begins to call a tool of the client's. `index` counts the answer's calls from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of a call's arguments, which together are JSON."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Window:
    """One reading of a plan's quota window, as the CLI printed it.

    `used` is a percentage from 0 to 100, `resets_at` epoch seconds. `name` is `five_hour`,
    `seven_day`, `credits` or the vendor's own; `model` is set where the limit is that model's.
    """

    name: str
    used: float
    resets_at: float | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota readings that came free with an answer."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer. `input` includes `cached` and `cache_written`; `output` includes
    `reasoning`. `cost` is in US dollars, as the CLI states it. `estimated` tells that OLP had to
    guess, since the CLI was ended before it could count. `beyond` is input of further requests to
    the vendor that led to this answer: for the book, since `input` tells a client how long its
    conversation has become."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0
    cost: float | None = None
    estimated: bool = False
    beyond: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The answer is complete, or as complete as it will be.

    `truncated` marks an answer whose CLI died under it: usable, but never kept. `empty` marks one
    that the model ended by itself without a text, a call or a refusal. `mismatch` tells how the
    arguments of a call that the client insisted on break their schema.
    """

    finish: Finish = Finish.STOP
    truncated: bool = False
    empty: bool = False
    mismatch: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt is over without a complete answer.

    `detail` is one line for a person, `status` the vendor's HTTP status where one is known,
    `resets_at` epoch seconds when the vendor will serve again, `model_limit` whether the limit is
    the model's alone, `request_limit` whether it is of requests like this one alone (nothing is
    held then), `field` the part of the request that is at fault.
    `by_model` says that the model's own wish led to it, which any prompt can bring about: the
    provider is none the worse for it. `living` says that the CLI had not died: what it had said by
    then is no answer that only lacks its end.
    """

    code: ErrorCode
    detail: str
    status: int | None = None
    resets_at: float | None = None
    model_limit: bool = False
    request_limit: bool = False
    field: Field | None = None
    by_model: bool = False
    living: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """The models that a CLI says it can ask for, its default first, and of how many tokens it says
    that a model can read them."""

    models: tuple[str, ...]
    contexts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """A file made from what a CLI tells, to be kept for its later launches under `name`."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Reads:
    """The CLI tells of how many tokens the model that answers can read them."""

    tokens: int


Content = Text | CallStarted | CallArguments
"""What an answer is made of, as far as a client may act on it."""

Event = Started | Content | Reasoning | Quota | Usage | Reads | Listed | Keep | Done | Failed


class TriggerType(StrEnum):
    """What a failure means for the chain."""

    HARD = "hard"
    SOFT = "soft"
    AUTH_MISSING = "auth_missing"
    CLIENT_ERROR = "client_error"
    NON_TRIGGER = "non_trigger"


@dataclass(frozen=True, slots=True)
class HopRecord:
    """One hop that failed or was skipped, as the detail header tells it. `hop` counts from 0."""

    hop: int
    provider: str
    model: str
    code: str
    error_message: str
    trigger_type: TriggerType


@dataclass(frozen=True, slots=True)
class Answering:
    """The first thing a reader gets of an answer: who gives it, and what was tried before.

    `hops` is the index of the hop that serves. `conversation` is `new`, `replayed` (the CLI was
    told of the earlier turns) or `live` (its process had them already). `empty` says that nothing
    follows: no text, no call and no refusal.
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
    """The only thing a reader gets when no hop could answer.

    `failed` is what decides over status and code, in a detail that tells of every hop that was
    looked at. `advice` says in a clause what to do. `exhausted` lists the chain's providers if all
    of more than one were tried; `retry_after` is in seconds; `retry` says whether the client's own
    retry makes sense.
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
