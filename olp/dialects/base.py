"""The interface of a public API: its routes, and how requests are decoded and answers encoded. No
I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from olp.errors import RequestError
from olp.events import Output, Refused
from olp.model import ModelEntry, Request


class Serves(Enum):
    """What a route serves."""

    ANSWER = "answer"
    """The answer of a chain: `decode`, then `encoder` or `whole`."""

    MODELS = "models"
    """The list of models."""

    MODEL = "model"
    """One model, named by the path variable `id`."""

    LOCAL = "local"
    """A response by the dialect itself, such as a token count or a version."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `path` may have variables, in aiohttp's syntax; `local` computes the JSON value of a
    LOCAL route from these and the body, or raises RequestError."""

    method: str
    path: str
    serves: Serves
    local: Callable[[Mapping[str, str], bytes], Any] | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a request: messages, images and files (`media`), and whether images may be given by
    URL (`links`)."""

    max_messages: int = 4096
    max_media: int = 50
    links: bool = False


class Order(Protocol):
    """A decoded request. A dialect's class adds what only its encoder needs."""

    @property
    def request(self) -> Request:
        """The request to the chain."""


class Encoder(Protocol):
    """Encodes one streamed answer."""

    @property
    def media_type(self) -> str:
        """The stream's Content-Type."""

    @property
    def keep_alive(self) -> bytes:
        """Bytes that clients ignore."""

    def event(self, output: Output) -> bytes:
        """Encode one output; empty if this API does not show it."""

    def error(self, error: RequestError) -> bytes:
        """Encode the end of a stream that OLP aborts."""


class Dialect(Protocol):
    """A public API. The one with the lowest `rank` formats the errors of paths that no dialect
    owns."""

    name: str
    rank: int
    base: tuple[str, str]
    """Name and path of the base URL."""
    routes: Sequence[Route]

    def owns(self, path: str) -> bool:
        """Whether errors at `path` are in this API's format."""

    def absent(self, path: str) -> str | None:
        """What OLP offers instead of an unsupported endpoint at `path`."""

    def model_in(self, body: bytes) -> str:
        """The requested model, if it can be read; `body` may be invalid."""

    def decode(self, body: bytes, bounds: Bounds, variables: Mapping[str, str]) -> Order:
        """Decode a request. `variables` are those of the path. Raises RequestError 4xx."""

    def encoder(self, order: Order, *, id: str, created: int) -> Encoder:
        """A stream encoder. `created` is in epoch seconds."""

    def whole(self, order: Order, outputs: Sequence[Output], *, id: str, created: int) -> bytes:
        """Encode a complete answer. `outputs` runs from Answering to Done or Failed."""

    def refused(self, end: Refused) -> bytes:
        """The error body if no hop answered."""

    def error(self, error: RequestError) -> bytes:
        """The error body for a request that reached no provider."""

    def models(self, entries: Sequence[ModelEntry]) -> Any:
        """The list of models as JSON."""

    def model(self, entry: ModelEntry) -> Any:
        """One model as JSON."""
