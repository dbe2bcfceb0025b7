"""Parses and checks images and files of a request, before a CLI is started.

The type is detected from the bytes: vendors refuse a whole conversation for one image with a wrong
media type.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterable

import imagesize

from olp.errors import unusable
from olp.model import Media, Message

MAX_BYTES = 20 * 1024 * 1024
"""Maximum decoded bytes of one image or file. The vendors' own limits are 5 to 20 MB."""

MAX_PIXELS = 50_000_000
"""Maximum pixels of one image. A CLI decodes it to at least 4 bytes per pixel, however small the
file is: a PNG of 400 kB can have 3.6 billion pixels. A phone's photo has 12 to 50 million."""

MAX_TOTAL_PIXELS = 200_000_000
"""Maximum pixels of all images of a request: about a hundred screenshots."""

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
    """The image or file in a data URL. Raises RequestError 400."""
    head = _URL.match(url)
    if head is None:
        told = "it must be a data URL with base64 (data:image/png;base64,…)"
        raise unusable(path, told)
    return from_bytes(path, _unpacked(path, url[head.end() :]), head["type"].lower())


def from_bytes(path: str, data: bytes, told: str) -> Media:
    """`data` as an image or a file, with its detected type, else `told`, the type the sender
    claims. Raises RequestError 400."""
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
    pixels = _pixels(path, data) if (kind or "").startswith("image/") else 0
    return Media(kind or told, base64.b64encode(data).decode("ascii"), pixels=pixels)


def _pixels(path: str, data: bytes) -> int:
    """Width times height by the image header. Raises RequestError 400 above MAX_PIXELS."""
    size: tuple[int, int] = imagesize.get(io.BytesIO(data))
    width, height = size
    if width <= 0 or height <= 0:
        raise unusable(path, "the image's width and height cannot be read")
    if width * height > MAX_PIXELS:
        most = f"at most {MAX_PIXELS // 10**6} million pixels are accepted"
        raise unusable(path, f"the image has {width} × {height} pixels; {most}")
    return width * height


def check_total(messages: Iterable[Message]) -> None:
    """Raises RequestError 400 if all images together exceed MAX_TOTAL_PIXELS."""
    total = sum(media.pixels for message in messages for media in message.media)
    if total > MAX_TOTAL_PIXELS:
        most = f"at most {MAX_TOTAL_PIXELS // 10**6} million are accepted"
        told = f"all images together have {total / 10**6:.0f} million pixels; {most}"
        raise unusable("messages", told)


def image(path: str, media: Media) -> Media:
    """`media`, if it is an image. Raises RequestError 400."""
    if not media.is_image:
        raise unusable(path, f"it is no image, but {media.media_type or 'of an unknown type'}")
    return media


def text_file(path: str, media: Media) -> Media | str:
    """A file in the form sent to the model: a text file becomes text. Raises RequestError 400."""
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
