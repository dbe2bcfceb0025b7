"""Conversation keys: recognise a request that continues a conversation, by its caller, hop,
parameters and all earlier messages, the last answer included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from olp.core.answer.fingerprint import stamp
from olp.model import Hop, Message, Request, Role, ToolCall


class ConversationKey:
    """The conversation keys of one request. The hashes are computed once and cached."""

    def __init__(self, caller: str, request: Request) -> None:
        self.caller = caller
        self.request = request
        self._digests: tuple[Any, Any] | None = None

    def before(self, hop: Hop) -> str | None:
        """The key of the conversation that the request continues on `hop`; None if it starts one,
        or is ambiguous."""
        turns, latest = self.request.turns, self.request.latest
        if not latest or len(latest) == len(turns):
            return None
        return _key(self._digest(0), hop, ())

    def after(self, hop: Hop, answer: str, calls: Sequence[ToolCall] = ()) -> str:
        """The key of the conversation after `answer` and `calls` from `hop`."""
        return _key(self._digest(1), hop, (Message(Role.ASSISTANT, answer, tuple(calls)),))

    def _digest(self, which: int) -> Any:
        """A copy of the hash before (0) or after (1) the latest turns."""
        if self._digests is None:
            request, count = self.request, len(self.request.turns) - len(self.request.latest)
            shape = (
                *(self.caller, request.system, request.effort, request.max_tokens),
                *(request.format, request.tools, request.must_call, request.parallel_calls),
            )
            old = hashlib.sha256(stamp(shape))
            _add(old, request.turns[:count])
            new = old.copy()
            _add(new, request.turns[count:])
            self._digests = old, new
        return self._digests[which].copy()


def _key(digest: Any, hop: Hop, more: Iterable[Message]) -> str:
    _add(digest, more)
    digest.update(stamp(hop))
    return str(digest.hexdigest())


def _add(digest: Any, turns: Iterable[Message]) -> None:
    for turn in turns:
        digest.update(stamp(_said(turn), media=not isinstance(turn.content, str)))


def _said(turn: Message) -> tuple[object, ...]:
    """A turn normalised: clients strip answers and reserialise call arguments before sending them
    back."""
    if turn.role is Role.ASSISTANT:
        calls = [(call.id, call.name, _canonical(call.arguments)) for call in turn.calls]
        return (turn.role, turn.text.strip(), calls)
    return (turn.role, turn.content, turn.answers)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
