"""A client as what differs between clients: its tools, its parameters, and how it writes a turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


def text_parts(*texts: str) -> list[Message]:
    return [{"type": "text", "text": text} for text in texts]


def image_parts(images: Sequence[str], **more: Any) -> list[Message]:
    """``images`` are URLs, as a rule of the ``data:`` kind."""
    return [{"type": "image_url", "image_url": {"url": url, **more}} for url in images]


def plain_user(text: str, images: Sequence[str]) -> Message:
    """A string as long as it can be one."""
    content = [*text_parts(text), *image_parts(images)] if images else text
    return {"role": "user", "content": content}


def plain_result(call: Mapping[str, Any], result: str) -> Message:
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


def calls_of(message: Mapping[str, Any]) -> list[Message]:
    return list(message.get("tool_calls") or [])


def compact(arguments: str) -> str:
    """Arguments as JavaScript and Rust write them again."""
    return json.dumps(json.loads(arguments or "{}"), separators=(",", ":"), ensure_ascii=False)


def spaced(arguments: str) -> str:
    """Arguments as Python writes them again."""
    return json.dumps(json.loads(arguments or "{}"), ensure_ascii=False)


def verbatim(arguments: str) -> str:
    return arguments


def rewritten(message: Mapping[str, Any], write: Callable[[str], str]) -> list[Message]:
    """The calls with nothing but what the API asks for."""
    return [
        {
            "id": call["id"],
            "type": "function",
            "function": {
                "name": call["function"]["name"],
                "arguments": write(call["function"]["arguments"]),
            },
        }
        for call in calls_of(message)
    ]


def saying(empty: Any, write: Callable[[str], str]) -> Callable[[Mapping[str, Any]], list[Message]]:
    """An assistant's turn sent back, with ``empty`` where it said nothing."""

    def said(message: Mapping[str, Any]) -> list[Message]:
        made: Message = {"role": "assistant", "content": message.get("content") or empty}
        calls = rewritten(message, write)
        return [made | ({"tool_calls": calls} if calls else {})]

    return said


@dataclass(frozen=True)
class Client:
    """One program. ``tool`` names one of its tools, ``arguments`` are valid for it."""

    name: str
    parameters: Mapping[str, Any]
    before: tuple[Message, ...]  # what stands before the user's text
    said: Callable[[Mapping[str, Any]], list[Message]]
    tools: tuple[Message, ...] = ()
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    user: Callable[[str, Sequence[str]], Message] = plain_user
    given: Callable[[Mapping[str, Any], str], Message] = plain_result
    after: tuple[Message, ...] = ()  # what the client adds behind the results
    place: str = "messages"

    @property
    def uses_tools(self) -> bool:
        return bool(self.tools)

    def first(self, model: str, text: str, images: Sequence[str] = ()) -> dict[str, Any]:
        """A new conversation's first request, with the user's text in its place."""
        talk = [*self.before, self.user(text, images)]
        offered = {"tools": list(self.tools)} if self.tools else {}
        return deepcopy({"model": model, self.place: talk, **self.parameters, **offered})

    def follow(
        self, body: Mapping[str, Any], message: Mapping[str, Any], results: Mapping[str, str]
    ) -> dict[str, Any]:
        """The request after ``message``, whose calls gave ``results`` (by id)."""
        if not self.uses_tools:
            return self.next(body, message, "\n".join(results.values()) or "Go on.")
        given = [self.given(call, results[call["id"]]) for call in calls_of(message)]
        return self._on(body, [*self.said(message), *given, *self.after])

    def next(
        self,
        body: Mapping[str, Any],
        message: Mapping[str, Any],
        text: str,
        images: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The request after ``message``, an answer, when the user goes on with ``text``."""
        return self._on(body, [*self.said(message), self.user(text, images)])

    def _on(self, body: Mapping[str, Any], more: list[Message]) -> dict[str, Any]:
        return deepcopy({**body, self.place: [*body[self.place], *more]})
