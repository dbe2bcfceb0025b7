"""One conversation with a warm Vibe: a channel of `vibe-app-server --multiplex`.

A channel is opened with its own configuration, and thus for one model, effort, token limit, system
prompt and set of tools. The model's output comes as history entries and patches to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Failed, Finish, Reads, Reasoning, Started, Text, Usage
from olp.model import Field, Media, Message, Request, Role
from olp.providers.base import Halt, Ready, Step, Write, ended, tried
from olp.providers.shared.rpc import Requests
from olp.providers.shared.transcript import numbered, system_of, transcript
from olp.providers.shared.wire import count, line_of, rows, table, text, whole
from olp.providers.vibe.config import Wanted
from olp.providers.vibe.info import HARMLESS_ENTRIES, explain
from olp.providers.vibe.tools import BARRIER, Action, Calls, SessionCall
from olp.providers.vibe.usage import Spent

SOCKET = "s"
"""Short, because the whole path is limited to 107 bytes and includes the run folder's."""

_SOCKET_PATH = f"~/../{SOCKET}"
"""Its HOME is a folder next to the socket."""

WORKSPACE = "/dev/null/work"
"""The model's working directory. No file can exist there: the CLI would insert a file that a prompt
names with `@`, and only looks there.
"""

MORE_REQUESTS = 3
"""The most requests to the vendor after the first in one answer, if the model calls tools that do
not exist and is told so.
"""

_TEXT_PATH = re.compile(r"/content/\d+/text|/text")


class Run:
    """The protocol of one channel; `config` is the session's whole configuration."""

    def __init__(self, number: int, wanted: Wanted, config: Mapping[str, Any]) -> None:
        self.wanted = wanted
        self.calls = Calls(wanted.tools, parallel=wanted.parallel)
        self.channel = str(number)
        self._open: dict[str, Any] | None = {
            "runId": f"run-{number}",
            "agentSocket": _SOCKET_PATH,
            "config": dict(config),
            "credentials": {},
        }
        self._requests = Requests()
        self._session = ""
        self._turn = ""
        self._prompt: list[dict[str, Any]] | None = None
        self._now: datetime | None = None
        self._vendor_started = False
        self._entry_kinds: dict[str, str] = {}
        self._context_window = 0
        self._stats = self._stats_before = Spent()
        self.input_bytes = 0

    # --- what is written -----------------------------------------------------------------------

    def _frame(self, message: Mapping[str, Any] | None) -> Write:
        frame: dict[str, Any] = {"channelId": self.channel, "message": message}
        if self._open is not None:
            frame["open"], self._open = self._open, None
        return Write(line_of(frame))

    def _call(self, method: str, **params: Any) -> Write:
        return self._frame({"jsonrpc": "2.0", **self._requests.new(method, params)})

    def open(self) -> Sequence[Step]:
        """The messages that open the channel and start a session."""
        me = {"name": "olp", "version": "1", "entrypoint": "programmatic"}
        able = {"callbackKinds": ["approval"]}
        agent: dict[str, Any] = {"cwd": WORKSPACE, "agent": "olp", "headless": True}
        if not self.wanted.tools:
            agent["maxTurns"] = 1  # without tools the model needs no second request
        return [
            self._call("initialize", clientInfo=me, capabilities=able),
            self._frame({"jsonrpc": "2.0", "method": "initialized", "params": {}}),
            self._call("session/start", agentConfig=agent),
        ]

    def close(self) -> Write:
        """Close the channel, which frees what the process keeps of the conversation."""
        return self._frame(None)

    def ask(self, request: Request, now: datetime) -> Sequence[Step]:
        """Start with all of `request`; sent as soon as the session exists."""
        turns = request.turns or (Message(Role.USER, request.system),)
        if system := "" if self.wanted.system else system_of(request, describe_format=True):
            turns = (Message(Role.SYSTEM, system), *turns)
        return self._send(turns, now)

    def resume(self, request: Request, now: datetime) -> Sequence[Step]:
        """Continue with the new messages of `request`."""
        if self.calls.parked:
            self._reset(now)
            self.input_bytes += sum(len(message.text) for message in request.latest)
            return self._steps(self.calls.give(request.latest))
        return self._send(request.latest, now)

    def _reset(self, now: datetime) -> None:
        self._now, self._vendor_started, self._stats_before = now, False, self._stats

    def _send(self, turns: Sequence[Message], now: datetime) -> Sequence[Step]:
        self._reset(now)
        media = [m for turn in turns for m in turn.media]
        turns = numbered(turns)
        prompt = turns[0].text
        if len(turns) > 1 or prompt.lstrip().startswith(("/", "!", "@")):
            # Between tags, no text is at the beginning, where it could be parsed as a command.
            prompt = transcript(turns, tools=bool(self.wanted.tools))
        self.input_bytes += len(prompt) + sum(len(image.data) for image in media)
        self._prompt = [{"type": "text", "text": whole(prompt)}, *map(_image, media)]
        return self._start_turn()

    def _start_turn(self) -> Sequence[Step]:
        if not self._session or self._prompt is None:
            return []
        message, self._prompt = self._prompt, None
        return [self._call("turn/start", sessionId=self._session, message=message)]

    def interrupt(self) -> Sequence[Step]:
        """Abort the answer in progress."""
        if not self._turn:
            return []
        turn, self._turn = self._turn, ""
        return [self._call("turn/interrupt", sessionId=self._session, expectedTurnId=turn)]

    def _steps(self, actions: Sequence[Action]) -> list[Step]:
        return [
            self._call(one.method, sessionId=self._session, **one.params)
            if isinstance(one, SessionCall)
            else one
            for one in actions
        ]

    # --- what is read --------------------------------------------------------------------------

    def receive(self, message: Mapping[str, Any]) -> Sequence[Step]:
        """Handle one message on this channel."""
        method, number = text(message.get("method")), message.get("id")
        if method is None:
            known = self._requests.answered(number)
            return self._response(known, message)
        params = table(message.get("params"))
        if number is not None:
            return self._callback(method, number, params)
        if self._now is None or params.get("sessionId") != self._session:
            return []
        return self._notification(method, params)

    def _response(self, method: str, message: Mapping[str, Any]) -> Sequence[Step]:
        result, error = table(message.get("result")), message.get("error")
        if method == BARRIER.method:
            return self._steps(self.calls.barrier_answered(table(error))) + self._end_of_calls()
        if error is not None:
            return [self._error_response(table(error))] if method in _VITAL else []
        if method != "session/start":
            return []
        session = table(table(result.get("state")).get("session"))
        self._session = text(session.get("id")) or ""
        return self._start_turn() or [Ready()]

    def _callback(self, method: str, number: Any, params: Mapping[str, Any]) -> Sequence[Step]:
        """Handle a request of the CLI: approval to use one of its own tools."""
        callback = table(params.get("callback"))
        id = text(callback.get("callbackId"))
        if method != "callback/call" or id is None:
            return [ended("vibe", f"asked for {method}"), Halt()]
        if not self.wanted.tools:
            return [tried("vibe", str(callback.get("title"))), Halt()]
        result = {"callbackId": id, "accepted": True}
        accepted = self._frame({"jsonrpc": "2.0", "id": number, "result": result})
        return [
            accepted,
            *self._steps(self.calls.approval_requested(callback)),
            *self._end_of_calls(),
        ]

    def called(self, connection: int, question: Mapping[str, Any]) -> Sequence[Step]:
        """Handle a request on the socket during this conversation."""
        return [*self._steps(self.calls.called(connection, question)), *self._end_of_calls()]

    def _notification(self, method: str, params: Mapping[str, Any]) -> Sequence[Step]:
        match method:
            case "turn/started":
                self._turn = text(table(params.get("turn")).get("id")) or ""
            case "history/entryAdded":
                return self._entry_added(table(params.get("entry")))
            case "history/entryUpdated":
                return self._entry_updated(
                    text(params.get("entryId")) or "", rows(params.get("patch"))
                )
            case "session/statsUpdated":
                return self._stats_updated(table(params.get("stats")))
            case "runtime/updated":
                model = table(table(table(params.get("runtime")).get("config")).get("activeModel"))
                self._context_window = count(model.get("maxContextLength"))
            case "turn/completed":
                return self._turn_completed(table(params.get("turn")))
        return []

    def _entry_added(self, entry: Mapping[str, Any]) -> Sequence[Step]:
        id, kind = text(entry.get("id")) or "", entry.get("type")
        if kind == "effect":
            return self._effect(id, entry)
        if kind == "reasoning":
            return self._piece(id, "reasoning", text(entry.get("text")) or "")
        if kind == "message" and entry.get("role") == "assistant":
            parts = (text(part.get("text")) or "" for part in rows(entry.get("content")))
            return self._piece(id, "message", "".join(parts))
        # the CLI also sends a request for it
        known = kind in HARMLESS_ENTRIES or kind == "callback"
        return [] if known else [tried("vibe", str(kind)), Halt()]

    def _piece(self, id: str, kind: str, piece: str) -> Sequence[Step]:
        self._entry_kinds[id], self._vendor_started = kind, True
        return [Started(), Text(piece) if kind == "message" else Reasoning(piece)]

    def _entry_updated(self, id: str, patch: Sequence[Mapping[str, Any]]) -> Sequence[Step]:
        if id not in self._entry_kinds:
            return [*self._steps(self.calls.updated(id, patch)), *self._end_of_calls()]
        steps: list[Step] = []
        for change in patch:
            path, value = text(change.get("path")) or "", change.get("value")
            if _TEXT_PATH.fullmatch(path) and change.get("op") == "append":
                steps += self._piece(id, self._entry_kinds[id], text(value) or "")
            if path == "/outcome" and table(value).get("cause") == "retry":
                # The CLI is about to retry: a second request for the same answer.
                reason = "vibe gave up a part of its answer"
                steps += [Failed(ErrorCode.VENDOR_CUT, reason), Halt()]
        return steps

    def _effect(self, id: str, entry: Mapping[str, Any]) -> Sequence[Step]:
        self._vendor_started = True
        if not self.wanted.tools:
            return [tried("vibe", text(entry.get("title")) or "of some name"), Halt()]
        return [Started(), *self._steps(self.calls.announced(id, entry))]

    def _stats_updated(self, stats: Mapping[str, Any]) -> Sequence[Step]:
        before, self._stats = self._stats, Spent.from_stats(stats)
        if self._stats.requests > before.requests:
            self.calls.next_request()
        if self._stats.requests - self._stats_before.requests <= 1 + MORE_REQUESTS:
            return []
        reason = "asked again and again for tools that it was not given"
        return [ended("vibe", f"let its model go on, which {reason}", by_model=True), Halt()]

    def _end_of_calls(self) -> list[Step]:
        """End the answer once the model has made all of its calls."""
        return [*self.silent()] if self.calls.take_end() else []

    def silent(self) -> Sequence[Done | Usage | Reads]:
        """The closing events after `QUIET_S` without a call, where the CLI cannot be asked."""
        return [*self._usage(), Done(Finish.TOOL_CALLS)]

    def _turn_completed(self, turn: Mapping[str, Any]) -> Sequence[Step]:
        self._turn = ""
        if turn.get("status") == "failed":
            return [self._failure(table(turn.get("error")))]
        if turn.get("status") != "completed":
            return [Failed(ErrorCode.SPAWN_FAILED, f"vibe's turn was {turn.get('status')}")]
        why = turn.get("stopReason")
        if why == "limit":
            # turn limit: it was kept from asking its vendor again
            return [tried("vibe", "without a word")]
        return [*self._usage(), Done(Finish.LENGTH if why == "length" else Finish.STOP)]

    def _error_response(self, error: Mapping[str, Any]) -> Failed:
        """A rejected request. For an unknown reason, the client's tools are assumed to be the
        cause.
        """
        failed = self._failure(error)
        if failed.code is ErrorCode.UNKNOWN and self.wanted.tools:
            return replace(failed, code=ErrorCode.INCAPABLE, field=Field.TOOLS)
        return failed

    def _failure(self, error: Mapping[str, Any]) -> Failed:
        message = text(error.get("message")) or "vibe gave no reason"
        details = table(error.get("details")) or table(error.get("data"))
        status = count(details.get("httpStatus")) or None
        code = text(error.get("code"))
        return explain(message, code, self._now, status=status, began=self._vendor_started)

    def _usage(self) -> list[Usage | Reads]:
        """The answer's usage and the model's context window, each only if reported."""
        usage = self._stats.since(self._stats_before)
        events: list[Usage | Reads] = [Reads(self._context_window)] if self._context_window else []
        return [*events, usage] if usage.input or usage.output else events


_VITAL = ("initialize", "session/start", "turn/start", "callback/result")


def _image(media: Media) -> dict[str, Any]:
    source = {"kind": "inline", "data": media.data}
    picture = {"source": source, "alias": "image", "mimeType": media.media_type}
    return {"type": "image", "attachment": picture}
