"""Stop strings, in whatever pieces the answer comes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from olp.core.answer.stop_strings import StopCutter


def cut(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    cutter = StopCutter(stops)
    out = "".join(cutter.feed(piece) for piece in pieces) + cutter.flush()
    return out, cutter.hit


_letters = st.text("ab\n", max_size=12)
_stops = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=4)


@pytest.mark.parametrize(
    ("stops", "pieces", "out", "hit"),
    [
        (["END"], ["one END two"], "one ", True),
        (["END"], ["one E", "N", "D two"], "one ", True),
        (["END"], ["one E", "N", "X two"], "one ENX two", False),
        (["END"], ["WEEKEN"], "WEEKEN", False),
        (["\n\n"], ["a\n", "\nb"], "a", True),
        (["END"], ["END"], "", True),
        (["b", "a"], ["xxab"], "xx", True),
        (["abc", "b"], ["abc"], "a", True),
        (["ab", "b"], ["ab"], "", True),
        (["aab"], ["aaa", "b"], "a", True),
        ([], ["anything"], "anything", False),
        ([""], ["anything"], "anything", False),
        (["日本"], ["Grüße 日", "本!"], "Grüße ", True),
    ],
)
def test_N1_the_answer_ends_before_the_stop(
    stops: list[str], pieces: list[str], out: str, hit: bool
) -> None:
    assert cut(stops, pieces) == (out, hit)


def test_N1_what_cannot_be_a_stop_any_more_goes_out_at_once() -> None:
    cutter = StopCutter(["END"])
    assert cutter.feed("one E") == "one "
    assert cutter.feed("x") == "Ex"
    assert cutter.feed("E") == ""
    assert cutter.flush() == "E"


@given(_stops, st.lists(_letters))
@example(["abc", "b"], ["ab", "c"])
def test_N1_the_borders_of_the_pieces_do_not_matter(stops: list[str], pieces: list[str]) -> None:
    assert cut(stops, pieces) == cut(stops, ["".join(pieces)])


@given(_stops, st.lists(_letters))
def test_N1_nothing_of_a_stop_goes_out(stops: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    out, hit = cut(stops, pieces)
    assert not any(stop in out for stop in stops)
    assert text.startswith(out)
    assert hit == any(stop in text for stop in stops)
    assert hit or out == text
    if hit:
        assert any(text.startswith(out + stop) for stop in stops)


@given(_stops, st.lists(_letters))
def test_N1_a_hit_is_the_end(stops: list[str], pieces: list[str]) -> None:
    cutter = StopCutter(stops)
    for piece in pieces:
        over = cutter.hit
        out = cutter.feed(piece)
        assert not (over and out)
