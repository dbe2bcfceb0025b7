"""What OLP does to an answer itself: stops, the token limit, JSON, half characters, usage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.core.answer.shaper import Shaper, repaired
from olp.core.answer.tokens import cut, estimate
from olp.events import (
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    Quota,
    Reasoning,
    Started,
    Text,
    Usage,
)
from olp.model import JsonFormat, Message, Request, Role

SCHEMA = JsonFormat({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}})


def request(**more: Any) -> Request:
    return Request("m", (Message(Role.USER, "hello there"),), **more)


def shape(events: Sequence[Event], *, enforce: bool = True, **more: Any) -> list[Event]:
    shaper = Shaper(request(**more), enforce_tokens=enforce)
    return [out for event in events for out in shaper.feed(event)]


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def end_of(events: Sequence[Event]) -> Done | Failed:
    end = events[-1]
    assert isinstance(end, Done | Failed)
    return end


# --- stops ---------------------------------------------------------------------------------------


def test_N1_a_stop_ends_the_answer_before_the_cli_does() -> None:
    shaper = Shaper(request(stop=("END",)))
    assert shaper.feed(Text("one E")) == [Text("one ")]
    usage, done = shaper.feed(Text("ND two"))
    assert isinstance(usage, Usage) and done == Done(Finish.STOP)
    assert shaper.over
    assert shaper.feed(Text("more")) == shaper.feed(Done()) == []


@pytest.mark.parametrize("finish", [Finish.STOP, Finish.LENGTH])
def test_N1_an_answer_that_ends_like_the_start_of_a_stop_loses_nothing(finish: Finish) -> None:
    out = shape([Text("WEEK"), Text("EN"), Done(finish)], stop=("END",))
    assert text_of(out) == "WEEKEN"
    assert end_of(out) == Done(finish)


def test_G1_a_process_that_dies_leaves_what_was_held_back_for_a_stop() -> None:
    out = shape([Text("WEEKEN"), Failed(ErrorCode.SPAWN_FAILED, "died")], stop=("END",))
    assert text_of(out) == "WEEKEN"
    assert isinstance(out[-1], Failed)


@given(
    st.lists(st.text("ab\ud83d\ude00c", max_size=5)),
    st.lists(st.text("abc", min_size=1, max_size=3), max_size=3),
)
def test_N1_the_borders_of_the_deltas_do_not_matter(pieces: list[str], stops: list[str]) -> None:
    many = shape([*map(Text, pieces), Done()], stop=tuple(stops))
    one = shape([Text("".join(pieces)), Done()], stop=tuple(stops))
    assert text_of(many) == text_of(one)
    assert end_of(many) == end_of(one)


# --- the token limit -----------------------------------------------------------------------------


def test_N1_max_tokens_is_kept_where_the_cli_does_not_keep_it() -> None:
    out = shape([Text("x" * 100), Done()], max_tokens=5)
    assert text_of(out) == "x" * 20
    assert end_of(out) == Done(Finish.LENGTH)


def test_N1_max_tokens_counts_over_all_deltas() -> None:
    out = shape([Text("x" * 16), Text("y" * 16), Text("z"), Done()], max_tokens=5)
    assert text_of(out) == "x" * 16 + "y" * 4
    assert end_of(out) == Done(Finish.LENGTH)


def test_N1_an_answer_within_the_limit_is_left_alone() -> None:
    out = shape([Text("x" * 20), Done()], max_tokens=5)
    assert text_of(out) == "x" * 20
    assert end_of(out) == Done(Finish.STOP)


def test_N1_max_tokens_is_left_to_a_cli_that_keeps_it() -> None:
    out = shape([Text("x" * 100), Done()], max_tokens=5, enforce=False)
    assert text_of(out) == "x" * 100


@given(st.text(), st.integers(0, 20))
def test_N1_a_cut_is_a_prefix_between_characters(text: str, tokens: int) -> None:
    start = cut(text, tokens * 4)
    assert text.startswith(start)
    assert estimate(start) <= tokens
    start.encode()


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日", 1)]
)
def test_N1_the_estimate(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


# --- JSON ----------------------------------------------------------------------------------------


def test_R3_json_is_held_until_it_is_known_to_conform_where_the_owner_wants_it() -> None:
    shaper = Shaper(request(format=SCHEMA))
    assert shaper.feed(Text('{"a"')) == shaper.feed(Text(": 1}")) == []
    out = shaper.feed(Done())
    assert text_of(out) == '{"a": 1}'
    assert end_of(out) == Done()


def test_R3_json_goes_out_as_it_comes() -> None:
    shaper = Shaper(request(format=SCHEMA), live=True)
    assert shaper.feed(Text("Here:\n```json\n{")) == [], "nothing that could still be prose"
    assert shaper.feed(Text('"a"')) == [Text('{"a"')]
    assert shaper.feed(Text(": 1}")) == [Text(": 1}")]
    assert shaper.feed(Text("\n```\n")) == []
    usage, done = shaper.feed(Done())
    assert isinstance(usage, Usage) and done == Done()


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["I cannot ", "do that."], ""),
        (["{a: ", "1}"], ""),
        (["[1]"], ""),
        (['{"a": ', '"x"}'], '{"a": "x"}'),
        (['{"a": 1', " oops"], '{"a": 1 oops'),
        (['{"a": 1} ', "so"], '{"a": 1}'),
    ],
)
def test_R3_what_does_not_conform_ends_in_a_failure_and_prose_never_goes_out(
    pieces: list[str], shown: str
) -> None:
    shaper = Shaper(request(format=SCHEMA), live=True)
    out = [event for piece in pieces for event in shaper.feed(Text(piece))]
    assert text_of(out) == shown
    (failed,) = shaper.feed(Done())
    assert isinstance(failed, Failed) and failed.code is ErrorCode.FORMAT_MISMATCH


def test_R3_text_that_conforms_is_the_answer_however_it_came() -> None:
    for live in (False, True):
        shaper = Shaper(request(format=SCHEMA), live=live)
        events: list[Event] = [Started(), Reasoning("hm"), Text('{"a": 1}'), Done()]
        out = [made for event in events for made in shaper.feed(event)]
        assert text_of(out) == '{"a": 1}' and end_of(out) == Done()


def test_B3_json_that_is_out_when_its_cli_dies_has_its_usage_too() -> None:
    shaper = Shaper(request(format=SCHEMA), live=True)
    died = Failed(ErrorCode.SPAWN_FAILED, "died")
    assert shaper.feed(Text('{"a": ')) == [Text('{"a": ')]
    usage, failed = shaper.feed(died)
    assert isinstance(usage, Usage) and failed == died


_json_pieces = st.lists(
    st.sampled_from(
        [
            *(
                '{"a": 1}',
                '{"a": ',
                "1",
                "}",
                '"x"',
                "\n",
                "```",
                "```json\n",
                "Sure:\n",
                "EN",
                "D",
            ),
            *("\ud83d", "\ude00", " ", "[", '{"name": "f", ', '"arguments": {"a": ', "2}}"),
        ]
    ),
    max_size=8,
)


@given(
    _json_pieces,
    st.sampled_from([Done(), Done(Finish.LENGTH), Done(Finish.CONTENT_FILTER)]),
    st.sampled_from([(), ("END",)]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([JsonFormat(), SCHEMA]),
)
def test_R3_what_streams_is_what_a_whole_answer_is(
    pieces: list[str], end: Done, stop: tuple[str, ...], most: int | None, wanted: JsonFormat
) -> None:
    more: dict[str, Any] = {"format": wanted, "stop": stop, "max_tokens": most}
    events: list[Event] = [*map(Text, pieces), end]
    shaper = Shaper(request(**more), live=True)
    live = [made for event in events for made in shaper.feed(event)]
    held = shape(events, **more)
    assert end_of(live) == end_of(held)
    if isinstance(end_of(held), Done):
        assert text_of(live) == text_of(held)
        assert live[-2] == held[-2], "the usage"
    else:
        assert not text_of(held)


def test_N1_a_fence_around_the_json_is_taken_off() -> None:
    out = shape([Text('```json\n{"a": 1}\n```'), Done()], format=SCHEMA)
    assert text_of(out) == '{"a": 1}'


@pytest.mark.parametrize("answer", ["", "no", '{"a": "x"}', "[1]", '{"b": 1}', '{"a": 1} trailing'])
def test_N1_what_does_not_conform_is_an_error_and_no_answer(answer: str) -> None:
    out = shape([Text(answer), Done()], format=SCHEMA)
    assert text_of(out) == ""
    end = end_of(out)
    assert isinstance(end, Failed)
    assert end.code is ErrorCode.FORMAT_MISMATCH


def test_N1_json_cut_by_the_limit_says_so_with_its_finish_reason() -> None:
    out = shape([Text('{"a": 1'), Done(Finish.LENGTH)], format=SCHEMA)
    assert text_of(out) == '{"a": 1'
    assert end_of(out) == Done(Finish.LENGTH)


def test_N1_half_of_a_json_answer_is_not_usable() -> None:
    died = Failed(ErrorCode.SPAWN_FAILED, "died")
    assert shape([Text('{"a": 1'), died], format=SCHEMA) == [died]


# --- half characters -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83d", "\udc4bb"], "a\U0001f44bb"),
        (["\ud83d", "", "\udc4b"], "\U0001f44b"),
        (["a\ud83d\udc4bb"], "a\U0001f44bb"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["a\udc4b", "b"], "a\ufffdb"),
        (["a\ud83d"], "a\ufffd"),
        (["Grüße 👋 日本"], "Grüße 👋 日本"),
    ],
)
def test_S21_a_character_cut_between_deltas_is_whole_again(pieces: list[str], text: str) -> None:
    assert text_of(shape([*map(Text, pieces), Done()])) == text


def test_S21_a_half_character_at_the_end_keeps_its_place_behind_what_was_held() -> None:
    assert text_of(shape([Text("xE\ud83d"), Done()], stop=("END",))) == "xE\ufffd"


def test_S21_reasoning_can_always_be_encoded() -> None:
    out = shape([Reasoning("\ud83d!")])
    assert out == [Reasoning("\ufffd!")]


@given(st.lists(st.text(st.characters(), max_size=4)))
def test_S21_every_text_that_goes_out_can_be_encoded(pieces: list[str]) -> None:
    text = text_of(shape([*map(Text, pieces), Done()]))
    text.encode()
    assert text == repaired("".join(pieces))


# --- usage ---------------------------------------------------------------------------------------

_deltas = st.lists(
    st.one_of(
        st.builds(Text, st.text("abc", max_size=4)),
        st.builds(Reasoning, st.text(max_size=2)),
        st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
        st.sampled_from([Started(), Quota(())]),
    )
)


@given(
    _deltas,
    st.sampled_from([Done(), Done(Finish.LENGTH), Failed(ErrorCode.OVERLOADED, "no")]),
    st.sampled_from([(), ("b",), ("abc", "ca")]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, JsonFormat(), SCHEMA]),
)
def test_N1_usage_stands_exactly_once_and_right_before_the_end(
    deltas: list[Event],
    end: Event,
    stop: tuple[str, ...],
    max_tokens: int | None,
    wanted: JsonFormat | None,
) -> None:
    out = shape([*deltas, end, Text("late")], stop=stop, max_tokens=max_tokens, format=wanted)
    usages = [event for event in out if isinstance(event, Usage)]
    ends = [event for event in out if isinstance(event, Done | Failed)]
    assert ends == [out[-1]]
    if isinstance(out[-1], Done):
        assert len(usages) == 1 and out[-2] is usages[0]
    else:
        assert usages == []


def test_N1_the_last_count_of_the_cli_is_the_usage() -> None:
    out = shape([Usage(25, 1), Text("hello"), Usage(25, 15, 3), Done()])
    assert out[-2] == Usage(25, 15, 3)


def test_N1_a_cli_that_counts_nothing_gets_an_estimate() -> None:
    out = shape([Text("x" * 40), Done()])
    assert out[-2] == Usage(input=3, output=10, estimated=True)


def test_N1_an_answer_cut_by_olp_counts_what_went_out() -> None:
    out = shape([Usage(25, 1), Text("x" * 40 + "END")], stop=("END",))
    assert out[-2:] == [Usage(25, 10, estimated=True), Done()]


def test_G1_a_salvaged_answer_has_its_usage() -> None:
    died = Failed(ErrorCode.SPAWN_FAILED, "died")
    usage = Usage(25, 10, estimated=True)
    assert shape([Usage(25, 1), Text("x" * 40), died]) == [Text("x" * 40), usage, died]
    assert shape([Usage(25, 1), died]) == [died]


@pytest.mark.parametrize(
    "event", [Started("m"), Quota(()), Failed(ErrorCode.UNKNOWN, "x")], ids=repr
)
def test_B2_what_the_shaper_has_no_business_with_passes_untouched(event: Event) -> None:
    assert shape([event]) == [event]
