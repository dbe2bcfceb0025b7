"""The nouns of OLP: what a client asks for, and what is started to answer it.

Everything here is frozen data. A dialect makes a `Request`, a provider turns it into a `Launch`,
and neither ever sees the other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_HOPS = 3
"""Hops in a chain. Fixed: every hop can cost quota and a minute of somebody's patience."""

CANCELLED = "The call was cancelled: it got no result."
"""What the model is told of a call whose result the client left out."""

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
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a file in a message. `data` is base64, `media_type` such as `image/png`, `pixels`
    is an image's width times its height. Its `repr`, by which requests are told from one another,
    has a digest in the place of the data."""

    media_type: str
    data: str = field(repr=False)
    name: str = ""
    pixels: int = field(default=0, repr=False, compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(self.data.encode("ascii", "replace")).hexdigest()
        object.__setattr__(self, "digest", digest)

    @property
    def is_image(self) -> bool:
        """Whether it is to be looked at."""
        return self.media_type.startswith("image/")

    @property
    def url(self) -> str:
        """All of it as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class Link:
    """An image that has yet to be fetched; `path` says where in the request its address stands."""

    url: str
    path: str


Part = str | Media | Link


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool of the client's that the model wants called. `arguments` is JSON as it was written."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation.

    `calls` are an assistant's; `answers` is the id of the call whose result a tool's message is,
    and `cancelled` says that the client gave none. Every call is followed by its result, in the
    order of the calls: whoever makes a request sees to that.
    """

    role: Role
    content: str | tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    cancelled: bool = False

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """Its text, images and files, in their order, without what has yet to be fetched."""
        return tuple(part for part in self._all if not isinstance(part, Link))

    @property
    def _all(self) -> tuple[Part, ...]:
        return (self.content,) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """Its text alone, joined."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def links(self) -> tuple[Link, ...]:
        """Its images that have yet to be fetched."""
        if isinstance(self.content, str):
            return ()
        return tuple(part for part in self._all if isinstance(part, Link))

    @property
    def media(self) -> tuple[Media, ...]:
        """Its images and files."""
        if isinstance(self.content, str):
            return ()
        return tuple(part for part in self.parts if isinstance(part, Media))


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the client's. `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Field(StrEnum):
    """The part of a request that an error is about. Each dialect has its own name for it."""

    MODEL = "model"
    MESSAGES = "messages"
    TOOLS = "tools"
    FORCED_CALL = "forced_call"
    SCHEMA = "schema"


class Capability(StrEnum):
    """What a request may need that not every CLI can do."""

    TOOLS = "tools"
    IMAGES = "images"
    FILES = "files"
    SCHEMA = "schema"
    EFFORT = "effort"


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

    `tools` may be called by the model, and of those named in `must_call` exactly one has to be;
    without `parallel_calls` it is one call at a time, and with `nameless_calls` the client cannot
    say which call a result is of.
    """

    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    effort: Effort | None = None
    format: JsonFormat | None = None
    tools: tuple[Tool, ...] = ()
    must_call: tuple[str, ...] = ()
    parallel_calls: bool = True
    nameless_calls: bool = False
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

    @property
    def asks(self) -> bool:
        """Whether the assistant is to speak next, and not to go on with what it said."""
        return bool(self.messages) and self.messages[-1].role in (Role.USER, Role.TOOL)

    @property
    def latest(self) -> tuple[Message, ...]:
        """What was said since the assistant last spoke."""
        turns = self.turns
        spoke = [i for i, turn in enumerate(turns) if turn.role is Role.ASSISTANT]
        return turns[spoke[-1] + 1 :] if spoke else turns

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
    `collect` names files of that folder that are read when the CLI has ended. `grace_s` is how
    long it may take to end when it is asked to, before it is killed. `socket` names a unix socket
    in that folder on which OLP listens to the CLI. `leaves` are patterns of what it leaves outside
    of that folder when it is killed, `{pid}` for the id of its process, `{uid}` for its user's.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    collect: tuple[str, ...] = ()
    grace_s: float = 5.0
    socket: str = ""
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model name and its hops. `created` is in epoch seconds; `context` is the smallest known
    context window of the hops, in tokens; `can` is the union of their capabilities."""

    id: str
    owned_by: str
    hops: tuple[str, ...]
    created: int = 0
    context: int | None = None
    can: frozenset[Capability] = frozenset()
