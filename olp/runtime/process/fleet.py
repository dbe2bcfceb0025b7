"""The CLIs of this house, ready to be started: providers with their settings and clocks."""

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
    """One CLI that can be asked. `max_concurrent` is its number of slots."""

    provider: Provider
    context: ProviderContext
    timeouts: Timeouts
    max_concurrent: int


class Fleet:
    """Makes workers. `clock` is steady and in seconds; `now` gives the local time; `kept_folder`
    is where files for later launches are kept."""

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
        """Each provider's clocks."""
        return {name: member.timeouts for name, member in self.members.items()}

    @property
    def limits(self) -> Mapping[str, int]:
        """Each provider's number of slots."""
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
        """A worker that is to wait for its request, and its protocol; None if the CLI cannot. One
        for a `request` that a one-shot cannot answer is made for it."""
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
        """Why `hop` cannot be asked for this, if it cannot."""
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
        """What a request may need of it."""
        member = self.members[hop.provider]
        oneshot = member.context.config.transport == "oneshot"
        return able(member.provider.info.can, oneshot=oneshot)

    def context(self, hop: Hop) -> int | None:
        """The tokens that the owner says its model can read."""
        return self.members[hop.provider].context.config.context.get(hop.model)

    def kept(self, provider: str) -> Mapping[str, str]:
        """The files that the provider's launches are given now, by name."""
        return self.members[provider].context.kept

    def now(self) -> datetime:
        """The local time."""
        return self._now()

    def surveyors(self, provider: str) -> Sequence[Worker]:
        """Workers that ask a CLI about itself, at no cost; none if it cannot be asked."""
        member = self.members[provider]
        return [
            Worker(launch, driver, self._folders, self._tasks, self._clock)
            for launch, driver in member.provider.survey(member.context)
        ]

    def keep(self, provider: str, name: str, data: bytes) -> None:
        """Keep a file for the provider's later launches; a disk that is full costs only that."""
        member = self.members[provider]
        try:
            path = kept.write(self._kept, member.context.command, name, data)
        except OSError:
            return
        files = {**member.context.kept, name: str(path)}
        self.members[provider] = replace(member, context=replace(member.context, kept=files))
