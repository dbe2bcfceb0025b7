"""The stream gate: what opens it, and that it loses and reorders nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.core.routing.gate import Gate
from olp.events import Done, Event, Finish, Quota, Reasoning, Started, Text, Usage

HELD: list[Event] = [Started(), Started("m"), Text(""), Reasoning(""), Quota(()), Usage(1, 2)]

_events: st.SearchStrategy[Event] = st.one_of(
    st.sampled_from([*HELD, Reasoning("hm"), Done(), Done(Finish.LENGTH)]),
    st.builds(Text, st.text(max_size=3)),
)


@pytest.mark.parametrize("event", [*HELD, Reasoning("hm")], ids=repr)
@pytest.mark.parametrize("streaming", [True, False])
def test_C2_what_is_not_content_stays_behind_the_gate(event: Event, streaming: bool) -> None:
    gate = Gate(streaming=streaming)
    assert gate.offer(event) == ()
    assert not gate.open and not gate.has_text


def test_C2_the_first_content_opens_it_and_the_rest_passes_untouched() -> None:
    gate = Gate(streaming=True)
    gate.offer(Started())
    assert gate.offer(Text("a")) == (Started(), Text("a"))
    assert gate.open and gate.has_text
    for event in [*HELD, Reasoning("hm"), Text("b")]:
        assert gate.offer(event) == (event,)


def test_C2_reasoning_opens_it_only_where_it_may() -> None:
    assert Gate(streaming=True).offer(Reasoning("hm")) == ()
    gate = Gate(streaming=True, reasoning_opens=True)
    assert gate.offer(Reasoning("")) == ()
    assert gate.offer(Reasoning("hm")) == (Reasoning(""), Reasoning("hm"))
    assert not gate.has_text, "thinking is not the answer"


@pytest.mark.parametrize("reasoning_opens", [True, False])
def test_C4_without_streaming_only_the_end_opens_it(reasoning_opens: bool) -> None:
    gate = Gate(streaming=False, reasoning_opens=reasoning_opens)
    assert gate.offer(Reasoning("hm")) == ()
    assert gate.offer(Text("all of it")) == ()
    assert gate.has_text and not gate.open
    assert gate.offer(Done()) == (Reasoning("hm"), Text("all of it"), Done())


@given(st.lists(_events), st.booleans(), st.booleans())
def test_C2_everything_passes_once_and_in_order(
    events: list[Event], streaming: bool, reasoning_opens: bool
) -> None:
    gate = Gate(streaming=streaming, reasoning_opens=reasoning_opens)
    out: list[Event] = []
    for event in events:
        was_open = gate.open
        passed = gate.offer(event)
        assert gate.open >= was_open, "it never closes again"
        assert bool(passed) == gate.open
        out += passed
    if not gate.open:
        out += gate.release()
    assert out == events
    assert gate.has_text == any(isinstance(e, Text) and e.text.strip() for e in events)
