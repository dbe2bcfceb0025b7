"""Recognises requests that chat clients send on their own: titles, tags, follow-up questions.

Some clients send three of these per user message. They are recognised by the start of their
prompts. Text length and pattern time are bounded, since the text comes from a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from olp.config import BackgroundConfig, BackgroundShape
from olp.model import Message, Request, Role

LOOKED_AT = 2000
"""Maximum characters of a text that are examined."""

PATTERN_S = 0.01
"""Seconds for one pattern search."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The start of a known job's prompt, in lower case and with single spaces."""

    name: str
    role: Role
    text: str


def _user(name: str, *texts: str) -> list[Opening]:
    return [Opening(name, Role.USER, text) for text in texts]


def _system(name: str, *texts: str) -> list[Opening]:
    return [Opening(name, Role.SYSTEM, text) for text in texts]


KNOWN: Sequence[Opening] = (
    *_user(
        "title",
        # Open WebUI
        "### task: generate a concise, 3-5 word title",
        # LibreChat
        "provide a concise, 5-word-or-less title for the conversation",
        "please generate a concise title (max 40 characters) for a conversation",
        "analyze this conversation and provide: 1. the detected language of the conversation 2. a "
        "concise title",
        # Continue
        "given the following... please reply with a title for the chat that is 3-4 words in length",
        # Zed
        "generate a concise 3-7 word title for this conversation",
    ),
    *_system(
        "title",
        # opencode
        "you are a title generator. you output only a thread title.",
        # GitHub Copilot Chat and CodeCompanion
        "you are an expert in crafting pithy titles for chatbot conversations",
        # LobeChat
        "you are a professional conversation summarizer. generate a concise title",
        # Cherry Studio
        "you are an assistant skilled in conversation. you need to summarize the user's "
        "conversation into a title within 10 words",
    ),
    # The rest are Open WebUI's.
    *_user("tags", "### task: generate 1-3 broad tags categorizing the main themes"),
    *_user("follow_up", "### task: suggest 3-5 relevant follow-up questions or prompts"),
    *_user(
        "query",
        "### task: analyze the chat history to determine the necessity of generating search",
    ),
    *_user("autocomplete", "### task: you are an autocompletion system."),
    *_user("image_prompt", "### task: generate a detailed prompt for am image generation task"),
    *_user("emoji", "your task is to reflect the speaker's likely facial expression"),
)


class Shapes:
    """The configured and the built-in jobs, in this order."""

    def __init__(self, config: BackgroundConfig) -> None:
        self._own = config.shapes
        self._known = KNOWN if config.known else ()

    def recognise(self, request: Request) -> str | None:
        """The name of the job; None if `request` is not a background job."""
        system = request.system[:LOOKED_AT]
        last = request.turns[-1] if request.turns else Message(Role.USER, "")
        user = last.text[:LOOKED_AT] if last.role is Role.USER else ""
        for shape in self._own:
            if _fits(shape, system, user, request.max_tokens):
                return shape.name
        told = {Role.SYSTEM: _plain(system), Role.USER: _plain(user)}
        fitting = (o for o in self._known if told[o.role].startswith(o.text))
        return next((opening.name for opening in fitting), None)


def _fits(shape: BackgroundShape, system: str, user: str, max_tokens: int | None) -> bool:
    if shape.max_tokens is not None and (max_tokens is None or max_tokens > shape.max_tokens):
        return False
    wanted = ((shape.system, system), (shape.user, user))
    return all(_found(pattern, text) for pattern, text in wanted if pattern)


def _found(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, regex.IGNORECASE, timeout=PATTERN_S) is not None
    except TimeoutError:
        return False


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()
