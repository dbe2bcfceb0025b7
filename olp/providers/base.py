"""The provider interface: static facts about a CLI, how to launch it, and its protocol driver.

A driver implements the CLI's protocol without I/O: it takes lines and returns events and lines to
write back. It never blocks, reads a file or looks at a clock, so it can be tested with a recorded
transcript alone. A provider is one module in this package; see docs/providers.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from msgspec import structs

from olp.config import ProviderConfig
from olp.events import ErrorCode, Event, Failed
from olp.model import Capability, Launch, Request
from olp.providers.shared.wire import line_of


@dataclass(frozen=True, slots=True)
class Write:
    """Write bytes to the CLI's standard input."""

    data: bytes


def json_line(message: Mapping[str, Any]) -> Write:
    """`message` as one line of JSON for standard input."""
    return Write(line_of(message))


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a request that the CLI sent on its socket (`Launch.socket`).

    `connection` is the number of the connection on which the request arrived.
    """

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CloseInput:
    """Close the CLI's standard input: no more requests follow."""


@dataclass(frozen=True, slots=True)
class Settle:
    """The answer is complete; give the CLI at most `seconds` more to write its report."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Halt:
    """Kill the CLI at once: it is about to send another request to the vendor by itself."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The CLI has started and can take a request."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write or replace the file `name` in the run folder, before any further line is written."""

    name: str
    data: bytes


Step = Event | Write | Put | Reply | CloseInput | Settle | Halt | Ready


@dataclass(frozen=True, slots=True)
class Exit:
    """How a CLI process ended.

    `code` is the exit code, or None if OLP killed it before it exited. `files` holds the contents
    of those `Launch.collect` files that exist.
    """

    code: int | None
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)

    def told(self, name: str) -> str:
        """One-line error message for an exit before the answer was complete."""
        how = "was ended" if self.code is None else f"exited with code {self.code}"
        last = (self.stderr.strip().splitlines() or [""])[-1]
        return f"{name} {how} before its answer was complete. {last}".strip()


def ended(cli: str, what: str, *, by_model: bool = False) -> Failed:
    """Failure for a CLI that did `what`, which is not allowed; its process is killed."""
    return Failed(ErrorCode.SPAWN_FAILED, f"{cli} {what}; OLP ended it", by_model=by_model)


def tried(cli: str, tool: str) -> Failed:
    """Failure for a model that called a tool that it was not offered."""
    return ended(cli, f"tried its own tool {tool}", by_model=True)


class Driver(Protocol):
    """The protocol of one request in one CLI process. Not called again after a Done or Failed."""

    def start(self) -> Sequence[Step]:
        """The first steps of the conversation."""

    def receive(self, line: str) -> Sequence[Step]:
        """Interpret one line of standard output."""

    def exited(self, exit: Exit) -> Sequence[Event]:
        """The closing events after the process ended; the last is a Done or a Failed."""


@runtime_checkable
class Callee(Protocol):
    """A protocol whose CLI also sends requests on a socket (`Launch.socket`)."""

    def called(self, connection: int, line: str) -> Sequence[Step]:
        """Handle one request line from `connection`; a `Reply` step answers it, now or later."""


@runtime_checkable
class Preparing(Protocol):
    """A session that needs extra steps before it can take another conversation."""

    def prepare(self) -> Sequence[Step]:
        """Prepare for another conversation; empty if that is done or in progress."""


OPENING_S = 60.0
"""Seconds a vendor has to begin its answer before it counts as silent."""


class Session(Protocol):
    """The protocol of a CLI that is started before its request is known (a warm process).

    It yields Ready once and then takes requests one at a time: `ask` starts a conversation,
    `resume` continues the last one. Each ends with a Done or Failed among the events of `receive`.
    """

    @property
    def reusable(self) -> bool:
        """Whether it can start another conversation after a clean end, signalled by another Ready.
        Otherwise it can only continue the one it has.
        """

    @property
    def keeps_max_tokens(self) -> bool:
        """Whether the CLI enforces a token limit itself."""

    @property
    def parked(self) -> bool:
        """Whether calls of the client's tools are open: the model waits for a `resume` that brings
        their results.
        """

    def takes(self, request: Request, model: str) -> bool:
        """Whether this process can serve `request` with `model` exactly as asked."""

    def opening_s(self, request: Request) -> float | None:
        """Seconds until a silent vendor is given up, as `ProviderInfo.opening_s`; None to not
        check.
        """

    def start(self) -> Sequence[Step]:
        """The first steps after the process was started."""

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        """Start a conversation with the whole of `request`. `now` is an aware local time."""

    def can_resume(self, request: Request) -> bool:
        """Whether `resume` can continue with `request`, which extends the current conversation."""

    def resume(self, request: Request, now: datetime) -> Sequence[Step]:
        """Continue the conversation; only `request.latest` is new."""

    def interrupt(self) -> Sequence[Step]:
        """Abort the answer in progress, so that the vendor stops generating."""

    def receive(self, line: str) -> Sequence[Step]:
        """Interpret one line of standard output."""

    def exited(self, exit: Exit) -> Sequence[Event]:
        """The closing events after the process ended; the last is a Failed."""


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """Static facts about a CLI, known before it is started."""

    name: str

    rank: int
    """Position in the chain `auto`; 0 excludes it, so that it is used only on demand."""

    title: str

    program: str
    """Its usual name on PATH."""

    install: str
    """The command with which a user installs it."""

    login: str
    """The command with which a user logs in."""

    tested: tuple[str, str]
    """The lowest and the highest version it was tested with."""

    models: tuple[str, ...]
    """Model ids known to work, the default first."""

    aliases: tuple[str, ...] = ()

    keeps_max_tokens: bool = False
    """Whether the CLI can be given a token limit."""

    native: tuple[str, ...] = ()
    """Glob patterns, relative to the launcher's real folder, of the same program without the
    launcher in front."""

    user_login: tuple[str, ...] = ()
    """The files of a shared login, relative to the user's home."""

    passes: tuple[str, ...] = ()
    """Variables of OLP's own environment that carry this CLI's login."""

    inert_tools: tuple[str, ...] = ()
    """Tools that still appear in the request to the vendor but do nothing."""

    opening_s: float | None = None
    """Seconds after which the vendor counts as silent in a one-shot process; None if the process
    does not reliably show when its vendor begins to answer."""

    windows: tuple[str, ...] = ()
    """Names of the quota windows that it reports."""

    can: tuple[Capability, ...] = (Capability.SCHEMA, Capability.EFFORT)
    """The capabilities of a request that it supports."""


def login_hint(info: ProviderInfo) -> str:
    """The error message for a missing login.

    Never the vendor's own text, which mentions an API key or an HTTP status that the client does
    not have.
    """
    return f"{info.title} is not logged in on the server; its owner can run: {info.login}"


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """Where a provider runs."""

    command: tuple[str, ...]
    """The resolved program, and its first arguments."""

    config: ProviderConfig

    environ: Mapping[str, str]
    """OLP's own environment, of which only allow-listed names reach a child."""

    home: str
    """The user's home."""

    own_home: str
    """The folder of a login that belongs to OLP."""

    kept: Mapping[str, str] = field(default_factory=dict)
    """Paths of the files that a survey of this program stored (`Keep`), by name."""

    work: str = "/"
    """The working directory."""


def adapted(
    context: ProviderContext,
    *,
    env: Mapping[str, str],
    args: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> ProviderContext:
    """`context` with additions to the owner's options; the additions come last and so take
    precedence.
    """
    options = structs.replace(
        context.config,
        env=context.config.env | dict(env),
        args=(*context.config.args, *args),
        config=context.config.config | dict(config or {}),
    )
    return replace(context, config=options)


class Provider(Protocol):
    """The interface of one CLI."""

    @property
    def info(self) -> ProviderInfo:
        """Static facts about the CLI."""

    def launch(
        self, request: Request, model: str, context: ProviderContext, now: datetime
    ) -> tuple[Launch, Driver]:
        """How to start the CLI for `request`, and the driver of that process. `now` is an aware
        local time.
        """

    def probes(self, context: ProviderContext) -> Mapping[str, Launch]:
        """Commands for the doctor that cost no quota: `version` and, where the CLI has one, `login`
        (exit code 0 means logged in).
        """

    def session(
        self, context: ProviderContext, request: Request | None = None, model: str = ""
    ) -> tuple[Launch, Session] | None:
        """How to start the CLI as a warm process, and its protocol; None if it has no such mode.

        With a `request` for `model`, which a one-shot process cannot answer, it is started for that
        one.
        """

    def survey(self, context: ProviderContext) -> Sequence[tuple[Launch, Driver]]:
        """How to query the CLI, without spending quota, for its models (Listed), the remaining
        quota (Quota) and files that launches need (Keep); empty if it cannot be queried.
        """

    def mocked(self, context: ProviderContext, url: str) -> ProviderContext:
        """`context` with the CLI pointed at a mock vendor at `url` (no path) and a dummy login; for
        the doctor's self-test and for tests.
        """
