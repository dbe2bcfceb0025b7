"""Recognises a conversation that goes on: the same caller, model and wishes, and every message of
before, the last answer included as the client sends it back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from olp.model import Hop, Message, Request, Role


def _key(caller: str, hop: Hop, request: Request, turns: Sequence[Message]) -> str:
    shape = (caller, hop, request.system, request.effort, request.max_tokens, request.format)
    # Clients trim an answer's ends before they send it back; it is the same answer.
    said = [(t.role, t.text.strip() if t.role is Role.ASSISTANT else t.text) for t in turns]
    return hashlib.sha256(repr((shape, said)).encode("utf-8", "replace")).hexdigest()


def before(caller: str, hop: Hop, request: Request) -> str | None:
    """The conversation that `request` goes on with; None if it is the beginning of one."""
    turns = request.turns
    if len(turns) < 3 or turns[-1].role is not Role.USER or turns[-2].role is not Role.ASSISTANT:
        return None
    return _key(caller, hop, request, turns[:-1])


def after(caller: str, hop: Hop, request: Request, answer: str) -> str:
    """The conversation as it stands when `request` got `answer`."""
    turns = (*request.turns, Message(Role.ASSISTANT, answer))
    return _key(caller, hop, request, turns)
