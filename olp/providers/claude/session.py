"""Claude Code as a warm process.

It is started with stream-json on standard input and nothing of a request in its arguments; system
prompt, model, schema and limits are set through its control protocol. Earlier turns are sent as
real turns, one at a time: a user turn that is not to be answered ends with a `result` with zero
turns, and only then may the next line be written, or the order is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Usage
from olp.model import Effort, Request
from olp.providers.base import OPENING_S, Driver, Exit, Halt, Ready, Step, Write, ended
from olp.providers.claude.bridge import SERVER, Bridge, takes_live
from olp.providers.claude.history import lines_of
from olp.providers.claude.notices import refused_model
from olp.providers.claude.survey import control
from olp.providers.shared.open_calls import fits
from olp.providers.shared.tool_names import Names
from olp.providers.shared.transcript import system_of
from olp.providers.shared.wire import parse_line, table, text

EFFORTS = {
    Effort.MINIMAL: "low",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "xhigh",
}

_PING, _MODEL = "olp-ping", "olp-model"


Parser = Callable[[bool, datetime, Names, bool], Driver]
"""Factory for the driver of one answer. Arguments: whether it is structured, the local time, the
names of the client's tools, and whether it continues after results of such tools.
"""


class ClaudeSession:
    """The protocol of one warm process. `parser` creates the driver of each answer, as in a
    one-shot run.
    """

    reusable = False
    keeps_max_tokens = True

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._turn: Driver | None = None
        self._history: deque[tuple[Write, bool]] = deque()
        self._awaiting_result = False
        self._cost = 0.0
        self._bridge = Bridge(())

    @property
    def parked(self) -> bool:
        """Whether the model waits for the results of calls."""
        return bool(self._bridge.calls) and self._turn is None

    def can_resume(self, request: Request) -> bool:
        """Whether the new messages can be passed on, unchanged if they are tool results."""
        latest, parked = request.latest, self.parked
        return fits(latest, parked=parked) and (not parked or takes_live(latest))

    def takes(self, request: Request, model: str) -> bool:
        """Everything but a request to continue an assistant message."""
        return request.asks

    def opening_s(self, request: Request) -> float | None:
        """The CLI forwards the vendor's first event at once."""
        return OPENING_S

    def start(self) -> Sequence[Step]:
        return [control(_PING, subtype="set_permission_mode", mode="dontAsk")]

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        schema = request.format.schema if request.format else None
        system = system_of(request, describe_format=schema is None)
        initialize: dict[str, Any] = {"subtype": "initialize", "systemPrompt": system}
        if schema is not None:
            initialize["jsonSchema"] = schema
        if request.tools:
            initialize["sdkMcpServers"] = [SERVER]
        self._bridge = Bridge(request.tools, parallel=request.parallel_calls)
        settings = _settings(request, model)
        # `set_model` comes last, and nothing of the conversation is sent before it succeeded:
        # the CLI would go on with another model if it was rejected.
        steps = [
            control("olp-initialize", **initialize),
            control("olp-settings", subtype="apply_flag_settings", settings=settings),
            control(_MODEL, subtype="set_model", model=model),
        ]
        self._history = deque(lines_of(request, request.turns, self._bridge.names))
        self._turn = self._parser(schema is not None, now, self._bridge.names, False)
        return steps

    def resume(self, request: Request, now: datetime) -> Sequence[Step]:
        schema = request.format.schema if request.format else None
        parked = self.parked
        self._turn = self._parser(schema is not None, now, self._bridge.names, parked)
        if parked:
            return self._bridge.answer(request.latest)
        self._history = deque(lines_of(request, request.latest, self._bridge.names))
        return self._next_lines()

    def interrupt(self) -> Sequence[Step]:
        return [control("olp-interrupt", subtype="interrupt")]

    def _next_lines(self) -> list[Step]:
        """The lines that may be written before the CLI has to respond."""
        steps: list[Step] = []
        self._awaiting_result = False
        while self._history and not self._awaiting_result:
            write, self._awaiting_result = self._history.popleft()
            steps.append(write)
        return steps

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        if message.get("type") == "control_response":
            return self._control_response(table(message.get("response")))
        if message.get("type") == "control_request":
            return self._control_request(message)
        if self._turn is None:
            return self._unrequested(message) if self.parked else []
        if self._awaiting_result:
            quiet = message.get("type") == "result" and message.get("num_turns") == 0
            return self._next_lines() if quiet and not message.get("is_error") else []
        return self._emit(self._turn.receive(line))

    def _unrequested(self, message: Mapping[str, Any]) -> Sequence[Step]:
        """Fail if the CLI continues without a request: it has answered a call by itself."""
        begins = table(message.get("event")).get("type") == "message_start"
        if begins or message.get("type") == "result" or message.get("subtype") == "api_retry":
            return [ended("claude", "went on by itself"), Halt()]
        return []

    def _control_response(self, response: Mapping[str, Any]) -> Sequence[Step]:
        match response.get("request_id"), response.get("subtype"):
            case str(id), _ if id == _PING:
                return [Ready()]
            case str(id), "error" if id == _MODEL:
                return self._emit([refused_model(text(response.get("error")) or "")])
            case str(id), _ if id == _MODEL and self._turn is not None:
                return self._next_lines()
            case "olp-interrupt", _:
                return []
            case _, "error":
                reason = text(response.get("error")) or "no reason given"
                return self._emit([Failed(ErrorCode.SPAWN_FAILED, reason)])
        return []

    def _control_request(self, message: Mapping[str, Any]) -> Sequence[Step]:
        request = table(message.get("request"))
        if request.get("subtype") == "mcp_message" and request.get("server_name") == SERVER:
            return self._bridge.receive(str(message.get("request_id")), request)
        return self._emit([ended("claude", f"asked for {request.get('subtype')}")])

    def _emit(self, steps: Sequence[Step]) -> Sequence[Step]:
        steps = [self._own_cost(step) if isinstance(step, Usage) else step for step in steps]
        steps = self._bridge.calls.track(steps)
        if any(isinstance(step, Done | Failed) for step in steps):
            self._turn = None
        return steps

    def _own_cost(self, usage: Usage) -> Usage:
        """The CLI reports the total cost of its process; the difference is this answer's."""
        if usage.cost is None:
            return usage
        cost, self._cost = usage.cost - self._cost, usage.cost
        return replace(usage, cost=cost)

    def exited(self, exit: Exit) -> Sequence[Event]:
        if self._turn is not None:
            return self._turn.exited(exit)
        return [Failed(ErrorCode.SPAWN_FAILED, exit.told("claude"))]


def _settings(request: Request, model: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    # Without this, the CLI sends a "Hi" to the vendor to test a model that it does not know.
    env = {"ANTHROPIC_CUSTOM_MODEL_OPTION": model}
    if request.max_tokens is not None:
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_tokens)
    if request.effort is Effort.NONE:
        env["MAX_THINKING_TOKENS"] = "0"
    elif request.effort is not None:
        settings["effortLevel"] = EFFORTS[request.effort]
    return settings | {"env": env}
