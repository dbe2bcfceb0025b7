"""The client's tools on Vibe, and what becomes of its own.

It asks on a socket of OLP's which tools there are, and then for the result of each call. Its own
tools cannot be taken away from the model. They run where the socket says, which is nowhere, and the
CLI asks before each use. A call of one whose name is also that of a tool of the client's is handed
to that tool; for any other the model is told which tools there are.

All calls of a turn are made when the CLI has answered a question whose answer has to wait behind
them.
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
"""In the id of a call that code of the model's makes."""

MAX_RESULT_CHARS = 15_000
"""Characters of a result that is handed over to an open call: the CLI cuts a longer one."""

QUIET_S = 0.25
"""Without a further call for so long, the model has made all of its calls: where the CLI cannot be
asked."""

HOUR_S = 3600


class Ask(NamedTuple):
    """Something to ask the CLI, of the session at hand."""

    method: str
    params: Mapping[str, Any]


BARRIER = Ask(
    "session/backgroundProcess/output",
    {"processId": "none", "fromEnd": True, "cursor": 0, "waitMs": 0, "maxBytes": 1},
)
"""For a process that is not there. The CLI looks for it when it has begun all calls of the turn,
since it does either under the same lock, in the order in which it came to them."""


class _Question(NamedTuple):
    """For the result of a call: its connection on the socket, and its number there."""

    connection: int
    number: Any


class _Approval(NamedTuple):
    """For leave to use a tool of its own; `effect` is the entry that shows the call."""

    id: str
    effect: str
    name: str


Wish = Step | Ask


class Calls:
    """Those of one conversation."""

    def __init__(self, tools: Sequence[Tool], *, parallel: bool) -> None:
        self._tools = tools
        self._theirs = {tool.name: tool for tool in tools}
        self._names = Names(tools, longest=_LONGEST, taken=TAKEN, identifier=True)
        self._open: OpenCalls[_Question | _Approval] = OpenCalls(parallel=parallel)
        self._coming: set[str] = set()
        self._heard: set[str] = set()
        self._sent = self._all_told = self._by_silence = self._over = False
        self._answers: deque[tuple[_Approval, str]] = deque()

    # --- what the model is offered -------------------------------------------------------------

    def offered(self) -> list[dict[str, Any]]:
        """The client's tools, as the CLI takes them."""
        return [self._offered(tool) for tool in self._tools]

    def _offered(self, tool: Tool) -> dict[str, Any]:
        told = offered(tool, fits=is_strict(tool.parameters))
        name, description = self._names.outward(tool.name), whole(told["description"])
        own = {"namespace": _NAMESPACE, "name": name, "modelAccess": "direct"}
        return told | own | {"description": description}

    @property
    def advice(self) -> str:
        """What the model has to know of names that the CLI has taken; nothing if there are none."""
        told = [(name, self._names.outward(name)) for name in self._theirs if name in TAKEN]
        if not told:
            return ""
        own = ", ".join(name for name, _ in told)
        return f"Switched off: {own}. Call instead: {', '.join(other for _, other in told)}."

    # --- the calls of one turn -----------------------------------------------------------------

    @property
    def parked(self) -> bool:
        """Whether the model waits for the results of calls."""
        return bool(self._open)

    def take_end(self) -> bool:
        """Whether the model has made its calls, all of them: once."""
        if self._over or not self._all_told or self._coming or not self._open:
            return False
        self._over = True
        return True

    def next_request(self) -> None:
        """The vendor was asked again, so that what was called before is done."""
        self._coming.clear()
        self._sent = self._all_told = self._over = False

    def announced(self, effect: str, entry: Mapping[str, Any]) -> Sequence[Wish]:
        """The model calls something; the CLI asks for it too, on another way and so at any time."""
        if not _is_under_way(table(entry.get("state")).get("status")):
            return []
        if effect not in self._heard:
            self._coming.add(effect)
        sent, self._sent = self._sent, True
        return [] if sent else [BARRIER]

    def all_told(self, error: Mapping[str, Any]) -> Sequence[Wish]:
        """The CLI has answered `BARRIER`."""
        if error.get("code") == "not_found":
            self._all_told = True
            return []
        self._by_silence = True  # it does not know the question
        return [Settle(QUIET_S)]

    def updated(self, effect: str, patch: Sequence[Mapping[str, Any]]) -> Sequence[Wish]:
        """The entry that shows a call has changed."""
        states = [c.get("value") for c in patch if c.get("path") in ("/state/status", "/state")]
        if not states or _is_under_way(states[-1]):
            return []
        self._coming.discard(effect)
        if not self._answers or self._answers[0][0].effect != effect:
            return []
        self._answers.popleft()
        return self._let()

    # --- what the CLI asks on its socket --------------------------------------------------------

    def called(self, connection: int, question: Mapping[str, Any]) -> Sequence[Wish]:
        """A question of a session that is on."""
        params = table(question.get("params"))
        asked = _Question(connection, question.get("id"))
        match question.get("method"):
            case "tools/call":
                return self._called(asked, params)
            case "sandbox/execute":
                return [_reply(asked, self._refusal())]
            case "sandbox/readFile":
                return [_reply(asked, {"contentBase64": None})]
            case other:
                return [ended("vibe", f"asked for {other}")]

    def _called(self, asked: _Question, params: Mapping[str, Any]) -> Sequence[Wish]:
        shown = (text(params.get("name")) or "").removeprefix(f"{_NAMESPACE}.")
        name, id = self._names.inward(shown), text(params.get("toolCallId"))
        if name is None or id is None:
            return [ended("vibe", f"asked for {shown}", by_model=True)]
        action = (text(params.get("callbackId")) or "").removeprefix("client_tool:")
        self._hear(f"effect-{action}")
        arguments = json.dumps(params.get("input"), ensure_ascii=False)
        return self._opened(id, name, arguments, asked)

    def _hear(self, effect: str) -> None:
        self._heard.add(effect)
        self._coming.discard(effect)

    def _opened(
        self, id: str, name: str, arguments: str, asked: _Question | _Approval
    ) -> Sequence[Wish]:
        told = self._open.called(id, name, arguments)
        self._open.asked(id, asked)
        return [*told, *([Settle(QUIET_S)] if self._by_silence else [])]

    def _refusal(self) -> dict[str, Any]:
        """What a command gets, which is run nowhere: the word on the call that is let through."""
        said = self._answers[0][1] if self._answers else "there is nothing here"
        told = json.dumps({"ok": False, "error": whole(said)})
        return {"exitCode": 0, "stdout": told, "stderr": ""}

    # --- its own tools --------------------------------------------------------------------------

    def wants_own(self, callback: Mapping[str, Any]) -> Sequence[Wish]:
        """The model calls a tool of the CLI's, which asks for leave."""
        effect = table(table(callback.get("detail")).get("effect"))
        shown = text(effect.get("toolName")) or "a tool"
        name = OWN.get(shown, shown)
        entry = text(callback.get("relatedEntryId")) or ""
        asked = _Approval(text(callback.get("callbackId")) or "", entry, name)
        self._hear(entry)
        id = asked.id.removeprefix("approval-")
        if name not in self._theirs or id.startswith(_CODE):
            there = ", ".join(map(self._names.outward, self._theirs))
            return self._answer(asked, f"{name} is switched off. There are: {there}.")
        arguments = fitted(written(table(effect.get("input"))), self._theirs[name])
        return self._opened(id, name, json.dumps(arguments, ensure_ascii=False), asked)

    def _answer(self, asked: _Approval, said: str) -> Sequence[Wish]:
        """Let it through with these words as what comes of it, one after another: a command does
        not say which call it is of."""
        self._answers.append((asked, said))
        return self._let() if len(self._answers) == 1 else []

    def _let(self) -> Sequence[Wish]:
        if not self._answers:
            return []
        output = {"type": "approval", "decision": {"type": "approve"}}
        result = {"callbackId": self._answers[0][0].id, "output": output}
        return [Ask("callback/result", {"result": result})]

    # --- the results ----------------------------------------------------------------------------

    def give(self, results: Sequence[Message]) -> Sequence[Wish]:
        """Hand over the client's results."""
        wishes: list[Wish] = []
        for asked, message in self._open.give(results):
            said = message.text if message else CANCELLED
            if isinstance(asked, _Approval):
                other = self._names.outward(asked.name)
                lead = f"{asked.name} is switched off, so {other} was called, which gave:\n"
                wishes += self._answer(asked, lead + said)
            elif message is None or message.cancelled:
                error = {"code": "cancelled", "message": said}
                wishes.append(_reply(asked, {"error": error}))
            else:
                wishes.append(_reply(asked, {"output": whole(said)}))
        self.next_request()
        return wishes


def _is_under_way(status: Any) -> bool:
    """Whether a call whose state is `status` has no result yet."""
    return status in ("pending", "running", "blocked")


def _reply(asked: _Question, result: Mapping[str, Any]) -> Reply:
    answer = {"jsonrpc": "2.0", "id": asked.number, "result": result}
    return Reply(asked.connection, line_of(answer))
