"""Codex as a warm process: `codex app-server`.

Unlike `codex exec` it streams text, takes earlier turns as real turns, and sends error codes. One
process serves many conversations in sequence, each in a thread of its own that is not stored on
disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Finish, Quota
from olp.model import Message, Request, Role
from olp.providers.base import OPENING_S, Exit, Halt, Ready, Step, Write, ended, tried
from olp.providers.codex.failures import error_events
from olp.providers.codex.info import NO_SYSTEM
from olp.providers.codex.items import (
    input_of,
    items_of,
    names_of,
    readable,
    result_of,
    rpc_line,
    strict_schema,
    tools_of,
    usage_of,
)
from olp.providers.codex.survey import windows_of
from olp.providers.codex.turn import Turn
from olp.providers.shared.open_calls import OpenCalls, fits
from olp.providers.shared.rpc import Requests
from olp.providers.shared.tool_names import Names
from olp.providers.shared.transcript import system_of
from olp.providers.shared.wire import is_cut, parse_line, table

_RAW_ITEMS = ("message", "agent_message", "reasoning", "function_call_output")
"""Raw item types allowed besides calls of the client's tools."""

_CALLS = ("function_call", "custom_tool_call")

_REFUSED_CALLS = (-32600, -32602)
"""JSON-RPC error codes: invalid request, invalid params."""

_OF_THE_CLIENT = ("thread/start", "thread/inject_items", "turn/start")
"""Methods whose parameters contain text of the client."""

MAX_INPUT_CHARS = 1_000_000
"""The most characters of a turn's `input`. A longer message is injected with the earlier turns."""


class CodexSession:
    """The protocol of one app-server, whose threads use the working directory `work`."""

    reusable = True
    keeps_max_tokens = False

    def __init__(self, version: str, work: str) -> None:
        self._version = version
        self._work = work
        self._requests = Requests()
        self._thread_id: str | None = None
        self._turn_id: str | None = None
        self._turn: Turn | None = None
        self._request: Request | None = None
        self._schema: Mapping[str, Any] | None = None
        self._names = Names()
        self._open_calls: OpenCalls[int] = OpenCalls()
        self._truncated = False

    @property
    def parked(self) -> bool:
        """Whether the model waits for the results of calls."""
        return bool(self._open_calls)

    def takes(self, request: Request, model: str) -> bool:
        """Everything but a request to continue an assistant message."""
        return request.asks

    def opening_s(self, request: Request) -> float | None:
        """Reasoning and text are announced when they start, a call only when it is complete: a long
        one may be the first thing that the model writes.
        """
        return None if request.tools else OPENING_S

    def can_resume(self, request: Request) -> bool:
        """Whether the new messages can be passed on."""
        return fits(request.latest, parked=self.parked)

    # --- what is written -----------------------------------------------------------------------

    def _call(self, method: str, **params: Any) -> Write:
        return rpc_line(self._requests.new(method, params))

    def start(self) -> Sequence[Step]:
        client = {"name": "olp", "title": "OLP", "version": self._version}
        return [self._call("initialize", clientInfo=client, capabilities={"experimentalApi": True})]

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        # The previous conversation is over: release the memory it takes.
        previous = self._thread_id
        unsubscribe = (
            [self._call("thread/unsubscribe", threadId=previous)] if previous is not None else []
        )
        self._request, self._turn, self._thread_id = request, Turn(now), None
        self._names = names_of(request.tools)
        self._open_calls = OpenCalls(parallel=request.parallel_calls)
        self._schema = strict_schema(request)
        system = system_of(request, describe_format=self._schema is None)
        return [
            *unsubscribe,
            self._call(
                "thread/start",
                cwd=self._work,
                ephemeral=True,
                sandbox="read-only",
                approvalPolicy="never",
                environments=[],
                model=model,
                baseInstructions=system or NO_SYSTEM,
                # The raw events report the model's calls, and when they are complete.
                experimentalRawEvents=True,
                **tools_of(request.tools, self._names),
            ),
        ]

    def resume(self, request: Request, now: datetime) -> Sequence[Step]:
        self._request, self._turn = request, Turn(now)
        if self.parked:
            given = self._open_calls.give(request.latest)
            return [result_of(number, message) for number, message in given]
        assert self._thread_id is not None
        self._open_calls = OpenCalls(parallel=request.parallel_calls)
        return self._begin_turn(self._thread_id, request.latest)

    def interrupt(self) -> Sequence[Step]:
        if self._thread_id is None or self._turn_id is None:
            return []
        return [self._call("turn/interrupt", threadId=self._thread_id, turnId=self._turn_id)]

    def _thread_started(self, thread: str) -> Sequence[Step]:
        """Start the turn in the new thread."""
        assert self._request is not None
        self._thread_id = thread
        return self._begin_turn(thread, self._request.turns)

    def _begin_turn(self, thread: str, turns: Sequence[Message]) -> Sequence[Step]:
        """Inject the earlier turns, then start the one to be answered."""
        last = turns[-1]
        alone = last.role is Role.USER and len(last.text) <= MAX_INPUT_CHARS
        earlier = items_of(turns[:-1] if alone else turns, self._names)
        history = [self._call("thread/inject_items", threadId=thread, items=earlier)]
        return [*(history if earlier else []), self._start_turn(input_of(last) if alone else [])]

    def _start_turn(self, given: Sequence[Mapping[str, Any]]) -> Write:
        assert self._request is not None
        params: dict[str, Any] = {"threadId": self._thread_id, "input": given}
        if self._request.effort is not None:
            params["effort"] = self._request.effort.value
        if self._schema is not None:
            params["outputSchema"] = self._schema
        return self._call("turn/start", **params)

    # --- what is read --------------------------------------------------------------------------

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        method, number = message.get("method"), message.get("id")
        params = table(message.get("params"))
        if method is None and isinstance(number, int):
            return self._response(self._requests.answered(number), message)
        if method == "item/tool/call" and isinstance(number, int):
            return self._tool_call(number, params)
        if number is not None:
            return [ended("codex", f"asked for {method}")]
        if self._turn is None or params.get("threadId") not in (None, self._thread_id):
            return []
        return self._notification(str(method), params, self._turn)

    def _tool_call(self, number: int, params: Mapping[str, Any]) -> Sequence[Step]:
        """Handle a request for a call's result.

        The raw events have already reported the calls. A version without raw events reports a
        single call here, which ends the answer.
        """
        id = str(params.get("callId"))
        alone: list[Step] = []
        if not self._open_calls.knows(id):
            arguments = json.dumps(params.get("arguments"), ensure_ascii=False)
            alone = [
                *self._client_call(id, str(params.get("tool")), arguments),
                Done(Finish.TOOL_CALLS),
            ]
        given = self._open_calls.asked(id, number)
        return [*alone, *(result_of(number, message) for number, message in given)]

    def _client_call(self, id: str, shown: str, arguments: str) -> list[Step]:
        name = self._names.inward(shown)
        if name is None:
            return [tried("codex", shown), Halt()]
        return self._open_calls.called(id, name, arguments)

    def _raw_item(self, item: Mapping[str, Any]) -> Sequence[Step]:
        """Handle an item that the model wrote.

        The CLI would answer calls of other tools by itself, and calls whose arguments it cannot
        parse, and then ask the vendor again. The former fail; the latter are passed on to the
        client, and the answer ends without waiting for more.
        """
        kind = item.get("type")
        if kind not in _CALLS:
            return [] if kind in _RAW_ITEMS else [tried("codex", str(kind)), Halt()]
        arguments = str(item.get("arguments"))
        called = self._client_call(str(item.get("call_id")), str(item.get("name")), arguments)
        if readable(arguments):
            return called
        # perhaps cut by the token limit, which is reported later
        self._truncated = self._truncated or is_cut(arguments)
        return called if self._truncated else [*called, Done(Finish.TOOL_CALLS), Halt()]

    def _response_completed(self, counted: Mapping[str, Any], turn: Turn) -> Sequence[Step]:
        """The vendor's response is complete: all calls in it were reported."""
        turn.responded()
        if not self.parked:
            return []
        usage = [usage_of(counted)] if counted else []
        return [*usage, Done(Finish.TOOL_CALLS), *([Halt()] if self._truncated else [])]

    def _response(self, method: str, message: Mapping[str, Any]) -> Sequence[Step]:
        if "error" in message:
            return self._error_response(method, table(message["error"]))
        result = table(message.get("result"))
        match method:
            case "initialize":
                return [rpc_line({"method": "initialized"}), Ready()]
            case "thread/start":
                return self._thread_started(str(table(result.get("thread")).get("id")))
            case "turn/start":
                self._turn_id = table(result.get("turn")).get("id")
                return []
            case _:
                return []

    def _error_response(self, method: str, error: Mapping[str, Any]) -> Sequence[Step]:
        """Handle an error response, perhaps because the CLI cannot parse the client's text; a hop
        of another kind may be able to.
        """
        if method in ("turn/interrupt", "thread/unsubscribe"):
            return []
        message = str(error.get("message") or "no reason given")
        if self._turn is None:
            return [Failed(ErrorCode.SPAWN_FAILED, message)]
        events = error_events({"message": message}, self._turn.now)
        if not any(isinstance(e, Failed) and e.code is ErrorCode.UNKNOWN for e in events):
            return events
        at_fault = method in _OF_THE_CLIENT and error.get("code") in _REFUSED_CALLS
        return [Failed(ErrorCode.INCAPABLE if at_fault else ErrorCode.SPAWN_FAILED, message)]

    def _notification(self, method: str, params: Mapping[str, Any], turn: Turn) -> Sequence[Step]:
        match method:
            case "item/started" | "item/completed":
                return turn.item(table(params.get("item")), ended=method == "item/completed")
            case "item/agentMessage/delta":
                return turn.delta(params)
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                return turn.thought(params)
            case "turn/started":
                self._turn_id = table(params.get("turn")).get("id")
                return []
            case "rawResponseItem/completed" if params.get("turnId") == self._turn_id:
                calls = self._raw_item(table(params.get("item")))
                return turn.begins(calls) if calls else []
            case "rawResponse/completed":
                return self._response_completed(table(params.get("usage")), turn)
            case "thread/tokenUsage/updated":
                return [usage_of(table(table(params.get("tokenUsage")).get("last")))]
            case "account/rateLimits/updated":
                windows = windows_of(table(params.get("rateLimits")))
                return [Quota(windows)] if windows else []
            case "model/rerouted":
                return turn.rerouted(params)
            case "warning":
                return turn.warned(params)
            case "error":
                return turn.failing(params)
            case "turn/completed":
                return self._completed(table(params.get("turn")), turn)
            case _:
                return []

    def _completed(self, data: Mapping[str, Any], turn: Turn) -> Sequence[Step]:
        self._turn_id = None
        self._open_calls = OpenCalls()
        return turn.completed(data)

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Failed(ErrorCode.SPAWN_FAILED, exit.told("codex"))]
