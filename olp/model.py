"""The nouns of OLP: what a client asks for, and what is started to answer it.

Everything here is frozen data. A dialect makes a `Request`, a provider turns it into a `Launch`,
and neither ever sees the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_HOPS = 3
"""Hops in a chain. Fixed: every hop can cost quota and a minute of somebody's patience."""

PRIVATE_DIR = "\0private\0"
"""Stands in argv and environment for the launch's private folder.

A NUL can occur in neither, so no text of a client can ever be taken for it.
"""

_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+\[\]/-]{0,126}[A-Za-z0-9\]]|[A-Za-z0-9]")


def is_model_id(text: str) -> bool:
    """Whether `text` can be a vendor's model id, and so may stand in a CLI's argv.

    It cannot begin with a dash, which a CLI would take for a flag.
    """
    return _MODEL_ID.fullmatch(text) is not None and ".." not in text


class Role(StrEnum):
    """Who says a message. `developer` is read as `system`."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation, its text parts joined."""

    role: Role
    text: str


class Effort(StrEnum):
    """How hard the model should think, in the words of the OpenAI API."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The answer must be JSON; with a `schema`, JSON that conforms to it."""

    schema: Mapping[str, Any] | None = None
    name: str = "answer"


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for, whatever public API it spoke.

    `max_tokens` counts tokens of the answer; `stop` holds strings that end it and are not part of
    it; `forbid_substitution` keeps only hops of the first hop's model; `ignored` names parameters
    of the request that no CLI can honour.
    """

    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    effort: Effort | None = None
    format: JsonFormat | None = None
    forbid_substitution: bool = False
    no_cache: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def system(self) -> str:
        """The system prompt: the leading system messages, a blank line between two."""
        return "\n\n".join(m.text for m in self._leading())

    @property
    def turns(self) -> tuple[Message, ...]:
        """The conversation after the system prompt."""
        return self.messages[len(self._leading()) :]

    def _leading(self) -> tuple[Message, ...]:
        count = 0
        for message in self.messages:
            if message.role is not Role.SYSTEM:
                break
            count += 1
        return self.messages[:count]


@dataclass(frozen=True, slots=True)
class Hop:
    """One place a request can be answered: a provider and the vendor's model id."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    @classmethod
    def parse(cls, text: str) -> Hop | None:
        """`claude/sonnet` as a hop, or None if it is not of that form."""
        provider, slash, model = text.partition("/")
        if not slash or not provider or not is_model_id(model):
            return None
        return cls(provider, model)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a CLI for one request.

    `argv` is complete, the program first. `env` is the whole environment: nothing is inherited.
    `files` are written into a fresh private folder (0700, each file 0600), whose path replaces
    `PRIVATE_DIR` in `argv` and `env`. `links` are symbolic links in that folder to files of the
    user's own (a login); what the CLI wrote in their place is carried back when it has ended.
    `collect` names files of that folder that are read when the CLI has ended.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    collect: tuple[str, ...] = ()
