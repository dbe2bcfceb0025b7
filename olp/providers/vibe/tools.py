"""The client's tools on Vibe, and the handling of Vibe's own.

It sends requests on a socket of OLP's, for the list of tools and for the result of each call. Its
own tools cannot be removed. They would run in the environment behind the socket, which does not
exist, and the CLI asks for approval before each use. A call of one that shares its name with a tool
of the client's is passed to that tool; for any other the model gets an error that lists the
available tools.

All calls of a turn have been made when the CLI has answered a request that it processes after them
(`BARRIER`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from olp.model import CANCELLED, Message, Tool
from olp.providers.base import Reply, Settle, Step, ended
from olp.providers.shared.open_calls import OpenCalls
from olp.providers.shared.tool_names import Names
from olp.providers.shared.tool_schemas import is_strict, offered
from olp.providers.shared.wire import line_of, table, text, whole
from olp.providers.vibe.info import OWN_TOOLS
from olp.providers.vibe.own import OWN, fitted, written

TAKEN = (*OWN_TOOLS, "search_tool_functions", "wait", "sleep")
"""Names of its own tools; it does not start with a client's tool of such a name."""

_NAMESPACE = "client"
_LONGEST = 64

_CODE = "typescript:"
"""Prefix of the id of a call made by code that the model wrote."""

MAX_RESULT_CHARS = 15_000
"""Characters of a result that is passed to an open call: the CLI truncates a longer one."""

QUIET_S = 0.25
"""Seconds without a further call after which the model has made all of its calls, where the CLI
does not support `BARRIER`.
"""

HOUR_S = 3600


class SessionCall(NamedTuple):
    """A request to the CLI about the current session."""

    method: str
    params: Mapping[str, Any]


BARRIER = SessionCall(
    "session/backgroundProcess/output",
    {"processId": "none", "fromEnd": True, "cursor": 0, "waitMs": 0, "maxBytes": 1},
)
"""Asks for the output of a process that does not exist. The CLI answers after it has started all
calls of the turn, since both take the same lock in order of arrival.
"""


class _Question(NamedTuple):
    """A request for the result of a call: its connection on the socket, and its JSON-RPC id."""

    connection: int
    number: Any


class _Approval(NamedTuple):
    """A request for approval to call its own tool; `effect` is the history entry of the call."""

    id: str
    effect: str
    name: str


Action = Step | SessionCall


class Calls:
    """The calls of one conversation."""

    def __init__(self, tools: Sequence[Tool], *, parallel: bool) -> None:
        self._tools = tools
        self._by_name = {tool.name: tool for tool in tools}
        self._names = Names(tools, longest=_LONGEST, taken=TAKEN, identifier=True)
        self._open: OpenCalls[_Question | _Approval] = OpenCalls(parallel=parallel)
        self._announced: set[str] = set()
        self._requested: set[str] = set()
        self._barrier_sent = self._barrier_passed = self._by_timeout = self._ended = False
        self._approvals: deque[tuple[_Approval, str]] = deque()

    # --- what the model is offered -------------------------------------------------------------

    def offered(self) -> list[dict[str, Any]]:
        """The client's tools, in the CLI's format."""
        return [self._definition(tool) for tool in self._tools]

    def _definition(self, tool: Tool) -> dict[str, Any]:
        definition = offered(tool, fits=is_strict(tool.parameters))
        name, description = self._names.outward(tool.name), whole(definition["description"])
        own = {"namespace": _NAMESPACE, "name": name, "modelAccess": "direct"}
        return definition | own | {"description": description}

    @property
    def advice(self) -> str:
        """System prompt text about renamed tools, whose names the CLI has taken; empty if there are
        none.
        """
        renamed = [(name, self._names.outward(name)) for name in self._by_name if name in TAKEN]
        if not renamed:
            return ""
        own = ", ".join(name for name, _ in renamed)
        return f"Switched off: {own}. Call instead: {', '.join(other for _, other in renamed)}."

    # --- the calls of one turn -----------------------------------------------------------------

    @property
    def parked(self) -> bool:
        """Whether the model waits for the results of calls."""
        return bool(self._open)

    def take_end(self) -> bool:
        """Whether the model has just made all of its calls; true only once per turn."""
        if self._ended or not self._barrier_passed or self._announced or not self._open:
            return False
        self._ended = True
        return True

    def next_request(self) -> None:
        """The vendor was asked again, so earlier calls are finished."""
        self._announced.clear()
        self._barrier_sent = self._barrier_passed = self._ended = False

    def announced(self, effect: str, entry: Mapping[str, Any]) -> Sequence[Action]:
        """A history entry shows a call. The CLI's request for it comes on another connection,
        before or after.
        """
        if not _is_under_way(table(entry.get("state")).get("status")):
            return []
        if effect not in self._requested:
            self._announced.add(effect)
        sent, self._barrier_sent = self._barrier_sent, True
        return [] if sent else [BARRIER]

    def barrier_answered(self, error: Mapping[str, Any]) -> Sequence[Action]:
        """The CLI has answered `BARRIER`."""
        if error.get("code") == "not_found":
            self._barrier_passed = True
            return []
        self._by_timeout = True  # this version does not support the request
        return [Settle(QUIET_S)]

    def updated(self, effect: str, patch: Sequence[Mapping[str, Any]]) -> Sequence[Action]:
        """The history entry of a call has changed."""
        states = [c.get("value") for c in patch if c.get("path") in ("/state/status", "/state")]
        if not states or _is_under_way(states[-1]):
            return []
        self._announced.discard(effect)
        if not self._approvals or self._approvals[0][0].effect != effect:
            return []
        self._approvals.popleft()
        return self._approve_next()

    # --- what the CLI asks on its socket --------------------------------------------------------

    def called(self, connection: int, question: Mapping[str, Any]) -> Sequence[Action]:
        """A request of the current session on the socket."""
        params = table(question.get("params"))
        asked = _Question(connection, question.get("id"))
        match question.get("method"):
            case "tools/call":
                return self._tool_call(asked, params)
            case "sandbox/execute":
                return [_reply(asked, self._command_result())]
            case "sandbox/readFile":
                return [_reply(asked, {"contentBase64": None})]
            case other:
                return [ended("vibe", f"asked for {other}")]

    def _tool_call(self, asked: _Question, params: Mapping[str, Any]) -> Sequence[Action]:
        shown = (text(params.get("name")) or "").removeprefix(f"{_NAMESPACE}.")
        name, id = self._names.inward(shown), text(params.get("toolCallId"))
        if name is None or id is None:
            return [ended("vibe", f"asked for {shown}", by_model=True)]
        action = (text(params.get("callbackId")) or "").removeprefix("client_tool:")
        self._mark_requested(f"effect-{action}")
        arguments = json.dumps(params.get("input"), ensure_ascii=False)
        return self._open_call(id, name, arguments, asked)

    def _mark_requested(self, effect: str) -> None:
        self._requested.add(effect)
        self._announced.discard(effect)

    def _open_call(
        self, id: str, name: str, arguments: str, asked: _Question | _Approval
    ) -> Sequence[Action]:
        steps = self._open.called(id, name, arguments)
        self._open.asked(id, asked)
        return [*steps, *([Settle(QUIET_S)] if self._by_timeout else [])]

    def _command_result(self) -> dict[str, Any]:
        """The result of a command, which is not run: the message for the call that was approved."""
        message = self._approvals[0][1] if self._approvals else "there is nothing here"
        output = json.dumps({"ok": False, "error": whole(message)})
        return {"exitCode": 0, "stdout": output, "stderr": ""}

    # --- its own tools --------------------------------------------------------------------------

    def approval_requested(self, callback: Mapping[str, Any]) -> Sequence[Action]:
        """The model calls a tool of the CLI's own, which asks for approval."""
        effect = table(table(callback.get("detail")).get("effect"))
        shown = text(effect.get("toolName")) or "a tool"
        name = OWN.get(shown, shown)
        entry = text(callback.get("relatedEntryId")) or ""
        asked = _Approval(text(callback.get("callbackId")) or "", entry, name)
        self._mark_requested(entry)
        id = asked.id.removeprefix("approval-")
        if name not in self._by_name or id.startswith(_CODE):
            there = ", ".join(map(self._names.outward, self._by_name))
            return self._approve(asked, f"{name} is switched off. There are: {there}.")
        arguments = fitted(written(table(effect.get("input"))), self._by_name[name])
        return self._open_call(id, name, json.dumps(arguments, ensure_ascii=False), asked)

    def _approve(self, asked: _Approval, message: str) -> Sequence[Action]:
        """Approve the call, with `message` as its result.

        One at a time, since a command does not name the call it belongs to.
        """
        self._approvals.append((asked, message))
        return self._approve_next() if len(self._approvals) == 1 else []

    def _approve_next(self) -> Sequence[Action]:
        if not self._approvals:
            return []
        output = {"type": "approval", "decision": {"type": "approve"}}
        result = {"callbackId": self._approvals[0][0].id, "output": output}
        return [SessionCall("callback/result", {"result": result})]

    # --- the results ----------------------------------------------------------------------------

    def give(self, results: Sequence[Message]) -> Sequence[Action]:
        """Pass on the client's results."""
        actions: list[Action] = []
        for asked, message in self._open.give(results):
            content = message.text if message else CANCELLED
            if isinstance(asked, _Approval):
                other = self._names.outward(asked.name)
                lead = f"{asked.name} is switched off, so {other} was called, which gave:\n"
                actions += self._approve(asked, lead + content)
            elif message is None or message.cancelled:
                error = {"code": "cancelled", "message": content}
                actions.append(_reply(asked, {"error": error}))
            else:
                actions.append(_reply(asked, {"output": whole(content)}))
        self.next_request()
        return actions


def _is_under_way(status: Any) -> bool:
    """Whether a call with this `status` has no result yet."""
    return status in ("pending", "running", "blocked")


def _reply(asked: _Question, result: Mapping[str, Any]) -> Reply:
    answer = {"jsonrpc": "2.0", "id": asked.number, "result": result}
    return Reply(asked.connection, line_of(answer))
