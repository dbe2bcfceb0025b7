"""Runs one request on a leased warm process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Protocol

from olp.core.answer.conversation import ConversationKey
from olp.events import CallArguments, CallStarted, Done, Event, Failed, Finish, Text
from olp.model import Hop, ToolCall
from olp.runtime.pool.warm_process import WarmProcess
from olp.runtime.process.stats import ProcessStats


class Lender(Protocol):
    """Takes a process back at the end of its lease."""

    def released(self, warm: WarmProcess, known: str) -> None:
        """The lease ended cleanly."""

    async def discarded(self, warm: WarmProcess) -> None:
        """It did not; the process must go."""


class Lease:
    """Used like a worker: its `async with` block owns the process, and leaving returns it."""

    def __init__(
        self,
        lender: Lender,
        warm: WarmProcess,
        hop: Hop,
        key: ConversationKey,
        *,
        now: datetime,
        goes_on: bool,
    ) -> None:
        self._lender = lender
        self._warm = warm
        self._hop = hop
        self._key = key
        self._request = key.request
        self._now = now
        self._goes_on = goes_on
        self._asked = False
        self._clean = False
        self._answer: list[str] = []
        self._calls: list[tuple[CallStarted, list[str]]] = []
        self.keeps_max_tokens = warm.session.keeps_max_tokens
        self.opening_s = warm.session.opening_s(self._request)

    @property
    def conversation(self) -> str:
        """`live` if the process holds it, `replayed` if earlier turns are sent, else `new`."""
        if self._goes_on:
            return "live"
        return "replayed" if len(self._request.turns) > 1 else "new"

    @property
    def report(self) -> ProcessStats:
        """The process stats of this request."""
        return self._warm.worker.report

    async def __aenter__(self) -> Lease:
        try:
            await self._warm.unwatch()
            if self._warm.worker.pid is None:
                await self._warm.worker.open()
            else:
                await self._warm.worker.begin_again()
                if not self._goes_on:
                    self._warm.prepare()
        except BaseException:
            await self._lender.discarded(self._warm)
            raise
        return self

    async def events(self, until: float) -> Sequence[Event]:
        """The next events; empty if none came by `until` (monotonic seconds)."""
        worker = self._warm.worker
        if not (self._asked or self._goes_on or worker.ready):
            early = await worker.events(until)
            if early or not worker.ready:
                return self._seen(early)
        if not self._asked:
            self._ask()
        return self._seen(await worker.events(until))

    def _ask(self) -> None:
        session = self._warm.session
        self._asked = True
        if self._goes_on:
            self._warm.worker.carry_out(partial(session.resume, self._request, self._now))
            return
        ask = partial(session.ask, self._request, self._hop.model, self._now)
        self._warm.worker.carry_out(ask)
        self._warm.worker.ready = not session.reusable

    def _seen(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            match event:
                case Text(text):
                    self._answer.append(text)
                case CallStarted():
                    self._calls.append((event, []))
                case CallArguments(index, text):
                    self._calls[index][1].append(text)
                case Done(finish):
                    self._clean = finish in (Finish.STOP, Finish.TOOL_CALLS)
                case Failed():
                    self._clean = False
        return events

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        # Without call ids the client cannot assign results, so the conversation cannot be resumed.
        unnamed = bool(self._calls) and self._request.nameless_calls
        if self._clean and kind is None and not unnamed:
            answer = "".join(self._answer)
            calls = [ToolCall(one.id, one.name, "".join(said)) for one, said in self._calls]
            self._lender.released(self._warm, self._key.after(self._hop, answer, calls))
            return
        if self._asked and self._warm.worker.alive:
            self._warm.worker.carry_out(self._warm.session.interrupt)
        await self._lender.discarded(self._warm)
