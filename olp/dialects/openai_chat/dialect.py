"""OpenAI's chat completions as a dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from olp.dialects import base as api
from olp.dialects.base import Bounds, Route, Serves
from olp.dialects.openai_chat import elsewhere
from olp.dialects.openai_chat.answer import StreamEncoder, refused_body, request_error_body, whole
from olp.dialects.openai_chat.request import Order, decode, model_in
from olp.errors import RequestError
from olp.events import Output, Refused
from olp.model import Capability, ModelEntry


class OpenAIChat:
    """The API under /v1 that most clients speak."""

    name = "openai-chat"
    rank = 1
    base = ("openai_base", "/v1")
    routes = (
        Route("POST", "/v1/chat/completions", Serves.ANSWER),
        Route("GET", "/v1/models", Serves.MODELS),
        Route("GET", "/v1/models/{id:.+}", Serves.MODEL),
    )

    def owns(self, path: str) -> bool:
        """Everything under /v1."""
        return path == "/v1" or path.startswith("/v1/")

    def absent(self, path: str) -> str | None:
        """What OLP offers instead, for other endpoints of this API and for other APIs."""
        return elsewhere.absent(path)

    def model_in(self, body: bytes) -> str:
        """The parameter `model`."""
        return model_in(body)

    def decode(self, body: bytes, bounds: Bounds, variables: Mapping[str, str]) -> Order:
        """Decode a request. Raises RequestError 400 with the path of the invalid value."""
        return decode(
            body,
            max_messages=bounds.max_messages,
            max_media=bounds.max_media,
            links=bounds.links,
        )

    def encoder(self, order: api.Order, *, id: str, created: int) -> StreamEncoder:
        """Server-sent events."""
        return StreamEncoder(cast(Order, order), id=f"chatcmpl-{id}", created=created)

    def whole(self, order: api.Order, outputs: Sequence[Output], *, id: str, created: int) -> bytes:
        """A `chat.completion`."""
        return whole(cast(Order, order), outputs, id=f"chatcmpl-{id}", created=created)

    def refused(self, end: Refused) -> bytes:
        """An `error` object."""
        return refused_body(end)

    def error(self, error: RequestError) -> bytes:
        """An `error` object."""
        return request_error_body(error)

    def models(self, entries: Sequence[ModelEntry]) -> Any:
        """A `list` object."""
        return {"object": "list", "data": [self.model(entry) for entry in entries]}

    def model(self, entry: ModelEntry) -> Any:
        """A `model` object. Clients read the context size from different fields."""
        reads = ("context_length", "context_window", "max_model_len")
        return {
            "id": entry.id,
            "object": "model",
            "created": entry.created,
            "owned_by": entry.owned_by,
            **({} if entry.context is None else dict.fromkeys(reads, entry.context)),
            "capabilities": {one.value: one in entry.can for one in Capability},
            "olp_hops": entry.hops,
        }
