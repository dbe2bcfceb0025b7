"""Vibe as a process that waits for its requests: `vibe-acp`, the Agent Client Protocol.

Its model and its limits are those it was started with. A session takes its time to begin, so a
spare one is begun ahead, but not in the moment after an answer, in which the conversation may go
on; the system prompt, which is not known then, goes in front of the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, Event, Failed, Finish, Reasoning, Started, Text, Trouble, Usage
from olp.model import Message, Request, Role
from olp.providers.base import OPENING_S, Exit, Halt, Ready, Step, Write, ended, json_line, tried
from olp.providers.opencalls import fits
from olp.providers.transcript import numbered, system_of, transcript
from olp.providers.vibe_facts import explain
from olp.providers.wire import parse_line

_CODES: Mapping[int, Trouble] = {
    -32000: Trouble.AUTH_MISSING,
    -31001: Trouble.RATE_LIMITED,
    -31003: Trouble.CONTEXT_TOO_LONG,
    -31004: Trouble.CONTEXT_TOO_LONG,
    -31005: Trouble.BAD_REQUEST,
}

_STOPS: Mapping[str, Finish] = {
    "end_turn": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "refusal": Finish.CONTENT_FILTER,
}


MAX_TOLD_BYTES = 4 * 1024 * 1024
"""What one process is told at most: it keeps some eight times as much in its private folder."""


class VibeSession:
    """The protocol of one such process, started for `model` and the limits of `request`."""

    keeps_max_tokens = False

    def __init__(self, model: str, request: Request, work: str) -> None:
        self._model = model
        self._made_for = request.effort, request.max_tokens
        self._work = work
        self._count = 0
        self._calls: dict[int, str] = {}
        self._spare: str | None = None
        self._session: str | None = None
        self._prompting = False
        self._counted = Usage()
        self._now: datetime | None = None
        self._told_bytes = 0

    def takes(self, request: Request, model: str) -> bool:
        """Only the model and the effort that the process was started with, as many tokens, and no
        tools."""
        asked = request.asks and not request.tools
        effort, limit = self._made_for
        within = limit is None or limit == request.max_tokens
        return asked and model == self._model and request.effort == effort and within

    @property
    def reusable(self) -> bool:
        """Until it was told so much: that lies in its folder until it ends."""
        return self._told_bytes < MAX_TOLD_BYTES

    @property
    def parked(self) -> bool:
        """It is offered no tools."""
        return False

    def opening_s(self, request: Request) -> float | None:
        """Text and thinking are passed on as they come."""
        return OPENING_S

    def goes_on(self, request: Request) -> bool:
        """With what the user says next."""
        return fits(request.latest, parked=False)

    # --- what is written -----------------------------------------------------------------------

    def _call(self, method: str, **params: Any) -> Write:
        self._count += 1
        self._calls[self._count] = method
        return _line(id=self._count, method=method, params=params)

    def start(self) -> Sequence[Step]:
        nothing = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        return [self._call("initialize", protocolVersion=1, clientCapabilities=nothing)]

    def _new(self) -> Write:
        return self._call("session/new", cwd=self._work, mcpServers=[])

    def prepare(self) -> Sequence[Step]:
        begun = self._spare is not None or "session/new" in self._calls.values()
        return [] if begun or self._session is None else [self._new()]

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        over, self._session, self._spare = self._session, self._spare, None
        self._counted = Usage()
        # The conversation before is over: what the process keeps of it is given free.
        forget = [self._call("session/close", sessionId=over)] if over is not None else []
        system = system_of(request, describe_format=True)
        before = (Message(Role.SYSTEM, system),) if system else ()
        return [*forget, *self._prompt((*before, *request.turns), now)]

    def more(self, request: Request, now: datetime) -> Sequence[Step]:
        return self._prompt(request.latest, now)

    def _prompt(self, turns: Sequence[Message], now: datetime) -> Sequence[Step]:
        self._now, self._prompting = now, True
        media = [m for turn in turns for m in turn.media]
        turns = numbered(turns)
        text = turns[0].text
        if len(turns) > 1 or text.lstrip().startswith(("/", "!", "@")):
            # Between tags nothing is at the beginning, where it could be taken for a command.
            text = transcript(turns)
        prompt: list[dict[str, Any]] = [{"type": "text", "text": text}]
        self._told_bytes += len(text) + sum(len(image.data) for image in media)
        prompt += [{"type": "image", "data": m.data, "mimeType": m.media_type} for m in media]
        return [self._call("session/prompt", sessionId=self._session, prompt=prompt)]

    def interrupt(self) -> Sequence[Step]:
        return [_line(method="session/cancel", params={"sessionId": self._session})]

    # --- what is read --------------------------------------------------------------------------

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        method, number = message.get("method"), message.get("id")
        if method is None and isinstance(number, int):
            return self._answered(self._calls.pop(number, ""), message)
        if number is not None and method is not None:
            return [ended("vibe", f"asked for {method}")]
        params = message.get("params") or {}
        if method != "session/update" or params.get("sessionId") != self._session:
            return []
        return self._updated(params.get("update") or {}) if self._prompting else []

    def _answered(self, method: str, message: Mapping[str, Any]) -> Sequence[Step]:
        result = message.get("result") or {}
        if error := message.get("error"):
            return [] if method == "session/close" else [self._failed(error)]
        match method:
            case "initialize":
                return [self._new()]
            case "session/new":
                self._spare = str(result.get("sessionId"))
                return [Ready()]
            case "session/prompt":
                return self._ended(result)
            case _:
                return []

    def _updated(self, update: Mapping[str, Any]) -> Sequence[Step]:
        text = str((update.get("content") or {}).get("text") or "")
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                return [Started(), Text(text)]
            case "agent_thought_chunk":
                return [Started(), Reasoning(text)]
            case "tool_call" | "tool_call_update":
                return [tried("vibe", str(update.get("title"))), Halt()]
            case _:
                return []

    def _ended(self, result: Mapping[str, Any]) -> Sequence[Step]:
        self._prompting = False
        counted = self._own_usage(result.get("usage") or {})
        finish = _STOPS.get(str(result.get("stopReason")))
        if finish is None:
            said = f"vibe ended its turn with {result.get('stopReason')}"
            return [Failed(Trouble.SPAWN_FAILED, said)]
        return [counted, Done(finish)]

    def _own_usage(self, told: Mapping[str, Any]) -> Usage:
        """The CLI counts over its whole session; the difference is this answer's."""
        before = self._counted
        self._counted = Usage(
            input=told.get("inputTokens") or 0,
            output=told.get("outputTokens") or 0,
            cached=told.get("cachedReadTokens") or 0,
        )
        return Usage(
            input=max(0, self._counted.input - before.input),
            output=max(0, self._counted.output - before.output),
            cached=max(0, self._counted.cached - before.cached),
        )

    def _failed(self, error: Mapping[str, Any]) -> Failed:
        said = str(error.get("message") or "vibe gave no reason")
        code = error.get("code")
        known = _CODES.get(code) if isinstance(code, int) else None
        if self._now is None:
            return Failed(known or Trouble.SPAWN_FAILED, said)
        return explain(said, known, self._now)

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Failed(Trouble.SPAWN_FAILED, exit.told("vibe"))]


def _line(**message: Any) -> Write:
    return json_line({"jsonrpc": "2.0", **message})
