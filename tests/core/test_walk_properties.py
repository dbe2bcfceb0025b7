"""What must be true of every walk, whatever the events are and whenever they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from olp.core.routing.chains import Chain, Policy
from olp.core.routing.walk import NOT_ASKED, Timeouts, Walk
from olp.events import (
    Answering,
    CallArguments,
    CallStarted,
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    Output,
    Quota,
    Reasoning,
    Started,
    Text,
    Usage,
)
from olp.model import Hop

PROVIDERS = ("claude", "codex", "vibe")
WALL = 1_800_000_000.0

GATES: tuple[Literal["content"], Literal["reasoning"]] = ("content", "reasoning")
ACTIONS: tuple[Literal["commit"], Literal["advance"]] = ("commit", "advance")
AUTHS: tuple[Literal["stop"], Literal["advance"]] = ("stop", "advance")

Moment = tuple[float, Event | None]
"""Seconds that pass, and then an event, or only the clock."""

EVENTS: tuple[Event | None, ...] = (
    *(None, None, None, Started(), Started("m0"), Started("other")),
    *(Text(""), Text("x"), Text("yy"), Reasoning(""), Reasoning("hm"), Quota(()), Usage(1, 1)),
    *(CallStarted(0, "c", "f"), CallArguments(0, "{}")),
    *map(Done, Finish),
    Done(empty=True),
    *(Failed(trouble, "no") for trouble in ErrorCode if trouble not in NOT_ASKED),
    *(Failed(ErrorCode.UNKNOWN, "no", status=status) for status in (400, 429, 500)),
)
WAITS = (0.0, 0.0, 0.1, 1 / 3, 4.9, 5.0, 20.0, 29.9, 30.0, 60.0, 240.0, 541.7, 600.0)

# Long lists of ready-made values: drawing from them is quick, so that many walks are tried.
_moments = st.sampled_from([(wait, event) for event in EVENTS for wait in WAITS])
_attempt: st.SearchStrategy[list[Moment]] = st.lists(_moments, max_size=8)
_policies = st.sampled_from(
    [
        Policy(gate=gate, gate_action=action, on_auth_missing=auth, deadline_s=deadline)
        for gate in GATES
        for action in ACTIONS
        for auth in AUTHS
        for deadline in (540.0, 30.0)
    ]
)
_skips = st.sampled_from([False, False, False, True])
_contexts = st.sampled_from([None, 100, 200, 300])
_SKIPPED: st.SearchStrategy[list[Moment]] = st.sampled_from(
    [
        [(0.0, Failed(trouble, "skipped", resets_at=at))]
        for trouble in NOT_ASKED
        for at in (None, 10.0, 20.0)
    ]
)
_HELD: st.SearchStrategy[list[Moment]] = st.just(
    [(0.0, Failed(ErrorCode.QUOTA_HOLD, "held by now"))]
)


@dataclass
class Story:
    """One walk from its beginning to its end: the hops that were looked at, and of these the ones
    whose CLI was asked."""

    walk: Walk
    count: int
    streaming: bool
    tried: list[Hop] = field(default_factory=list)
    asked: list[Hop] = field(default_factory=list)
    out: list[Output] = field(default_factory=list)
    out_by: list[int] = field(default_factory=list)
    failed_after_output: bool = False

    @property
    def out_of_turn(self) -> bool:
        """Whether the last hop was looked at for a second time, after all others."""
        return self.tried.count(self.tried[-1]) > 1

    def take(self, outputs: tuple[Output, ...]) -> None:
        self.out += outputs
        self.out_by += [len(self.tried) - 1] * len(outputs)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A walk that was gone to its end, as the engine goes it. Each hop's texts carry its index, to
    see whose goes out."""
    count = draw(st.integers(1, 3))
    now = draw(st.sampled_from([0.0, 0.1, 1000.0, 98765.4321]))
    streaming = draw(st.booleans())
    hops = tuple(Hop(name, f"m{index}") for index, name in enumerate(PROVIDERS[:count]))
    walk = Walk(
        Chain("c", hops, draw(_policies)),
        streaming=streaming,
        now=now,
        timeouts={"codex": Timeouts(20, 5, 60)},
        patience=draw(st.sampled_from([0.0, 10.0])),
        contexts={hop: tokens for hop in hops if (tokens := draw(_contexts))},
    )
    trace = Story(walk, count, streaming)
    while (hop := walk.next(now)) is not None or walk.full:
        full = hop is None
        if full:
            hop = draw(st.sampled_from([None, *walk.full]))
            walk.waited(draw(st.sampled_from([0.0, 4.0])), in_vain=hop is None)
        if hop is None:
            continue
        if full:
            walk.again(hop, now)
        skipped = draw(_skips)
        trace.tried.append(hop)
        trace.asked += [] if skipped else [hop]
        assert len(trace.tried) <= 3 * count, "the walk ends"
        now = _live(trace, draw(_HELD if full else _SKIPPED) if skipped else draw(_attempt), now)
    return trace


def _live(trace: Story, attempt: list[Moment], now: float) -> float:
    walk, mark = trace.walk, f"<{len(trace.tried) - 1}>"
    for seconds, event in [*attempt, (0.0, Failed(ErrorCode.SPAWN_FAILED, "silence"))]:
        now += seconds
        if not walk.trying:
            break
        if now >= walk.wake_at:
            trace.take(walk.expire(now))
        if isinstance(event, Text) and event.text:
            event = Text(event.text + mark)
        if event is not None:
            before = bool(trace.out)
            trace.take(walk.pass_on(event, now))
            trace.failed_after_output |= before and isinstance(event, Failed)
    assert not walk.trying
    return now


def answer_of(trace: Story) -> Answering:
    head = trace.out[0]
    assert isinstance(head, Answering)
    return head


everything = settings(max_examples=200, deadline=None)


@everything
@given(stories())
def test_B1_nothing_is_tried_after_the_first_output(trace: Story) -> None:
    assert len(set(trace.out_by)) <= 1, "all output is of one attempt"
    if trace.out:
        assert trace.out_by[0] == len(trace.tried) - 1, "and that is the last one"


@everything
@given(stories())
def test_B1_an_answering_goes_out_at_most_once_and_first(trace: Story) -> None:
    heads = [index for index, event in enumerate(trace.out) if isinstance(event, Answering)]
    assert heads == ([0] if trace.out else [])


@everything
@given(stories())
def test_A1_hops_are_tried_once_each_and_in_order(trace: Story) -> None:
    indexes = [PROVIDERS.index(hop.provider) for hop in trace.tried]
    looked = list(dict.fromkeys(indexes))
    assert looked == sorted(looked)
    assert len(trace.asked) == len(set(trace.asked)), "each CLI is asked once"
    again = {hop for index, hop in enumerate(trace.tried) if hop in trace.tried[:index]}
    assert all(trace.tried.count(hop) > trace.asked.count(hop) for hop in again), "full or open"


@everything
@given(stories())
def test_F4_an_open_circuit_is_forced_only_if_nobody_was_asked(trace: Story) -> None:
    if trace.walk.forced:
        ends = [end for _, end in trace.walk.ends[:-1]]
        assert all(isinstance(end, Failed) and end.code in NOT_ASKED for end in ends)
        assert len(ends) >= trace.count


@everything
@given(stories())
def test_A3_the_head_names_the_hop_that_serves_and_tells_of_every_hop_before(trace: Story) -> None:
    if trace.out:
        head = answer_of(trace)
        assert head.provider == trace.tried[-1].provider == PROVIDERS[head.hops]
        before = [hop for hop in range(trace.count) if hop != head.hops]
        told = [record.hop for record in head.records]
        assert told == (before if trace.out_of_turn else before[: head.hops])


@everything
@given(stories())
def test_A4_a_verdict_exists_exactly_if_nothing_was_answered(trace: Story) -> None:
    assert trace.walk.answered == bool(trace.out)
    if not trace.walk.answered:
        end = trace.walk.verdict(WALL)
        assert end.status >= 400
        assert end.records and end.records[0].hop == 0
        assert end.hops <= trace.count
        assert not end.exhausted or (end.provider, end.hops) == ("claude", trace.count)


@everything
@given(stories())
def test_B2_no_text_of_a_failed_hop_goes_out_with_another_hops_answer(trace: Story) -> None:
    mine = f"<{len(trace.tried) - 1}>"
    for event in trace.out:
        if isinstance(event, Text) and event.text:
            assert event.text.endswith(mine)


@everything
@given(stories())
def test_B3_an_answer_ends_once_and_never_with_stop_after_a_failure(trace: Story) -> None:
    ends = [event for event in trace.out if isinstance(event, Done | Failed)]
    if trace.out:
        assert len(ends) == 1 and trace.out[-1] is ends[0]
    if trace.failed_after_output:
        end = trace.out[-1]
        assert isinstance(end, Failed) or end == Done(Finish.LENGTH, truncated=True)
        # Half a call of a tool is never passed off as an answer that is merely short.
        assert isinstance(end, Failed) or not any(isinstance(e, CallStarted) for e in trace.out)


@everything
@given(stories())
def test_C4_without_streaming_what_goes_out_is_one_whole_answer(trace: Story) -> None:
    if trace.out and not trace.streaming:
        assert isinstance(trace.out[-1], Done)


@everything
@given(stories())
def test_D2_every_attempt_ends_exactly_once_in_the_books(trace: Story) -> None:
    ended = [hop for hop, _ in trace.walk.ends]
    assert [hop for hop in ended if hop in trace.tried] == trace.tried


@everything
@given(stories())
def test_I2_records_are_of_hops_in_order_once_each(trace: Story) -> None:
    hops = [record.hop for record in trace.walk.records]
    assert hops == sorted(set(hops))
    if not trace.walk.answered and not trace.walk.forced:
        assert hops == list(range(len(hops)))


@everything
@given(stories())
def test_A7_after_a_context_that_was_too_small_only_larger_ones_are_asked(trace: Story) -> None:
    contexts = trace.walk._contexts
    needs = 0
    ends = {hop: end for hop, end in trace.walk.ends if hop in trace.asked}
    for hop in trace.asked:
        assert needs == 0 or contexts.get(hop, 0) > needs
        end = ends[hop]
        if isinstance(end, Failed) and end.code is ErrorCode.CONTEXT_TOO_LONG:
            needs = contexts.get(hop, 0)
            if not needs:
                assert hop == trace.asked[-1], "nobody knows what would be larger"


@everything
@given(st.lists(st.sampled_from([e for e in EVENTS if e is not None])), st.booleans())
def test_B1_of_what_was_read_together_a_failure_decides(
    events: list[Event], streaming: bool
) -> None:
    walk = Walk(Chain("c", (Hop("claude", "m0"), Hop("codex", "m1"))), streaming=streaming, now=0)
    walk.next(0)
    out = walk.pass_on_together(events, 0)
    end = next((event for event in events if isinstance(event, Done | Failed)), None)
    if isinstance(end, Failed):
        salvaged = not streaming and end.code is ErrorCode.SPAWN_FAILED
        assert not out or (salvaged and out[-1] == Done(Finish.LENGTH, truncated=True))
        assert not walk.trying
    again = Walk(Chain("c", (Hop("claude", "m0"), Hop("codex", "m1"))), streaming=False, now=0)
    again.next(0)
    one_by_one = tuple(output for event in events for output in again.pass_on(event, 0))
    assert streaming or out == one_by_one, "without streaming it makes no difference"
