"""One request on a process that was started before it, or that goes on with a conversation."""

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
from olp.runtime.usage.trace import ProcessStats


class Lender(Protocol):
    """Where a seat goes when its turn is over."""

    def gave_back(self, seat: WarmProcess, known: str) -> None:
        """The turn ended cleanly."""

    async def gave_up(self, seat: WarmProcess) -> None:
        """It did not; the process must go."""


class Lease:
    """Used like a worker: the block that enters it owns the seat, and leaving gives it back."""

    def __init__(
        self,
        lender: Lender,
        seat: WarmProcess,
        hop: Hop,
        talk: ConversationKey,
        *,
        now: datetime,
        goes_on: bool,
    ) -> None:
        self._lender = lender
        self._seat = seat
        self._hop = hop
        self._talk = talk
        self._request = talk.request
        self._now = now
        self._goes_on = goes_on
        self._asked = False
        self._clean = False
        self._answer: list[str] = []
        self._calls: list[tuple[CallStarted, list[str]]] = []
        self.keeps_max_tokens = seat.session.keeps_max_tokens
        self.opening_s = seat.session.opening_s(self._request)

    @property
    def conversation(self) -> str:
        """`live` if the process had it already, `replayed` if it was told of it, else `new`."""
        if self._goes_on:
            return "live"
        return "replayed" if len(self._request.turns) > 1 else "new"

    @property
    def report(self) -> ProcessStats:
        """What the process tells of itself."""
        return self._seat.worker.report

    async def __aenter__(self) -> Lease:
        try:
            await self._seat.unwatch()
            if self._seat.worker.pid is None:
                await self._seat.worker.open()
            else:
                await self._seat.worker.begin_again()
                if not self._goes_on:
                    self._seat.prepare()
        except BaseException:
            await self._lender.gave_up(self._seat)
            raise
        return self

    async def events(self, until: float) -> Sequence[Event]:
        """The next events; none if nothing happened until then."""
        worker = self._seat.worker
        if not (self._asked or self._goes_on or worker.ready):
            early = await worker.events(until)
            if early or not worker.ready:
                return self._seen(early)
        if not self._asked:
            self._ask()
        return self._seen(await worker.events(until))

    def _ask(self) -> None:
        session = self._seat.session
        self._asked = True
        if self._goes_on:
            self._seat.worker.carry_out(partial(session.more, self._request, self._now))
            return
        ask = partial(session.ask, self._request, self._hop.model, self._now)
        self._seat.worker.carry_out(ask)
        self._seat.worker.ready = not session.reusable

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
        # A client whose calls have no ids cannot say which results it brings.
        endless = bool(self._calls) and self._request.nameless_calls
        if self._clean and kind is None and not endless:
            answer = "".join(self._answer)
            calls = [ToolCall(one.id, one.name, "".join(said)) for one, said in self._calls]
            self._lender.gave_back(self._seat, self._talk.after(self._hop, answer, calls))
            return
        if self._asked and self._seat.worker.alive:
            self._seat.worker.carry_out(self._seat.session.interrupt)
        await self._lender.gave_up(self._seat)
