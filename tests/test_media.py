"""Images are bounded by their pixels before any process is started for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from olp.errors import RequestError
from olp.media import MAX_PIXELS, check_total, from_bytes
from olp.model import Message, Role

from . import pictures

KINDS: list[Callable[[int, int], bytes]] = [
    pictures.png,
    pictures.jpeg,
    pictures.gif,
    pictures.webp,
]


@pytest.mark.parametrize("make", KINDS)
def test_M5_the_pixels_of_an_image_are_read_from_its_header(
    make: Callable[[int, int], bytes],
) -> None:
    assert from_bytes("x", make(640, 480), "").pixels == 640 * 480


@pytest.mark.parametrize("make", KINDS)
def test_M5_a_small_file_with_billions_of_pixels_is_refused(
    make: Callable[[int, int], bytes],
) -> None:
    side = 16_000 if make in (pictures.webp, pictures.gif) else 60_000
    with pytest.raises(RequestError, match="million pixels") as caught:
        from_bytes("messages[0].content[1]", make(side, side), "image/png")
    assert (caught.value.status, caught.value.param) == (400, "messages[0].content[1]")


@pytest.mark.parametrize(
    "data",
    [
        pictures.png()[:12],
        pictures.png(0, 5),
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"GIF89a\1",
        b"RIFF\0\0\0\0WEBPVP8?",
    ],
)
def test_M5_an_image_whose_size_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        from_bytes("x", data, "image/png")


def test_M5_all_images_of_a_request_are_bounded_together() -> None:
    one = from_bytes("x", pictures.png(7_000, 7_000), "")
    assert one.pixels <= MAX_PIXELS
    check_total([Message(Role.USER, (one,) * 4)])
    with pytest.raises(RequestError, match="all images together have 245 million pixels"):
        check_total([Message(Role.USER, (one, "and")), Message(Role.USER, (one,) * 4)])
