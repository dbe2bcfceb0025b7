"""The books: what is looked at before a hop is asked, in which order, and what is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, time

import pytest

from olp.config import BreakerConfig, ChainConfig, Thresholds
from olp.core.admission.admission import Admission, Now, Permit
from olp.core.admission.slots import Slots
from olp.events import Done, ErrorCode, Failed, Window
from olp.model import Hop

SONNET, OPUS = Hop("claude", "sonnet"), Hop("claude", "opus")
WALL = 1_800_000_000.0
DAY = "2027-01-15"
QUOTA = Failed(ErrorCode.QUOTA_EXHAUSTED, "session limit", resets_at=WALL + 600)
DEAD = Failed(ErrorCode.SPAWN_FAILED, "claude exited with code 1")
ONCE_A_DAY = Thresholds(daily_request_count_threshold=1)


def at(seconds: float = 0.0) -> Now:
    return Now(seconds, WALL + seconds, DAY)


def admission(slots: int = 4, limits: Mapping[str, Thresholds] | None = None) -> Admission:
    return Admission(Slots({"claude": slots, "codex": slots}), BreakerConfig(), limits or {})


def granted(one: Admission, hop: Hop = SONNET, now: float = 0.0, *, forced: bool = False) -> Permit:
    right = one.enter(hop, None, at(now), forced=forced)
    assert isinstance(right, Permit), right
    return right


def refused(
    one: Admission,
    hop: Hop = SONNET,
    now: float = 0.0,
    chain: Thresholds | None = None,
    *,
    forced: bool = False,
) -> Failed:
    right = one.enter(hop, chain, at(now), forced=forced)
    assert isinstance(right, Failed), right
    return right


def with_open_circuit(one: Admission, hop: Hop = SONNET) -> Admission:
    for _ in range(3):
        one.note(hop, DEAD, at())
    return one


# --- the order of the checks ---------------------------------------------------------------------


def test_E4_F3_D1_the_order_is_hold_threshold_breaker_slot() -> None:
    one = admission(slots=1, limits={"claude": ONCE_A_DAY})
    with granted(one):
        assert refused(one, now=0).code is ErrorCode.SOFT_TRIGGER
        with_open_circuit(one)
        one.note(SONNET, QUOTA, at())
        assert refused(one).code is ErrorCode.QUOTA_HOLD
        one.holds.clear()
        assert refused(one).code is ErrorCode.SOFT_TRIGGER
        no_limit = Thresholds(daily_request_count_threshold=1000)
        assert refused(one, chain=no_limit).code is ErrorCode.CIRCUIT_OPEN
        assert refused(one, chain=no_limit, forced=True).code is ErrorCode.CONCURRENCY_LIMIT


def test_E4_F3_what_is_refused_takes_nothing() -> None:
    one = admission(slots=1, limits={"claude": Thresholds(daily_request_count_threshold=5)})
    with_open_circuit(one)
    before = repr(one.slots), one.quota.requests("claude", DAY)
    refused(one)
    one.note(SONNET, QUOTA, at())
    refused(one)
    assert (repr(one.slots), one.quota.requests("claude", DAY)) == before


def test_F3_an_open_circuit_is_refused_with_the_time_it_is_due() -> None:
    skipped = refused(with_open_circuit(admission()), now=20)
    assert skipped.code is ErrorCode.CIRCUIT_OPEN
    assert skipped.resets_at == WALL + 60
    assert "40 s" in skipped.detail


def test_F4_a_forced_attempt_passes_the_breaker_and_nothing_else() -> None:
    one = with_open_circuit(admission(slots=1))
    with granted(one, forced=True):
        assert refused(one, forced=True).code is ErrorCode.CONCURRENCY_LIMIT
    one.note(SONNET, QUOTA, at())
    assert refused(one, forced=True).code is ErrorCode.QUOTA_HOLD


def test_D1_a_full_provider_is_told_as_it_is_and_is_no_probe() -> None:
    one = with_open_circuit(admission(slots=1))
    taken = granted(one, OPUS)
    full = refused(one, now=60)
    assert full.code is ErrorCode.CONCURRENCY_LIMIT
    assert "providerName=claude maxConcurrent=1 activeSpawns=1" in full.detail
    with taken:
        pass
    with granted(one, now=60):
        assert refused(one, now=60).code is ErrorCode.CIRCUIT_OPEN, "this one is the probe"


def test_E1_the_chains_thresholds_go_before_the_providers() -> None:
    window = [Window("five_hour", 50, WALL + 600)]
    half = Thresholds(five_hour_window_percent_threshold=50)
    full = ChainConfig(hops=("claude/sonnet",), five_hour_window_percent_threshold=51)
    one = admission(limits={"claude": half})
    one.quota.note("claude", window, WALL, "answer")
    assert refused(one).code is ErrorCode.SOFT_TRIGGER
    with granted_in(one, full):
        pass
    other = admission(limits={"claude": Thresholds(five_hour_window_percent_threshold=51)})
    other.quota.note("claude", window, WALL, "answer")
    with granted(other):
        pass
    assert refused(other, chain=half).code is ErrorCode.SOFT_TRIGGER


def granted_in(one: Admission, chain: Thresholds) -> Permit:
    right = one.enter(SONNET, chain, at())
    assert isinstance(right, Permit), right
    return right


def test_E1_where_the_chain_says_nothing_the_providers_threshold_holds() -> None:
    one = admission(limits={"claude": ONCE_A_DAY})
    chain = ChainConfig(hops=("claude/sonnet",), credit_pool_percent_threshold=10)
    with granted_in(one, chain):
        pass
    assert refused(one, chain=chain).code is ErrorCode.SOFT_TRIGGER


def test_E2_every_attempt_is_counted_and_no_skip() -> None:
    one = admission(limits={"claude": Thresholds(daily_request_count_threshold=2)})
    for made in (1, 2):
        with granted(one):
            assert one.quota.requests("claude", DAY) == made
    for _ in range(3):
        refused(one)
    assert one.quota.requests("claude", DAY) == 2
    assert one.quota.requests("codex", DAY) == 0


# --- A4: what a skip says ------------------------------------------------------------------------


def test_A4_a_skip_says_the_last_real_error() -> None:
    skipped = refused(with_open_circuit(admission()))
    assert skipped.detail.startswith("left alone for 60 s more")
    assert skipped.detail.endswith("its last error: SPAWN_FAILED: claude exited with code 1")


def test_A4_a_threshold_says_it_too() -> None:
    one = admission(limits={"claude": ONCE_A_DAY})
    with granted(one):
        one.note(SONNET, Failed(ErrorCode.OVERLOADED, "529"), at())
    assert refused(one).detail == ("1 request today, threshold 1; its last error: OVERLOADED: 529")


@pytest.mark.parametrize(
    "other",
    [
        Failed(ErrorCode.BAD_REQUEST, "the client's doing"),
        Failed(ErrorCode.CONCURRENCY_LIMIT, "full"),
        Failed(ErrorCode.CIRCUIT_OPEN, "skipped"),
        Failed(ErrorCode.SOFT_TRIGGER, "skipped"),
        Failed(ErrorCode.DEADLINE, "skipped"),
    ],
)
def test_A4_a_real_error_is_one_of_the_providers_own(other: Failed) -> None:
    one = with_open_circuit(admission())
    one.note(SONNET, other, at())
    assert refused(one).detail.endswith("SPAWN_FAILED: claude exited with code 1")


def test_A4_a_missing_login_is_a_real_error() -> None:
    one = with_open_circuit(admission())
    one.note(SONNET, Failed(ErrorCode.AUTH_MISSING, "not logged in"), at())
    assert refused(one).detail.endswith("AUTH_MISSING: not logged in")


def test_A4_the_error_is_that_of_the_hop_and_not_of_another_model() -> None:
    """An answer of sonnet does not make anybody forget why opus is left alone."""
    one = with_open_circuit(admission(limits={"claude": ONCE_A_DAY}), OPUS)
    with granted(one):
        one.note(SONNET, Done(), at())
    no_limit = Thresholds(daily_request_count_threshold=1000)
    assert refused(one, OPUS, chain=no_limit).detail.endswith("claude exited with code 1")
    assert "last error" not in refused(one, SONNET).detail


def test_A4_an_answer_makes_the_error_history() -> None:
    one = admission(limits={"claude": ONCE_A_DAY})
    with granted(one):
        one.note(SONNET, DEAD, at())
        one.note(SONNET, Done(), at())
    assert "last error" not in refused(one).detail


def test_A4_a_hold_says_once_what_the_provider_said() -> None:
    one = admission()
    one.note(SONNET, QUOTA, at())
    assert refused(one).detail.count("session limit") == 1


# --- D2: what is taken is given back -------------------------------------------------------------


ENDS: dict[str, Done | Failed | None] = {
    "answer": Done(),
    "failure": DEAD,
    "quota": QUOTA,
    "client error": Failed(ErrorCode.BAD_REQUEST, "no"),
    "nothing": None,
}


@pytest.mark.parametrize("raises", [None, ValueError, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("end", ENDS)
def test_D2_whatever_way_the_block_is_left_everything_is_given_back(
    end: str, raises: type[BaseException] | None
) -> None:
    """The attempt is the probe of a circuit and of two holds, and has a slot."""
    one = with_open_circuit(admission(slots=1))
    one.note(SONNET, QUOTA, at())
    one.note(SONNET, Failed(ErrorCode.QUOTA_EXHAUSTED, "m", resets_at=WALL, model_limit=True), at())
    try:
        with granted(one, now=700):
            if (told := ENDS[end]) is not None:
                one.note(SONNET, told, at(700))
            if raises is not None:
                raise raises
    except BaseException as error:
        assert type(error) is raises
    assert one.slots.active == {"claude": 0, "codex": 0}
    later = 700 + 15 * 60
    with granted(one, now=later):
        assert one.slots.active["claude"] == 1
    with granted(one, now=later):
        pass


def test_D2_a_pass_that_is_left_twice_gives_back_once() -> None:
    one = admission(slots=2)
    first, second = granted(one), granted(one)
    with first, first:
        pass
    assert one.slots.active["claude"] == 1
    with second:
        pass
    assert one.slots.active["claude"] == 0


def test_E5_a_hold_and_its_probe() -> None:
    one = admission()
    with granted(one):
        one.note(SONNET, QUOTA, at())
    assert refused(one, OPUS, now=599).code is ErrorCode.QUOTA_HOLD
    with granted(one, now=600):
        assert refused(one, OPUS, now=600).code is ErrorCode.QUOTA_HOLD
        one.note(SONNET, Done(), at(600))
        with granted(one, OPUS, now=600):
            pass


@pytest.mark.parametrize("end", [DEAD, Done()])
def test_F1_the_books_say_when_a_circuit_changes(end: Done | Failed) -> None:
    one = admission()
    assert [one.note(SONNET, DEAD, at(n)) for n in range(3)] == [None, None, "opened"]
    with granted(one, now=62):
        assert one.note(SONNET, end, at(62)) == ("closed" if isinstance(end, Done) else "opened")


# --- what is told of a used-up plan --------------------------------------------------------------


def test_M8_a_used_up_plan_is_used_up_until_its_reset_and_not_failing() -> None:
    one = admission()
    one.note(SONNET, Done(), at())
    one.note(SONNET, QUOTA, at(1))
    assert one.state("claude", 2, WALL + 2) == "used_up"
    assert one.state("codex", 2, WALL + 2) == "unknown"
    assert one.state("claude", 599, WALL + 599) == "used_up"
    assert one.state("claude", 600, WALL + 600) == "stale", (
        "it should be back, and nobody has asked"
    )
    one.note(SONNET, Done(), at(601))
    assert one.state("claude", 602, WALL + 602) == "ok"


def test_M8_a_plan_whose_reset_nobody_told_is_used_up_while_it_is_held() -> None:
    one = admission()
    one.note(SONNET, Failed(ErrorCode.QUOTA_EXHAUSTED, "no more"), at())
    assert one.state("claude", 299, WALL + 299) == "used_up"
    assert one.state("claude", 300, WALL + 300) == "stale"
    one.holds.clear("claude")
    assert one.state("claude", 10, WALL + 10) == "stale"


def test_M8_the_limit_of_one_model_is_not_the_plan() -> None:
    one = admission()
    one.note(OPUS, Done(), at())
    one.note(SONNET, Failed(ErrorCode.QUOTA_EXHAUSTED, "opus limit", model_limit=True), at(1))
    assert one.state("claude", 2, WALL + 2) == "ok"


def test_A4_a_skip_tells_no_error_that_is_long_ago() -> None:
    one = admission(limits={"claude": ONCE_A_DAY})
    one.note(SONNET, DEAD, at())
    one.quota.count("claude", DAY)
    assert "its last error: SPAWN_FAILED" in refused(one, now=3600).detail
    assert "last error" not in refused(one, now=3601).detail


def test_E5_a_hold_says_whose_plan_it_is_and_what_its_vendor_said() -> None:
    one = admission()
    one.note(SONNET, DEAD, at())
    one.note(SONNET, QUOTA, at())
    held = refused(one)
    assert held.detail == "the plan of claude is used up; it said: session limit"
    assert held.resets_at == QUOTA.resets_at
    model = admission()
    model.note(OPUS, Failed(ErrorCode.QUOTA_EXHAUSTED, "weekly opus limit", model_limit=True), at())
    assert refused(model, OPUS).detail.startswith(
        "the limit for opus of claude is used up; it said"
    )


def test_E1_the_count_of_a_day_is_over_at_midnight() -> None:
    one = admission(limits={"claude": ONCE_A_DAY})
    one.quota.count("claude", DAY)
    skipped = refused(one)
    assert skipped.resets_at is not None
    assert 0 < skipped.resets_at - WALL <= 86_400
    assert datetime.fromtimestamp(skipped.resets_at).time() == time()


# --- a slot is for an answer ---------------------------------------------------------------------


def test_D3_a_complete_answer_leaves_its_slot_before_its_process_is_gone() -> None:
    one = admission(slots=1)
    with granted(one) as first:
        assert refused(one).code is ErrorCode.CONCURRENCY_LIMIT
        first.answered()
        first.answered()
        assert (one.slots.active["claude"], one.slots.leaving["claude"]) == (0, 1)
        granted(one).__exit__(None, None, None)
    assert (one.slots.active["claude"], one.slots.leaving["claude"]) == (0, 0)


@pytest.mark.parametrize(("slots", "exits"), [(1, 4), (4, 4), (9, 9)])
def test_M6_the_processes_on_their_way_out_are_bounded(slots: int, exits: int) -> None:
    one = admission(slots=slots)
    rights = []
    for _ in range(exits):
        rights.append(granted(one))
        rights[-1].answered()
    assert (one.slots.active["claude"], one.slots.leaving["claude"]) == (0, exits)
    last = granted(one)
    last.answered()
    assert one.slots.active["claude"] == 1, "its slot stays taken until it is gone"
    for right in (*rights, last):
        with right:
            pass
    assert (one.slots.active["claude"], one.slots.leaving["claude"]) == (0, 0)


def test_D3_a_slot_that_others_wait_for_is_theirs() -> None:
    one = admission(slots=1)
    one.queue.join({"claude"}, "anna", lambda: None)
    full = refused(one)
    assert full.code is ErrorCode.CONCURRENCY_LIMIT and "activeSpawns=0" in full.detail
    assert isinstance(one.enter(SONNET, None, at(), in_turn=True), Permit)
