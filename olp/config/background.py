"""Configuration of how background requests of chat programs are recognized."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class BackgroundShape(Struct, frozen=True, forbid_unknown_fields=True):
    """How one kind of request is recognised: every pattern that is set must match."""

    name: Annotated[
        str, Meta(pattern="^[a-z0-9_-]{1,32}$", description="its name in the log and the counts")
    ]
    system: Annotated[str, Meta(description="pattern in the system prompt")] = ""
    user: Annotated[str, Meta(description="pattern in the last message")] = ""
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="only if the request allows at most this many tokens"),
    ] = None


class BackgroundConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Recognition of background requests that chat programs send automatically, such as a title.
    They are counted separately; [routing] can send them to another chain. A custom shape has a
    `name`, a `user` or a `system` pattern (a case-insensitive regular expression, searched in the
    first 2,000 characters), and optionally `max_tokens`."""

    known: Annotated[
        bool, Meta(description="recognise the built-in shapes of Open WebUI, LibreChat and others")
    ] = True
    shapes: Annotated[
        tuple[BackgroundShape, ...],
        Meta(description='additional shapes, such as { name = "title", user = "^Name this chat" }'),
    ] = ()
