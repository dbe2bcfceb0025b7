"""The configured providers, as a factory of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from olp.core.routing.capabilities import able, lacking, only_by_session
from olp.core.routing.walk import Timeouts
from olp.events import ErrorCode, Failed
from olp.model import Capability, Field, Hop, Request
from olp.providers.base import Provider, ProviderContext, Session
from olp.runtime.process import survey_files as kept
from olp.runtime.process.worker import RunFolders, Worker
from olp.runtime.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Member:
    """One configured provider. `max_concurrent` is its number of slots."""

    provider: Provider
    context: ProviderContext
    timeouts: Timeouts
    max_concurrent: int


class Fleet:
    """Makes workers. `clock` is in monotonic seconds, `now` the local time; `kept_folder` stores
    files for later launches."""

    def __init__(
        self,
        members: Mapping[str, Member],
        folders: RunFolders,
        tasks: Tasks,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        kept_folder: Path,
    ) -> None:
        self._kept = kept_folder
        self.members = dict(members)
        self._folders = folders
        self._tasks = tasks
        self._clock = clock
        self._now = now

    @property
    def timeouts(self) -> Mapping[str, Timeouts]:
        """Timeouts by provider."""
        return {name: member.timeouts for name, member in self.members.items()}

    @property
    def limits(self) -> Mapping[str, int]:
        """Number of slots by provider."""
        return {name: member.max_concurrent for name, member in self.members.items()}

    def worker(self, hop: Hop, request: Request) -> Worker:
        """A worker for one attempt; it starts when its `async with` block is entered."""
        member = self.members[hop.provider]
        launch, driver = member.provider.launch(request, hop.model, member.context, self._now())
        info = member.provider.info
        return Worker(
            launch,
            driver,
            self._folders,
            self._tasks,
            self._clock,
            keeps_max_tokens=info.keeps_max_tokens,
            opening_s=info.opening_s,
            conversation="replayed" if len(request.turns) > 1 else "new",
        )

    def waiting(
        self, provider: str, request: Request | None = None, model: str = ""
    ) -> tuple[Worker, Session] | None:
        """A worker to be kept warm and its session, or one for a `request` that needs a session;
        None if the provider has no sessions."""
        member = self.members[provider]
        made = member.provider.session(member.context, request, model)
        if made is None:
            return None
        launch, session = made
        worker = Worker(
            launch,
            session,
            self._folders,
            self._tasks,
            self._clock,
            keeps_max_tokens=session.keeps_max_tokens,
        )
        return worker, session

    def lacking(self, hop: Hop, request: Request) -> Failed | None:
        """INCAPABLE if `hop` cannot do what `request` needs, else None."""
        member = self.members[hop.provider]
        info = member.provider.info
        if failed := lacking(request, info.title, info.can):
            return failed
        if not only_by_session(request):
            return None
        if member.context.config.transport == "oneshot":
            told = f'{info.title} can do this with transport = "auto" alone'
            return Failed(
                ErrorCode.INCAPABLE, told, field=Field.TOOLS if request.tools else Field.MESSAGES
            )
        if not request.asks:
            told = f"{info.title} cannot continue its own message beside tools, images or files"
            return Failed(ErrorCode.INCAPABLE, told, field=Field.MESSAGES)
        return None

    def can(self, hop: Hop) -> Sequence[Capability]:
        """The capabilities of `hop`, as configured."""
        member = self.members[hop.provider]
        oneshot = member.context.config.transport == "oneshot"
        return able(member.provider.info.can, oneshot=oneshot)

    def context(self, hop: Hop) -> int | None:
        """The configured context window of its model in tokens."""
        return self.members[hop.provider].context.config.context.get(hop.model)

    def kept(self, provider: str) -> Mapping[str, str]:
        """Paths of the survey files for the provider's launches, by name."""
        return self.members[provider].context.kept

    def now(self) -> datetime:
        """The local time."""
        return self._now()

    def surveyors(self, provider: str) -> Sequence[Worker]:
        """Workers for the provider's survey, which costs no quota; empty if it has none."""
        member = self.members[provider]
        return [
            Worker(launch, driver, self._folders, self._tasks, self._clock)
            for launch, driver in member.provider.survey(member.context)
        ]

    def keep(self, provider: str, name: str, data: bytes) -> None:
        """Store a file for the provider's later launches; an OSError is ignored."""
        member = self.members[provider]
        try:
            path = kept.write(self._kept, member.context.command, name, data)
        except OSError:
            return
        files = {**member.context.kept, name: str(path)}
        self.members[provider] = replace(member, context=replace(member.context, kept=files))
