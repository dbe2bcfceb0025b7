"""What a request needs that not every CLI can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from olp.events import ErrorCode, Failed
from olp.model import Capability, Field, Request

_TOLD = {
    Capability.TOOLS: "be offered tools",
    Capability.IMAGES: "see images",
    Capability.FILES: "read files",
    Capability.SCHEMA: "keep to a JSON Schema",
}


def lacking(request: Request, name: str, can: Sequence[Capability]) -> Failed | None:
    """Why the CLI called `name`, which can do what `can` says, cannot be asked; None if it can."""
    for ability, field in _needs(request):
        if ability not in can:
            return Failed(ErrorCode.INCAPABLE, f"{name} cannot {_TOLD[ability]}", field=field)
    return None


def able(can: Sequence[Capability], *, oneshot: bool) -> list[Capability]:
    """What is left of `can` for a CLI that is only ever started for one answer."""
    by_session = (Capability.TOOLS, Capability.IMAGES, Capability.FILES)
    return [ability for ability in can if not (oneshot and ability in by_session)]


def only_by_session(request: Request) -> bool:
    """Whether `request` needs what a CLI can do in a session alone, and not as a one-shot."""
    tools = request.tools and not request.must_call
    return bool(tools) or any(message.media for message in request.messages)


def _needs(request: Request) -> Iterator[tuple[Capability, Field]]:
    """Each with the part of the request that asks for it."""
    if request.must_call:
        yield Capability.SCHEMA, Field.FORCED_CALL
    elif request.tools:
        yield Capability.TOOLS, Field.TOOLS
    if request.format is not None and request.format.schema is not None:
        yield Capability.SCHEMA, Field.SCHEMA
    for media in (media for message in request.messages for media in message.media):
        yield (Capability.IMAGES if media.is_image else Capability.FILES), Field.MESSAGES
