"""What a public API is to the server: its routes, and how its requests are read and its answers
written. It sees no provider, no process and no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from olp.errors import RequestError
from olp.events import Output, Refused
from olp.model import ModelEntry, Request


class Serves(Enum):
    """What there is at a route."""

    ANSWER = "answer"
    """The answer of a chain: `decode`, then `encoder` or `whole`."""

    MODELS = "models"
    """The list of models."""

    MODEL = "model"
    """One model, whose name is the variable `id` of the path."""

    LOCAL = "local"
    """What the dialect answers by itself, such as a count of tokens or a version."""


@dataclass(frozen=True, slots=True)
class Route:
    """One address of the API. `path` may have variables, in aiohttp's notation; `local` makes the
    JSON value of a LOCAL route from these and the body, or raises RequestError."""

    method: str
    path: str
    serves: Serves
    local: Callable[[Mapping[str, str], bytes], Any] | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a request may bring: so many messages, so many images and files, and images by their
    address (`links`)."""

    max_messages: int = 4096
    max_media: int = 50
    links: bool = False


class Order(Protocol):
    """A decoded request. A dialect's own class adds what only its encoder has to know."""

    @property
    def request(self) -> Request:
        """What is asked of a chain."""


class Encoder(Protocol):
    """One streamed answer."""

    @property
    def media_type(self) -> str:
        """The stream's Content-Type."""

    @property
    def keep_alive(self) -> bytes:
        """Bytes that clients skip."""

    def event(self, output: Output) -> bytes:
        """The bytes for one output; none for what this API does not show."""

    def error(self, error: RequestError) -> bytes:
        """The bytes that end a stream which OLP itself had to break off."""


class Dialect(Protocol):
    """One public API. `rank` orders them: the first one words the errors of paths that nobody
    owns."""

    name: str
    rank: int
    base: tuple[str, str]
    """What clients call the address they are pointed at, and its path."""
    routes: Sequence[Route]

    def owns(self, path: str) -> bool:
        """Whether errors at `path` are in this API's words."""

    def absent(self, path: str) -> str | None:
        """What OLP does instead of what this API, or one like it, has at `path`."""

    def model_in(self, body: bytes) -> str:
        """The model that `body` asks for, as far as that can be read; `body` may be a bad one."""

    def decode(self, body: bytes, bounds: Bounds, variables: Mapping[str, str]) -> Order:
        """The request in `body`, with the variables of its path; RequestError 4xx."""

    def encoder(self, order: Order, *, id: str, created: int) -> Encoder:
        """What writes the stream. `created` is in epoch seconds."""

    def whole(self, order: Order, outputs: Sequence[Output], *, id: str, created: int) -> bytes:
        """The complete answer. `outputs` begins with an Answering and ends with Done or Failed."""

    def refused(self, end: Refused) -> bytes:
        """The body of an answer that no hop gave."""

    def error(self, error: RequestError) -> bytes:
        """The body for a request that asks no provider."""

    def models(self, entries: Sequence[ModelEntry]) -> Any:
        """The JSON value of the list of models."""

    def model(self, entry: ModelEntry) -> Any:
        """The JSON value of one."""
