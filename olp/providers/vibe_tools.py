"""Vibe with the client's tools: `vibe -p` with its agent socket.

The CLI asks on a socket of OLP's which tools there are, and then for the result of each call. Such
a process is started for one request, since its model and its tools are fixed then, and it lives
until the answer is whole: through as many calls as the model makes. Nothing tells when all calls of
a turn are made; they come within hundredths of a second, so a short silence does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from olp.events import Done, Event, Failed, Finish, Trouble, Usage
from olp.model import CANCELLED, Message, Request, Tool
from olp.providers.base import Exit, Ready, Reply, Settle, Step, ended
from olp.providers.opencalls import OpenCalls, fits
from olp.providers.toolnames import Names
from olp.providers.toolschemas import is_sound, offered
from olp.providers.transcript import prompt_of
from olp.providers.vibe_answer import Driver
from olp.providers.wire import line_of, parse_line

SOCKET = "agent.sock"

_TAKEN = (
    *("bash", "write_file", "edit", "read_file", "run_typescript", "skill"),
    *("search_tool_functions", "wait", "sleep"),
)
"""Names of its own tools; it does not start with a client's tool of such a name."""

_NAMESPACE = "client"
_LONGEST = 64

QUIET_S = 0.25
"""Without a further call for so long, the model has made all of its calls."""

MAX_RESULT_CHARS = 15_000
"""Characters of a result that is handed over to an open call: the CLI cuts a longer one."""

HOUR_S = 3600
_BYTES_PER_TOKEN = 4


class _Asked(NamedTuple):
    """A question on the socket: its connection, and its number there."""

    connection: int
    number: Any


class VibeToolSession:
    """The protocol of one such process."""

    reusable = False
    keeps_max_tokens = True

    def __init__(self, tools: Sequence[Tool], *, parallel: bool) -> None:
        self._parser: Driver | None = None
        self._tools = tools
        self._names = Names(tools, longest=_LONGEST, taken=_TAKEN, identifier=True)
        self._calls: OpenCalls[_Asked] = OpenCalls(parallel=parallel)
        self._bytes = 0
        self._called_bytes = 0
        self._spent = Usage()

    @property
    def parked(self) -> bool:
        """Whether the model waits for the results of calls."""
        return bool(self._calls)

    def opening_s(self, request: Request) -> float | None:
        """It shows nothing of its vendor before an entry is whole."""
        return None

    def takes(self, request: Request, model: str) -> bool:
        """What it was started for."""
        return request.tools == self._tools

    def start(self) -> Sequence[Step]:
        return [Ready()]

    def ask(self, request: Request, model: str, now: datetime) -> Sequence[Step]:
        prompt = prompt_of(request)
        self._bytes = len(prompt.encode("utf-8", "replace"))
        self._parser = Driver(prompt, model, now=now)
        return self._parser.start()

    def goes_on(self, request: Request) -> bool:
        """With results alone, and such as the CLI hands on as they are."""
        latest = request.latest
        whole = all(len(m.text) <= MAX_RESULT_CHARS and not m.media for m in latest)
        return self.parked and fits(latest, parked=True) and whole

    def more(self, request: Request, now: datetime) -> Sequence[Step]:
        assert self._parser is not None
        self._parser.answered = False  # what it said on its way was not the end
        return [_result(one, message) for one, message in self._calls.give(request.latest)]

    def interrupt(self) -> Sequence[Step]:
        return []  # it goes down with its process

    def receive(self, line: str) -> Sequence[Step]:
        entry = parse_line(line)
        if entry.get("type") == "effect" and self._is_ours(str(entry.get("title"))):
            return []
        if self._parser is None:
            return []
        steps = self._parser.receive(line)
        # While calls are open, the end is told by their results and not by a text.
        return [step for step in steps if not (self.parked and isinstance(step, Settle))]

    def _is_ours(self, title: str) -> bool:
        space, _, name = title.partition(".")
        return space == _NAMESPACE and name in self._names

    def called(self, connection: int, line: str) -> Sequence[Step]:
        """What it asks on the socket."""
        message = parse_line(line)
        params = message.get("params") or {}
        asked = _Asked(connection, message.get("id"))
        match message.get("method"):
            case "agent/initialize":
                tools = [self._described(tool) for tool in self._tools]
                told = {"protocolVersion": 2, "tools": tools, "toolTimeoutSeconds": HOUR_S}
                return [_reply(asked, told)]
            case "tools/call":
                return self._called(asked, params)
            case other:
                return [ended("vibe", f"asked for {other}")]

    def _described(self, tool: Tool) -> dict[str, Any]:
        return {
            "namespace": _NAMESPACE,
            "name": self._names.outward(tool.name),
            **offered(tool, fits=is_sound(tool.parameters)),
            "modelAccess": "direct",
        }

    def _called(self, asked: _Asked, params: Mapping[str, Any]) -> Sequence[Step]:
        shown = str(params.get("name")).removeprefix(f"{_NAMESPACE}.")
        name, id = self._names.inward(shown), str(params.get("toolCallId"))
        if name is None:
            return [ended("vibe", f"asked for {shown}")]
        arguments = json.dumps(params.get("input"), ensure_ascii=False)
        self._called_bytes += len(arguments.encode("utf-8", "replace"))
        told = self._calls.called(id, name, arguments)
        given = self._calls.asked(id, asked)
        return [*told, *(_result(one, message) for one, message in given), Settle(QUIET_S)]

    def exited(self, exit: Exit) -> Sequence[Event]:
        if self.parked and exit.code is None:
            # No more calls came: the answer is over until their results are here. What it cost is
            # told at the end of all, so that until then it is a guess, and set off there.
            guess = Usage(
                input=self._bytes // _BYTES_PER_TOKEN,
                output=self._called_bytes // _BYTES_PER_TOKEN,
                estimated=True,
            )
            self._called_bytes = 0
            before = self._spent
            self._spent = Usage(before.input + guess.input, before.output + guess.output)
            return [guess, Done(Finish.TOOL_CALLS)]
        if self._parser is None:
            return [Failed(Trouble.SPAWN_FAILED, exit.told("vibe"))]
        return [self._rest(e) if isinstance(e, Usage) else e for e in self._parser.exited(exit)]

    def _rest(self, usage: Usage) -> Usage:
        left = max(0, usage.input - self._spent.input)
        output = max(0, usage.output - self._spent.output)
        return replace(usage, input=left, output=output, cached=min(left, usage.cached))


def _reply(asked: _Asked, result: Mapping[str, Any]) -> Reply:
    answer = {"jsonrpc": "2.0", "id": asked.number, "result": result}
    return Reply(asked.connection, line_of(answer))


def _result(asked: _Asked, message: Message | None) -> Reply:
    if message is None or message.cancelled:
        error = {"code": "cancelled", "message": message.text if message else CANCELLED}
        return _reply(asked, {"error": error})
    return _reply(asked, {"output": message.text})
