"""Headers of images of any size, for tests: what is read before anybody unpacks the image."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 1, height: int = 1) -> bytes:
    """A PNG's signature and header chunk."""
    data = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + data + struct.pack(">I", zlib.crc32(data))


def jpeg(width: int = 1, height: int = 1) -> bytes:
    """A JPEG's start, an application segment and the frame header."""
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    frame = struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\1\x11\0\2\x11\0\3\x11\0"
    return b"\xff\xd8" + app + b"\xff\xc0" + frame + b"\xff\xd9"


def gif(width: int = 1, height: int = 1) -> bytes:
    """A GIF's logical screen."""
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b";"


def webp(width: int = 1, height: int = 1) -> bytes:
    """A WebP's extended header."""
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    chunk = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + size
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk
