"""The socket on which a CLI asks: one question a connection, answered now or later."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from olp.runtime.process.call_socket import CallSocket
from tests.support import until


async def ask(path: Path, line: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(line)
    answer = await reader.read()
    writer.close()
    return answer


async def test_questions_are_answered_in_any_order(tmp_path: Path) -> None:
    asked: dict[str, int] = {}
    socket = CallSocket(tmp_path / "s", lambda number, line: asked.update({line.strip(): number}))
    await socket.open()
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    one, two = (asyncio.ensure_future(ask(tmp_path / "s", b)) for b in (b"one\n", b"two\n"))
    await until(lambda: len(asked) == 2, "both asked")
    socket.answer(asked["two"], b"2\n")
    assert await two == b"2\n"
    socket.answer(asked["one"], b"1\n")
    assert await one == b"1\n"
    socket.answer(asked["one"], b"again, which is nobody's\n")
    socket.close()


async def test_a_long_question_is_whole_and_half_a_one_is_none(tmp_path: Path) -> None:
    asked: list[str] = []
    socket = CallSocket(tmp_path / "s", lambda number, line: asked.append(line))
    await socket.open()
    _, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
    writer.write(b"half")
    writer.close()
    waiting = asyncio.ensure_future(ask(tmp_path / "s", b"x" * 2_000_000 + b"\n"))
    await until(lambda: bool(asked), "asked")
    assert len(asked[0]) == 2_000_001
    socket.close()
    assert await waiting == b""
    assert len(asked) == 1


async def test_a_path_that_is_too_long_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        await CallSocket(tmp_path / ("x" * 120), lambda number, line: None).open()
