"""The data model: requests, hops and launches.

All are frozen dataclasses. A dialect makes a `Request`, a provider turns it into a `Launch`, and
the two are independent of each other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_HOPS = 3
"""Maximum hops of a chain. Fixed: every hop can cost quota and a minute of waiting."""

CANCELLED = "The call was cancelled: it got no result."
"""The result that the model gets for a call whose result the client omitted."""

PRIVATE_DIR = "\0private\0"
"""Placeholder for the private folder in argv and environment.

Neither can contain NUL, so client text can never collide with it.
"""

_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+\[\]/-]{0,126}[A-Za-z0-9\]]|[A-Za-z0-9]")


def is_model_id(text: str) -> bool:
    """Whether `text` is a valid model id and safe in a CLI's argv: no leading dash."""
    return _MODEL_ID.fullmatch(text) is not None and ".." not in text


class Role(StrEnum):
    """Role of a message. `developer` is mapped to `system`."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a file in a message. `data` is base64, `pixels` an image's width times height.
    The `repr`, which is hashed for the identity of requests, has a digest instead of the data."""

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
        """Whether it is an image."""
        return self.media_type.startswith("image/")

    @property
    def url(self) -> str:
        """The content as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class Link:
    """An image still to be fetched; `path` is the location of `url` in the request."""

    url: str
    path: str


Part = str | Media | Link


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a client's tool. `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation.

    `calls` belong to an assistant message; `answers` is the call id of a tool message, `cancelled`
    that the client gave no result. Every call is followed by its result, in the order of the calls:
    the dialects ensure that.
    """

    role: Role
    content: str | tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    cancelled: bool = False

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """Text, images and files in order, without links."""
        return tuple(part for part in self._all if not isinstance(part, Link))

    @property
    def _all(self) -> tuple[Part, ...]:
        return (self.content,) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The text parts, joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def links(self) -> tuple[Link, ...]:
        """Images still to be fetched."""
        if isinstance(self.content, str):
            return ()
        return tuple(part for part in self._all if isinstance(part, Link))

    @property
    def media(self) -> tuple[Media, ...]:
        """Images and files."""
        if isinstance(self.content, str):
            return ()
        return tuple(part for part in self.parts if isinstance(part, Media))


@dataclass(frozen=True, slots=True)
class Tool:
    """A client's tool. `parameters` is the JSON Schema of its arguments."""

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
    """Features that a request may need and a CLI may lack."""

    TOOLS = "tools"
    IMAGES = "images"
    FILES = "files"
    SCHEMA = "schema"
    EFFORT = "effort"


class Effort(StrEnum):
    """Reasoning effort, with the values of the OpenAI API."""

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
    """A client's request, independent of the public API that it used."""

    model: str
    """Name of a chain or a model."""

    messages: tuple[Message, ...]

    stream: bool = False

    stop: tuple[str, ...] = ()
    """Strings that end the answer and are not part of it."""

    max_tokens: int | None = None
    """Limit of the answer in tokens."""

    effort: Effort | None = None

    format: JsonFormat | None = None

    tools: tuple[Tool, ...] = ()
    """Tools that the model may call."""

    must_call: tuple[str, ...] = ()
    """Names of tools of which exactly one must be called."""

    parallel_calls: bool = True
    """Whether several calls at a time are allowed."""

    nameless_calls: bool = False
    """Whether the client's API has no call ids, so that results cannot be matched to calls."""

    forbid_substitution: bool = False
    """Whether only hops of the first hop's model may answer."""

    no_cache: bool = False

    ignored: tuple[str, ...] = ()
    """Parameters of the request that no CLI supports."""

    @property
    def system(self) -> str:
        """The system prompt: the leading system messages, joined by blank lines."""
        return "\n\n".join(m.text for m in self._leading())

    @property
    def turns(self) -> tuple[Message, ...]:
        """The messages after the system prompt."""
        return self.messages[len(self._leading()) :]

    @property
    def asks(self) -> bool:
        """Whether the last message is the user's or a tool's, not one for the assistant to
        continue."""
        return bool(self.messages) and self.messages[-1].role in (Role.USER, Role.TOOL)

    @property
    def latest(self) -> tuple[Message, ...]:
        """The turns after the last assistant message."""
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
    """A provider and the vendor's model id."""

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
    """How to start a CLI. It gets a new private folder, whose path replaces `PRIVATE_DIR` in `argv`
    and `env`."""

    argv: tuple[str, ...]
    """The complete command, the program first."""

    env: Mapping[str, str]
    """The whole environment: nothing is inherited."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files to write into the private folder (mode 0600), by relative path."""

    links: Mapping[str, str] = field(default_factory=dict)
    """Symlinks in the private folder to the user's own files (logins), by relative path; a file
    that the CLI wrote in their place is copied back after its exit."""

    collect: tuple[str, ...] = ()
    """Files of the private folder to read after the exit."""

    grace_s: float = 5.0
    """Seconds from SIGTERM to SIGKILL."""

    socket: str = ""
    """Name of a unix socket in the private folder on which OLP listens to the CLI, if any."""

    leaves: tuple[str, ...] = ()
    """Glob patterns of files that a killed CLI leaves elsewhere; `{pid}` and `{uid}` are
    replaced."""


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
