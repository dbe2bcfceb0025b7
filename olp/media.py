"""Images and files as they come in a request, checked before anything is started for them.

A vendor refuses a whole conversation for one image whose type is another than it says, so the type
is told from the bytes.
"""

from __future__ import annotations

import base64
import binascii
import re

from olp.errors import unusable
from olp.model import Media

MAX_BYTES = 20 * 1024 * 1024
"""Of one image or file, unpacked. The vendors' own limits are between 5 and 20 MB."""

_URL = re.compile(r"data:(?P<type>[\w.+/-]*)(?:;[\w.=+-]+)*;base64,", re.IGNORECASE)

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)

PDF = "application/pdf"
_TEXT = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


def from_data_url(path: str, url: str) -> Media:
    """The image or file in `url`; RequestError 400 if there is none that can be used."""
    head = _URL.match(url)
    if head is None:
        told = "it must be a data URL with base64 (data:image/png;base64,…)"
        raise unusable(path, told)
    return from_bytes(path, _unpacked(path, url[head.end() :]), head["type"].lower())


def from_bytes(path: str, data: bytes, told: str) -> Media:
    """`data` as an image or a file, of the type that it really is. `told` is what its sender says,
    which matters for what cannot be told from the bytes."""
    if not data:
        raise unusable(path, "it is empty")
    if len(data) > MAX_BYTES:
        raise unusable(path, f"it is larger than {MAX_BYTES >> 20} MiB")
    kind = next((name for magic, name in _MAGIC if data.startswith(magic)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None and told.startswith("image/"):
        raise unusable(path, "it is no PNG, JPEG, GIF or WebP image")
    if kind is None and told == PDF:
        raise unusable(path, "it is no PDF")
    return Media(kind or told, base64.b64encode(data).decode("ascii"))


def image(path: str, media: Media) -> Media:
    """`media`, which must be an image; RequestError 400 if it is not."""
    if not media.is_image:
        raise unusable(path, f"it is no image, but {media.media_type or 'of an unknown type'}")
    return media


def text_file(path: str, media: Media) -> Media | str:
    """A file as the model is shown it: one of text becomes text."""
    if media.is_image or media.media_type == PDF:
        return media
    if not (media.media_type.startswith("text/") or media.media_type in _TEXT):
        raise unusable(path, f"files of type {media.media_type or 'unknown'!r} cannot be shown")
    try:
        text = base64.b64decode(media.data).decode("utf-8")
    except UnicodeDecodeError:
        raise unusable(path, "its text is not UTF-8") from None
    return f"File {media.name or '(without a name)'}:\n{text}"


def _unpacked(path: str, data: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise unusable(path, "its base64 is broken") from None
