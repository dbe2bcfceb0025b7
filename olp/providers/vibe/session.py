"""Vibe as a warm process: `vibe-app-server --multiplex`.

Each conversation is a channel (`run`). Opening one takes a moment, so a spare one is opened ahead,
but not right after an answer, when the conversation may continue. The system prompt is not known
then and goes in front of the conversation; a request that the spare one does not fit opens its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import ErrorCode, Event, Failed
from olp.model import Request
from olp.providers.base import OPENING_S, Exit, Put, Reply, Step, ended
from olp.providers.shared.open_calls import fits
from olp.providers.shared.wire import line_of, parse_line, text
from olp.providers.vibe.config import NO_SYSTEM, PROMPT_FILE, Wanted
from olp.providers.vibe.run import WORKSPACE, Run
from olp.providers.vibe.tools import HOUR_S, MAX_RESULT_CHARS

MAX_INPUT_BYTES = 4 * 1024 * 1024
"""Bytes of conversation after which a process is not reused: it keeps about eight times as much in
its run folder.
"""

Configure = Callable[[Wanted], Mapping[str, Any]]
"""Builds the whole configuration of a session."""


class VibeSession:
    """The protocol of one warm process. Its first session is created for `first`."""

    keeps_max_tokens = True

    def __init__(self, first: Wanted, configure: Configure) -> None:
        self._first = first
        self._configure = configure
        self._count = 0
        self._run: Run | None = None
        self._spare: Run | None = None
        self._closed_bytes = 0

    def takes(self, request: Request, model: str) -> bool:
        """Everything but a request to continue an assistant message."""
        return request.asks

    def opening_s(self, request: Request) -> float | None:
        """Text and reasoning are reported as they come, a call only when it is complete: a long one
        may be the first thing that the model writes.
        """
        return None if request.tools else OPENING_S

    @property
    def reusable(self) -> bool:
        """False after `MAX_INPUT_BYTES` of conversation, which stay in its run folder."""
        current = self._run.input_bytes if self._run is not None else 0
        return self._closed_bytes + current < MAX_INPUT_BYTES

    @property
    def parked(self) -> bool:
        """Whether the model waits for the results of calls."""
        return self._run is not None and self._run.calls.parked

    def can_resume(self, request: Request) -> bool:
        """Whether the new messages can be passed on, unchanged if they are tool results."""
        latest, parked = request.latest, self.parked
        whole = all(len(m.text) <= MAX_RESULT_CHARS and not m.media for m in latest)
        return fits(latest, parked=parked) and (whole or not parked)

    # --- what is written -----------------------------------------------------------------------

    def start(self) -> Sequence[Step]:
        return self._open_spare(self._first)

    def prepare(self) -> Sequence[Step]:
        return [] if self._spare is not None else self._open_spare(Wanted(self._first.model))

    def _open_spare(self, wanted: Wanted) -> Sequence[Step]:
        self._spare = self._new(wanted)
        return [_prompt_file(self._spare), *self._spare.open()]

    def _new(self, wanted: Wanted) -> Run:
        self._count += 1
        return Run(self._count, wanted, self._configure(wanted))

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        wanted = Wanted.by(request, model)
        previous, spare = self._run, self._spare
        self._spare = None
        # The previous conversation is over: release the memory it takes.
        steps: list[Step] = [self._close(previous)] if previous is not None else []
        if spare is not None and spare.wanted in (wanted, wanted.plain):
            self._run = spare
            return [*steps, *spare.ask(request, now)]
        if spare is not None:
            steps.append(self._close(spare))
        self._run = self._new(wanted)
        steps += [_prompt_file(self._run), *self._run.open()]
        return [*steps, *self._run.ask(request, now)]

    def _close(self, run: Run) -> Step:
        self._closed_bytes += run.input_bytes
        return run.close()

    def resume(self, request: Request, now: datetime) -> Sequence[Step]:
        assert self._run is not None
        return self._run.resume(request, now)

    def interrupt(self) -> Sequence[Step]:
        return self._run.interrupt() if self._run is not None else []

    # --- what is read --------------------------------------------------------------------------

    def receive(self, line: str) -> Sequence[Step]:
        frame = parse_line(line)
        run = self._by_channel(text(frame.get("channelId")))
        message = frame.get("message")
        if run is None or (message is None and "error" not in frame):
            return []
        if isinstance(message, dict):
            return run.receive(message)
        reason = text(frame.get("error")) or "it closed the conversation"
        return [Failed(ErrorCode.SPAWN_FAILED, f"vibe: {reason}")]

    def _by_channel(self, channel: str | None) -> Run | None:
        runs = (run for run in (self._run, self._spare) if run is not None)
        return next((run for run in runs if run.channel == channel), None)

    def called(self, connection: int, line: str) -> Sequence[Step]:
        """Handle a request on the socket, which all conversations share: `agent/initialize` when
        one starts, later requests for results of the current one.
        """
        question = parse_line(line)
        newest = self._spare or self._run
        if newest is None:
            return [ended("vibe", "asked before it was told anything")]
        if question.get("method") != "agent/initialize":
            return (self._run or newest).called(connection, question)
        result = {
            "protocolVersion": 2,
            "workspace": WORKSPACE,
            "python": "python3",
            "tools": newest.calls.offered(),
            "toolTimeoutSeconds": HOUR_S,
        }
        answer = {"jsonrpc": "2.0", "id": question.get("id"), "result": result}
        return [Reply(connection, line_of(answer))]

    def exited(self, exit: Exit) -> Sequence[Event]:
        if self.parked and exit.code is None and self._run is not None:
            return self._run.silent()
        return [Failed(ErrorCode.SPAWN_FAILED, exit.told("vibe"))]


def _prompt_file(run: Run) -> Put:
    parts = (run.wanted.system or NO_SYSTEM, run.calls.advice)
    prompt = "\n\n".join(part for part in parts if part)
    return Put(PROMPT_FILE, prompt.encode("utf-8", "replace"))
