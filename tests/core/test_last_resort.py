"""F4: the breaker is never the reason that a request has nowhere to go. Walk and books together."""

from __future__ import annotations

import pytest

from olp.config import BreakerConfig, Thresholds
from olp.core.admission.admission import Admission, Now, Permit
from olp.core.admission.slots import Slots
from olp.core.routing.chains import Chain, Policy
from olp.core.routing.walk import Walk
from olp.events import Done, ErrorCode, Failed, Refused, Text
from olp.model import Hop

HOPS = (Hop("claude", "sonnet"), Hop("codex", "gpt"), Hop("vibe", "medium"))
WALL = 1_800_000_000.0
DEAD = Failed(ErrorCode.SPAWN_FAILED, "died")
ONCE = {"vibe": Thresholds(daily_request_count_threshold=1)}


def at(seconds: float) -> Now:
    return Now(seconds, WALL + seconds, "2027-01-15")


def admission(slots: int = 2, limits: dict[str, Thresholds] | None = None) -> Admission:
    return Admission(Slots({hop.provider: slots for hop in HOPS}), BreakerConfig(), limits or {})


def open_circuit(one: Admission, hop: Hop, when: float) -> None:
    for _ in range(3):
        one.note(hop, DEAD, at(when))


def all_open(times: tuple[float, ...] = (0, 10, 20)) -> Admission:
    one = admission()
    for hop, when in zip(HOPS, times, strict=True):
        open_circuit(one, hop, when)
    return one


class Request:
    """One request: as the engine does it, without waiting."""

    def __init__(
        self, one: Admission, now: float, *, hops: tuple[Hop, ...] = HOPS, fail: bool = False
    ):
        self.admission, self.now = one, now
        policy = Policy(try_open_circuits=not fail)
        self.walk = Walk(Chain("c", hops, policy), streaming=True, now=now)
        self.asked: list[Hop] = []

    def go(self, end: Done | Failed) -> Refused | None:
        """To its end: every hop that may be asked ends like this."""
        while (hop := self.walk.next(self.now)) is not None:
            right = self.admission.enter(hop, None, at(self.now), forced=self.walk.forced)
            if isinstance(right, Failed):
                self.walk.pass_on(right, self.now)
                self._keep_books()
                continue
            with right:
                self.asked.append(hop)
                if isinstance(end, Done):
                    self.walk.pass_on(Text("hi"), self.now)
                self.walk.pass_on(end, self.now)
                self._keep_books()
        return None if self.walk.answered else self.walk.verdict(WALL + self.now)

    def _keep_books(self) -> None:
        for hop, end in self.walk.ends:
            self.admission.note(hop, end, at(self.now))
        self.walk.ends.clear()

    @property
    def codes(self) -> list[str]:
        return [record.code for record in self.walk.records]


@pytest.mark.parametrize(
    ("times", "first"), [((0, 10, 20), 0), ((20, 0, 10), 1), ((20, 10, 0), 2), ((5, 5, 5), 0)]
)
def test_F4_if_all_are_open_the_first_to_be_due_is_tried(
    times: tuple[float, ...], first: int
) -> None:
    request = Request(all_open(times), 30)
    assert request.go(Done()) is None
    assert request.asked == [HOPS[first]]
    assert request.codes == ["CIRCUIT_OPEN"] * 2
    assert [n.event for n in request.walk.notes].count("breaker_forced_attempt") == 1


def test_F4_its_success_closes_the_circuit() -> None:
    one = all_open()
    Request(one, 30).go(Done())
    again = Request(one, 31)
    again.go(Done())
    assert again.asked == [HOPS[0]] and not again.walk.forced and again.codes == []


def test_F4_its_failure_leaves_one_spawn_behind_and_the_first_hops_error() -> None:
    one = all_open((20, 0, 10))
    request = Request(one, 30)
    end = request.go(DEAD)
    assert end is not None and request.asked == [HOPS[1]]
    assert request.codes == ["CIRCUIT_OPEN", "SPAWN_FAILED", "CIRCUIT_OPEN"]
    assert (end.status, end.failed.code) == (503, ErrorCode.CIRCUIT_OPEN)
    assert end.exhausted == ("claude", "codex", "vibe")


def test_F4_forced_attempts_take_turns() -> None:
    """A failure makes the tried circuit the last to be due: nobody is asked all the time."""
    one = all_open()
    asked = []
    for now in (21, 22, 23, 24):
        request = Request(one, now)
        request.go(DEAD)
        asked += request.asked
    assert asked == [HOPS[0], HOPS[1], HOPS[2], HOPS[0]]


def test_F4_all_open_fail_gives_503_with_the_time_to_wait() -> None:
    request = Request(all_open((20, 0, 10)), 30, fail=True)
    end = request.go(Done())
    assert end is not None and request.asked == []
    assert (end.status, end.retry_after) == (503, 30)
    assert request.codes == ["CIRCUIT_OPEN"] * 3


@pytest.mark.parametrize("fail", [False, True])
def test_F4_a_circuit_that_is_due_is_no_reason_to_force_anything(fail: bool) -> None:
    request = Request(all_open(), 60, fail=fail)
    assert request.go(Done()) is None
    assert request.asked == [HOPS[0]] and not request.walk.forced


def mixed() -> Admission:
    """Hop 0 held, hop 1's circuit open, hop 2 over its threshold."""
    one = admission(limits=ONCE)
    held = Failed(ErrorCode.QUOTA_EXHAUSTED, "used up", resets_at=WALL + 3600)
    one.note(HOPS[0], held, at(0))
    open_circuit(one, HOPS[1], 0)
    one.quota.count("vibe", "2027-01-15")
    return one


def test_F4_E4_with_mixed_reasons_the_open_circuit_is_tried_and_only_that() -> None:
    request = Request(mixed(), 30)
    assert request.go(Done()) is None
    assert request.asked == [HOPS[1]]
    assert request.codes == ["QUOTA_HOLD", "SOFT_TRIGGER"]


def test_F4_A4_with_mixed_reasons_and_all_open_fail_the_first_hops_reason_is_told() -> None:
    request = Request(mixed(), 30, fail=True)
    end = request.go(Done())
    assert end is not None and request.asked == []
    assert (end.status, end.failed.code) == (429, ErrorCode.QUOTA_HOLD)
    assert "used up" in end.failed.detail
    assert end.retry_after == 30, "the circuit is due before the plan is"


def test_F4_a_full_hop_and_an_open_one() -> None:
    one = admission(slots=1)
    rights = [one.enter(hop, None, at(0)) for hop in (HOPS[0], HOPS[2])]
    assert all(isinstance(right, Permit) for right in rights)
    open_circuit(one, HOPS[1], 0)
    request = Request(one, 30)
    assert request.go(Done()) is None
    assert request.asked == [HOPS[1]]


@pytest.mark.parametrize("trouble", [ErrorCode.QUOTA_EXHAUSTED, ErrorCode.CLI_NOT_FOUND])
def test_F4_where_another_hop_was_asked_the_open_one_stays_alone(trouble: ErrorCode) -> None:
    one = admission()
    open_circuit(one, HOPS[0], 0)
    request = Request(one, 30, hops=HOPS[:2])
    end = request.go(Failed(trouble, "no"))
    assert end is not None and request.asked == [HOPS[1]]
    assert end.failed.code is ErrorCode.CIRCUIT_OPEN
    assert "its last error: SPAWN_FAILED: died" in end.failed.detail


def test_F4_a_forced_attempt_is_the_probe_and_ends_as_one() -> None:
    one = all_open()
    right = one.enter(HOPS[0], None, at(30), forced=True)
    assert isinstance(right, Permit)
    with right:
        assert one.breaker.blocks(HOPS[0], 1000)
    assert one.breaker.blocks(HOPS[0], 59) and not one.breaker.blocks(HOPS[0], 60)


def test_D3_no_slot_anywhere_is_no_case_for_force() -> None:
    one = admission(slots=1)
    rights = [one.enter(hop, None, at(0)) for hop in HOPS]
    assert all(isinstance(right, Permit) for right in rights)
    request = Request(one, 0)
    end = request.go(Done())
    assert end is not None and (end.status, end.retry) == (429, True)
    assert request.asked == []


def test_F4_a_forced_hop_without_room_gives_way_to_the_next() -> None:
    one = all_open()
    taken = [one.slots.take("claude") for _ in range(2)]
    request = Request(one, 30)
    assert request.go(Done()) is None
    assert request.asked == [HOPS[1]]
    assert len(taken) == 2
