"""Bytes into lines: any chunk border, any length, any bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.core.lines import MAX_LINE, LineSplitter, LineTooLong


def split(chunks: list[bytes], limit: int = MAX_LINE) -> list[str]:
    splitter = LineSplitter(limit)
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.flush()


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


_bytes = st.lists(
    st.one_of(
        st.sampled_from([b"\n", b"\r\n", b"\r", b"\xff", b"\xc3", b"\x00"]),
        st.text(max_size=4).map(lambda text: text.encode("utf-8", "replace")),
    )
).map(b"".join)


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"\n", b"b"], ["a", "b"]),
        ([b"a\r\nb\r\n"], ["a", "b"]),
        ([b"a\r", b"\nb"], ["a", "b"]),
        ([b"a\rb\n"], ["a\rb"]),
        ([b"\n\n"], ["", ""]),
        ([b""], []),
        ([b"\xf0\x9f", b"\x91\x8b\n"], ["\U0001f44b"]),
        ([b"x\xff\n"], ["x\ufffd"]),
        ([b"a\xe2\x80\xa8b\n"], ["a\u2028b"]),
    ],
)
def test_S21_lines_are_whole_whatever_the_chunks(chunks: list[bytes], lines: list[str]) -> None:
    assert split(chunks) == lines


@given(_bytes, st.lists(st.integers(0, 10_000), max_size=8))
def test_S21_the_borders_of_the_chunks_do_not_matter(data: bytes, cuts: list[int]) -> None:
    assert split(chunked(data, cuts)) == split([data])


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1)))
def test_S21_what_was_written_is_what_is_read(lines: list[str]) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    assert split([bytes([byte]) for byte in data]) == lines


@pytest.mark.parametrize("size", [65_536, 65_537, 1_000_000])
def test_S20_a_line_may_be_longer_than_64_kib(size: int) -> None:
    chunks = [b"x" * 4096] * (size // 4096) + [b"x" * (size % 4096), b"\ny\n"]
    assert [len(line) for line in split(chunks)] == [size, 1]


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 11 + b"\n"]])
def test_M5_a_line_beyond_the_limit_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(LineTooLong):
        split(chunks, limit=10)


def test_M5_the_limit_is_of_one_line_and_not_of_all() -> None:
    assert split([b"x" * 10 + b"\n"] * 5, limit=10) == ["x" * 10] * 5
