"""What every CLI looks like from outside: facts, a launch, and a driver.

A driver is the CLI's protocol without the CLI: it is given lines and says what they mean and what
to write back. It never waits, reads a file or looks at a clock, so that a recorded transcript is
all it takes to test one. A provider is one file in this folder; docs/providers.md writes one.
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
    """Bytes for the CLI's standard input."""

    data: bytes


def json_line(message: Mapping[str, Any]) -> Write:
    """`message` as a line of JSON."""
    return Write(line_of(message))


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question that the CLI asked on its socket, by that question's number."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CloseInput:
    """End the CLI's standard input: nothing more will be asked."""


@dataclass(frozen=True, slots=True)
class Settle:
    """The answer is complete; the CLI may still write its report for `seconds`, no longer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Halt:
    """Kill the CLI at once: it is about to ask the vendor again by itself."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The CLI is started and can take a request."""


@dataclass(frozen=True, slots=True)
class Put:
    """A file for the CLI's private folder, in the place of one of that `name`; before any line is
    written."""

    name: str
    data: bytes


Step = Event | Write | Put | Reply | CloseInput | Settle | Halt | Ready


@dataclass(frozen=True, slots=True)
class Exit:
    """How a CLI ended. `code` is None if it had not ended when it was given up; `files` holds what
    it left of the files that the launch wanted collected."""

    code: int | None
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)

    def told(self, name: str) -> str:
        """One line about an end that came before the answer was complete."""
        how = "was ended" if self.code is None else f"exited with code {self.code}"
        last = (self.stderr.strip().splitlines() or [""])[-1]
        return f"{name} {how} before its answer was complete. {last}".strip()


def ended(cli: str, what: str, *, by_model: bool = False) -> Failed:
    """The CLI did `what` it may not, and its process is ended."""
    return Failed(ErrorCode.SPAWN_FAILED, f"{cli} {what}; OLP ended it", by_model=by_model)


def tried(cli: str, tool: str) -> Failed:
    """The model asked for a tool that it was not given."""
    return ended(cli, f"tried its own tool {tool}", by_model=True)


class Driver(Protocol):
    """One request's conversation with one CLI. After a Done or Failed it is not called again."""

    def start(self) -> Sequence[Step]:
        """What to do first."""

    def receive(self, line: str) -> Sequence[Step]:
        """What one line of standard output means."""

    def exited(self, exit: Exit) -> Sequence[Event]:
        """The closing events; the last is a Done or a Failed."""


@runtime_checkable
class Callee(Protocol):
    """A protocol whose CLI also asks on a socket (`Launch.socket`)."""

    def called(self, connection: int, line: str) -> Sequence[Step]:
        """What one question means; `Reply` answers it, now or later."""


@runtime_checkable
class Preparing(Protocol):
    """A session that is not ready again by itself when a conversation is over."""

    def prepare(self) -> Sequence[Step]:
        """Get ready for another conversation; nothing where that is done or under way."""


OPENING_S = 60.0
"""Seconds in which a vendor begins to answer, or is taken to be silent."""


class Session(Protocol):
    """The protocol of a CLI that is started before anybody knows the request.

    It says Ready once, then takes requests one at a time: `ask` begins a conversation, `more` goes
    on with the last one, and each ends with a Done or Failed among the events of `receive`.
    """

    @property
    def reusable(self) -> bool:
        """Whether it can begin another conversation after a clean end. It says Ready again then;
        otherwise it can only go on with the one it has."""

    @property
    def keeps_max_tokens(self) -> bool:
        """Whether it keeps a token limit by itself."""

    @property
    def parked(self) -> bool:
        """Whether calls of the client's tools are open: the model waits for `more`, which brings
        their results."""

    def takes(self, request: Request, model: str) -> bool:
        """Whether it can do exactly what `request` wants of `model`."""

    def opening_s(self, request: Request) -> float | None:
        """As `Facts.opening_s`, of this process with `request`."""

    def start(self) -> Sequence[Step]:
        """What to do first."""

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        """Begin a conversation with all of `request`."""

    def can_resume(self, request: Request) -> bool:
        """Whether `more` can go on with this, which extends the conversation that it has."""

    def resume(self, request: Request, now: datetime) -> Sequence[Step]:
        """Go on with the conversation: only `request.latest` is new."""

    def interrupt(self) -> Sequence[Step]:
        """End the answer under way, so that the vendor stops."""

    def receive(self, line: str) -> Sequence[Step]:
        """What one line of standard output means."""

    def exited(self, exit: Exit) -> Sequence[Event]:
        """The closing events; the last is a Failed."""


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """What is known of a CLI before it is started.

    `rank` orders the providers in the chain `auto`; rank 0 is used only on demand.
    `program` is its usual name on PATH, `native` are paths relative to the launcher's real folder
    where the same program may lie without the launcher in front, in glob form. `install` and
    `login` are the commands a person runs. `tested` are the versions it was tried with, lowest and
    highest. `models` are ids known to work, the default first. `keeps_max_tokens` says whether the
    CLI can be given a token limit. `user_login` are the files of a shared login, relative to the
    user's home. `passes` are variables of OLP's own environment that carry this CLI's login.
    `inert_tools` are tools that still stand in the request to the vendor and do nothing. `windows`
    are the quota windows that it tells of. `can` is what a request may need of it.
    `opening_s` are the seconds after which the
    vendor of a process for one request is taken to be silent, where that process shows without
    fail when its vendor begins to answer; None where it does not.
    """

    name: str
    rank: int
    title: str
    program: str
    install: str
    login: str
    tested: tuple[str, str]
    models: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    keeps_max_tokens: bool = False
    native: tuple[str, ...] = ()
    user_login: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    inert_tools: tuple[str, ...] = ()
    opening_s: float | None = None
    windows: tuple[str, ...] = ()
    can: tuple[Capability, ...] = (Capability.SCHEMA, Capability.EFFORT)


def login_hint(info: ProviderInfo) -> str:
    """What to tell about a missing login: never the vendor's words, which speak of a key or a
    status that the person asking does not have."""
    return f"{info.title} is not logged in on the server; its owner can run: {info.login}"


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """Where a provider runs: its resolved command, its options, and the server's surroundings.

    `environ` is OLP's own environment, of which only allow-listed names reach a child. `home` is
    the user's home, `own_home` the folder in which OLP keeps a login of its own. `kept` holds the
    paths of the files that a survey of this very program wanted kept, by name. `work` is the
    working directory.
    """

    command: tuple[str, ...]
    config: ProviderConfig
    environ: Mapping[str, str]
    home: str
    own_home: str
    kept: Mapping[str, str] = field(default_factory=dict)
    work: str = "/"


def adapted(
    context: ProviderContext,
    *,
    env: Mapping[str, str],
    args: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> ProviderContext:
    """`setting` with more in the owner's options: they come last and so win."""
    options = structs.replace(
        context.config,
        env=context.config.env | dict(env),
        args=(*context.config.args, *args),
        config=context.config.config | dict(config or {}),
    )
    return replace(context, config=options)


class Provider(Protocol):
    """One CLI."""

    @property
    def info(self) -> ProviderInfo:
        """What is known of it."""

    def launch(
        self, request: Request, model: str, context: ProviderContext, now: datetime
    ) -> tuple[Launch, Driver]:
        """How to start the CLI for `request`, and the driver of that process. `now` is local."""

    def probes(self, context: ProviderContext) -> Mapping[str, Launch]:
        """Commands that cost no quota, for the doctor: `version` and, where there is one, `login`
        (exit code 0 means that a login is present)."""

    def session(
        self, context: ProviderContext, request: Request | None = None, model: str = ""
    ) -> tuple[Launch, Session] | None:
        """How to start the CLI ahead of any request, and the protocol of it; None if it cannot.
        With a `request` for `model`, which a one-shot cannot answer, it is started for that."""

    def survey(self, context: ProviderContext) -> Sequence[tuple[Launch, Driver]]:
        """How to ask the CLI, without spending quota, for its models (Listed), for what is left of
        the plan (Quota) and for what its launches need (Keep); nothing if it cannot be asked."""

    def mocked(self, context: ProviderContext, url: str) -> ProviderContext:
        """`setting` with the CLI pointed at a stand-in for its vendor at `url` (without a path),
        and with a login that no vendor accepts: for the doctor's self-test and for tests."""
