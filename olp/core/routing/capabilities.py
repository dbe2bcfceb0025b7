"""Capabilities that a request needs and a CLI may lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from olp.events import ErrorCode, Failed
from olp.model import Capability, Field, Request

_PHRASES = {
    Capability.TOOLS: "be offered tools",
    Capability.IMAGES: "see images",
    Capability.FILES: "read files",
    Capability.SCHEMA: "keep to a JSON Schema",
}


def lacking(request: Request, name: str, can: Sequence[Capability]) -> Failed | None:
    """INCAPABLE with the field, if `can` (of the CLI `name`) lacks what `request` needs; else
    None."""
    for ability, field in _needs(request):
        if ability not in can:
            return Failed(ErrorCode.INCAPABLE, f"{name} cannot {_PHRASES[ability]}", field=field)
    return None


def able(can: Sequence[Capability], *, oneshot: bool) -> list[Capability]:
    """`can` without what needs a session, if the CLI runs only as a one-shot."""
    by_session = (Capability.TOOLS, Capability.IMAGES, Capability.FILES)
    return [ability for ability in can if not (oneshot and ability in by_session)]


def only_by_session(request: Request) -> bool:
    """Whether `request` needs a session: tools or media, which a one-shot cannot do."""
    tools = request.tools and not request.must_call
    return bool(tools) or any(message.media for message in request.messages)


def _needs(request: Request) -> Iterator[tuple[Capability, Field]]:
    """Each needed capability with the part of the request that needs it."""
    if request.must_call:
        yield Capability.SCHEMA, Field.FORCED_CALL
    elif request.tools:
        yield Capability.TOOLS, Field.TOOLS
    if request.format is not None and request.format.schema is not None:
        yield Capability.SCHEMA, Field.SCHEMA
    for media in (media for message in request.messages for media in message.media):
        yield (Capability.IMAGES if media.is_image else Capability.FILES), Field.MESSAGES
