"""Recognises a conversation that goes on: the same caller, model and wishes, and every message of
before, the last answer included as the client sends it back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from olp.model import Hop, Message, Request, Role, ToolCall


def _key(caller: str, hop: Hop, request: Request, turns: Sequence[Message]) -> str:
    shape = (
        *(caller, hop, request.system, request.effort, request.max_tokens, request.format),
        *(request.tools, request.must_call, request.parallel_calls),
    )
    said = repr((shape, [_said(turn) for turn in turns]))
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()


def _said(turn: Message) -> tuple[object, ...]:
    """Clients trim an answer's ends before they send it back, and write a call's arguments anew;
    it is the same answer."""
    if turn.role is Role.ASSISTANT:
        calls = [(call.id, call.name, _canonical(call.arguments)) for call in turn.calls]
        return (turn.role, turn.text.strip(), calls)
    return (turn.role, turn.content, turn.answers)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def before(caller: str, hop: Hop, request: Request) -> str | None:
    """The conversation that `request` goes on with; None if it is the beginning of one, or not to
    be told from another."""
    turns, latest = request.turns, request.latest
    if not latest or len(latest) == len(turns):
        return None
    return _key(caller, hop, request, turns[: len(turns) - len(latest)])


def after(
    caller: str, hop: Hop, request: Request, answer: str, calls: Sequence[ToolCall] = ()
) -> str:
    """The conversation as it stands when `request` got `answer` and `calls`."""
    turns = (*request.turns, Message(Role.ASSISTANT, answer, tuple(calls)))
    return _key(caller, hop, request, turns)
