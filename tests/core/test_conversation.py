"""What tells two requests, and two conversations, from one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.core.answer.conversation import ConversationKey
from olp.core.answer.fingerprint import stamp
from olp.model import Hop, JsonFormat, Media, Message, Request, Role, Tool

HOP = Hop("claude", "sonnet")
PLAIN = Request(
    "m", (Message(Role.USER, "hi"), Message(Role.ASSISTANT, "a"), Message(Role.USER, "b"))
)
TEXT = st.text(st.characters(exclude_categories=()), max_size=4)
PARTS = st.lists(TEXT, max_size=3)


@given(PARTS, PARTS)
def test_what_is_not_the_same_has_another_stamp(one: list[str], other: list[str]) -> None:
    assert (stamp(*one) == stamp(*other)) == (one == other)
    assert (stamp(tuple(one), "x") == stamp(tuple(other), "x")) == (one == other)


def _tool(**parameters: Any) -> Tool:
    return Tool("f", "", parameters)


CHANGES: Mapping[str, Mapping[str, Any]] = {
    "a system prompt": {"messages": (Message(Role.SYSTEM, "s"), *PLAIN.messages)},
    "another word before": {"messages": (Message(Role.USER, "ho"), *PLAIN.messages[1:])},
    "half a character": {"messages": (Message(Role.USER, "\ud83d"), *PLAIN.messages[1:])},
    "an image": {
        "messages": (Message(Role.USER, ("hi", Media("image/png", "AA"))), *PLAIN.messages[1:])
    },
    "another image": {
        "messages": (Message(Role.USER, ("hi", Media("image/png", "BB"))), *PLAIN.messages[1:])
    },
    "max_tokens": {"max_tokens": 5},
    "a format": {"format": JsonFormat({"type": "object"})},
    "a tool": {"tools": (_tool(type="object"),)},
    "a number": {"tools": (_tool(maximum=1),)},
    "another number": {"tools": (_tool(maximum=1.5),)},
    "a number without end": {"tools": (_tool(maximum=10**40),)},
    "one call at a time": {"parallel_calls": False},
}


def test_every_difference_makes_it_another_conversation() -> None:
    requests = [PLAIN, *(replace(PLAIN, **change) for change in CHANGES.values())]
    keys = [ConversationKey("anna", request).before(HOP) for request in requests]
    keys += [
        ConversationKey("ben", PLAIN).before(HOP),
        ConversationKey("anna", PLAIN).before(Hop("claude", "haiku")),
    ]
    assert None not in keys and len(set(keys)) == len(keys)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_follows_an_answer_is_known_by_it(change: Mapping[str, Any]) -> None:
    request = replace(PLAIN, **change)
    later = replace(
        request,
        messages=(*request.messages, Message(Role.ASSISTANT, " yes\n"), Message(Role.USER, "c")),
    )
    assert ConversationKey("anna", later).before(HOP) == ConversationKey("anna", request).after(
        HOP, "yes"
    )
    assert ConversationKey("anna", later).before(HOP) != ConversationKey("anna", request).after(
        HOP, "no"
    )
