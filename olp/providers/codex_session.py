"""Codex as a process that waits for its requests: `codex app-server`.

Unlike `codex exec` it streams the text, takes earlier turns as true turns, and says in a code what
went wrong. One process takes one conversation after another, each as a thread of its own that is
written nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import (
    Done,
    Event,
    Failed,
    Finish,
    Quota,
    Reasoning,
    Started,
    Text,
    Trouble,
)
from olp.model import Message, Request, Role
from olp.providers.base import OPENING_S, Exit, Halt, Ready, Step, Write, ended, json_line, tried
from olp.providers.codex_facts import NO_SYSTEM, explained
from olp.providers.codex_items import (
    input_of,
    items_of,
    names_of,
    result_of,
    strict_schema,
    tools_of,
    usage_of,
)
from olp.providers.codex_survey import windows_of
from olp.providers.opencalls import OpenCalls, fits
from olp.providers.toolnames import Names
from olp.providers.transcript import system_of
from olp.providers.wire import is_cut, is_json, parse_line

_HARMLESS_ITEMS = ("userMessage", "agentMessage", "reasoning", "plan", "dynamicToolCall")

MAX_INPUT_CHARS = 1_000_000
"""Characters that a turn can be started with. What is longer goes in with the earlier turns."""


class CodexSession:
    """The protocol of one app-server, whose threads work in the folder `work`."""

    reusable = True
    keeps_max_tokens = False

    def __init__(self, version: str, work: str) -> None:
        self._version = version
        self._work = work
        self._count = 0
        self._calls: dict[int, str] = {}
        self._thread: str | None = None
        self._turn: str | None = None
        self._request: Request | None = None
        self._schema: Mapping[str, Any] | None = None
        self._now: datetime | None = None
        self._commentary: dict[str, bool] = {}
        self._names = Names()
        self._calls_open: OpenCalls[int] = OpenCalls()
        self._cut = False

    @property
    def parked(self) -> bool:
        """Whether the model waits for the results of calls."""
        return bool(self._calls_open)

    def takes(self, request: Request, model: str) -> bool:
        """Everything but a conversation that the assistant is to go on with."""
        return request.asks

    def opening_s(self, request: Request) -> float | None:
        """Thinking and text are announced as they begin, a call only when it is whole: a long one
        may be the first that the model writes."""
        return None if request.tools else OPENING_S

    def goes_on(self, request: Request) -> bool:
        """With what can be handed over."""
        return fits(request.latest, parked=self.parked)

    # --- what is written -----------------------------------------------------------------------

    def _call(self, method: str, **params: Any) -> Write:
        self._count += 1
        self._calls[self._count] = method
        return json_line({"id": self._count, "method": method, "params": params})

    def start(self) -> Sequence[Step]:
        client = {"name": "olp", "title": "OLP", "version": self._version}
        return [self._call("initialize", clientInfo=client, capabilities={"experimentalApi": True})]

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        # The conversation before is over: what the process keeps of it is given free.
        over = self._thread
        forget = [self._call("thread/unsubscribe", threadId=over)] if over is not None else []
        self._request, self._now, self._thread = request, now, None
        self._names = names_of(request.tools)
        self._calls_open = OpenCalls(parallel=request.parallel_calls)
        self._schema = strict_schema(request)
        system = system_of(request, describe_format=self._schema is None)
        return [
            *forget,
            self._call(
                "thread/start",
                cwd=self._work,
                ephemeral=True,
                sandbox="read-only",
                approvalPolicy="never",
                environments=[],
                model=model,
                baseInstructions=system or NO_SYSTEM,
                # The raw events tell what the model wants called, and when that is all.
                experimentalRawEvents=True,
                **tools_of(request.tools, self._names),
            ),
        ]

    def more(self, request: Request, now: datetime) -> Sequence[Step]:
        self._request, self._now = request, now
        if self.parked:
            given = self._calls_open.give(request.latest)
            return [result_of(number, message) for number, message in given]
        assert self._thread is not None
        self._calls_open = OpenCalls(parallel=request.parallel_calls)
        return self._begin_turn(self._thread, request.latest)

    def interrupt(self) -> Sequence[Step]:
        if self._thread is None or self._turn is None:
            return []
        return [self._call("turn/interrupt", threadId=self._thread, turnId=self._turn)]

    def _begin(self, thread: str) -> Sequence[Step]:
        """The thread is there."""
        assert self._request is not None
        self._thread = thread
        return self._begin_turn(thread, self._request.turns)

    def _begin_turn(self, thread: str, turns: Sequence[Message]) -> Sequence[Step]:
        """Earlier turns first, then the one to be answered."""
        last = turns[-1]
        alone = last.role is Role.USER and len(last.text) <= MAX_INPUT_CHARS
        earlier = items_of(turns[:-1] if alone else turns, self._names)
        history = [self._call("thread/inject_items", threadId=thread, items=earlier)]
        return [*(history if earlier else []), self._start_turn(input_of(last) if alone else [])]

    def _start_turn(self, given: Sequence[Mapping[str, Any]]) -> Write:
        assert self._request is not None
        params: dict[str, Any] = {"threadId": self._thread, "input": given}
        if self._request.effort is not None:
            params["effort"] = self._request.effort.value
        if self._schema is not None:
            params["outputSchema"] = self._schema
        return self._call("turn/start", **params)

    # --- what is read --------------------------------------------------------------------------

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        method, number = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method is None and isinstance(number, int):
            return self._answered(self._calls.pop(number, ""), message)
        if method == "item/tool/call" and isinstance(number, int):
            return self._tool_call(number, params)
        if number is not None:
            return [ended("codex", f"asked for {method}")]
        if params.get("threadId") not in (None, self._thread):
            return []
        return self._notified(str(method), params)

    def _tool_call(self, number: int, params: Mapping[str, Any]) -> Sequence[Step]:
        """The CLI asks for a result. Which calls there are was told before, by the raw events; a
        version without them tells of one call here, and that is the answer's end."""
        id = str(params.get("callId"))
        alone: list[Step] = []
        if not self._calls_open.knows(id):
            said = json.dumps(params.get("arguments"), ensure_ascii=False)
            alone = [*self._called(id, str(params.get("tool")), said), Done(Finish.TOOL_CALLS)]
        given = self._calls_open.asked(id, number)
        return [*alone, *(result_of(number, message) for number, message in given)]

    def _called(self, id: str, shown: str, arguments: str) -> list[Step]:
        name = self._names.inward(shown)
        if name is None:
            return [tried("codex", shown), Halt()]
        return self._calls_open.called(id, name, arguments)

    def _raw_item(self, item: Mapping[str, Any]) -> Sequence[Step]:
        """What the model wrote. Any other tool the CLI would answer for by itself, and would ask
        again as soon as the vendor's answer is whole; arguments that are no JSON as well, but those
        are for the client to see. So neither is waited for longer."""
        if item.get("type") not in ("function_call", "custom_tool_call"):
            return []
        arguments = str(item.get("arguments"))
        called = self._called(str(item.get("call_id")), str(item.get("name")), arguments)
        if is_json(arguments):
            return called
        self._cut = self._cut or is_cut(arguments)  # perhaps by the vendor's limit, which is told
        return called if self._cut else [*called, Done(Finish.TOOL_CALLS), Halt()]

    def _responded(self, counted: Mapping[str, Any] | None) -> Sequence[Step]:
        """The vendor's answer is whole: all that the model calls for was told."""
        if not self.parked:
            return []
        usage = [usage_of(counted)] if counted else []
        return [*usage, Done(Finish.TOOL_CALLS), *([Halt()] if self._cut else [])]

    def _answered(self, method: str, message: Mapping[str, Any]) -> Sequence[Step]:
        if error := message.get("error"):
            said = str(error.get("message") or "no reason given")
            quiet = method in ("turn/interrupt", "thread/unsubscribe")
            return [] if quiet else [self._failed({"message": said})]
        result = message.get("result") or {}
        match method:
            case "initialize":
                return [json_line({"method": "initialized"}), Ready()]
            case "thread/start":
                return self._begin(str((result.get("thread") or {}).get("id")))
            case "turn/start":
                self._turn = (result.get("turn") or {}).get("id")
                return []
            case _:
                return []

    def _notified(self, method: str, params: Mapping[str, Any]) -> Sequence[Step]:
        match method:
            case "item/started" | "item/completed":
                return self._item(method, params.get("item") or {})
            case "item/agentMessage/delta":
                text = str(params.get("delta") or "")
                said = self._commentary.get(str(params.get("itemId")))
                return [Reasoning(text) if said else Text(text)]
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                return [Reasoning(str(params.get("delta") or ""))]
            case "turn/started":
                self._turn = (params.get("turn") or {}).get("id")
                return []
            case "rawResponseItem/completed" if params.get("turnId") == self._turn:
                return self._raw_item(params.get("item") or {})
            case "rawResponse/completed":
                return self._responded(params.get("usage"))
            case "thread/tokenUsage/updated":
                return [usage_of((params.get("tokenUsage") or {}).get("last") or {})]
            case "account/rateLimits/updated":
                windows = windows_of(params.get("rateLimits") or {})
                return [Quota(windows)] if windows else []
            case "error":
                return self._error(params)
            case "turn/completed":
                return self._completed(params.get("turn") or {})
            case _:
                return []

    def _item(self, moment: str, item: Mapping[str, Any]) -> Sequence[Step]:
        kind = item.get("type")
        if kind == "contextCompaction":
            what = "the conversation is too long: codex would go on with a summary of it"
            return [Failed(Trouble.CONTEXT_TOO_LONG, what)]
        if kind not in _HARMLESS_ITEMS:
            return [tried("codex", str(kind)), Halt()]
        if kind == "agentMessage":
            # What the model says on its way to the answer is marked as such.
            self._commentary[str(item.get("id"))] = item.get("phase") == "commentary"
        first = moment == "item/started" and kind in ("agentMessage", "reasoning")
        return [Started()] if first else []

    def _error(self, params: Mapping[str, Any]) -> Sequence[Step]:
        """Told again when the turn ends, unless the CLI would go on by asking once more."""
        error = params.get("error") or {}
        if not params.get("willRetry"):
            return []
        failed = self._failed(error)
        lasting = (Trouble.AUTH_MISSING, Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)
        return [failed] if failed.trouble in lasting else []

    def _completed(self, turn: Mapping[str, Any]) -> Sequence[Step]:
        self._turn = None
        self._calls_open = OpenCalls()
        self._commentary.clear()
        error = turn.get("error")
        said = str((error or {}).get("message") or "")
        if "max_output_tokens" in said:
            return [Done(Finish.LENGTH)]
        if "content_filter" in said:
            return [Done(Finish.CONTENT_FILTER)]
        if turn.get("status") != "completed" or error:
            return [self._failed(error or {})]
        return [Done(), Ready()]

    def _failed(self, error: Mapping[str, Any]) -> Failed:
        if self._now is None:
            return Failed(Trouble.SPAWN_FAILED, str(error.get("message")))
        return explained(error, self._now)

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Failed(Trouble.SPAWN_FAILED, exit.told("codex"))]
