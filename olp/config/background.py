"""Configuration of how background requests of chat programs are recognized."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class BackgroundShape(Struct, frozen=True, forbid_unknown_fields=True):
    """How one such job is told: every pattern that is set must be found."""

    name: Annotated[
        str, Meta(pattern="^[a-z0-9_-]{1,32}$", description="what the log and the counts call it")
    ]
    system: Annotated[str, Meta(description="pattern in the system prompt")] = ""
    user: Annotated[str, Meta(description="pattern in the last message")] = ""
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="only if the request asks for at most so many tokens"),
    ] = None


class BackgroundConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that chat programs send on their own, such as a title: how they are told from what a
    person asks. They are counted apart; [routing] may send them to another chain. A shape of your
    own has a `name`, a `user` or a `system` pattern (a regular expression that is looked for in
    the first 2,000 characters, whatever the case), and may have `max_tokens`."""

    known: Annotated[
        bool, Meta(description="the jobs of Open WebUI, LibreChat and others that OLP knows")
    ] = True
    shapes: Annotated[
        tuple[BackgroundShape, ...],
        Meta(description='further ones, such as { name = "title", user = "^Name this chat" }'),
    ] = ()
