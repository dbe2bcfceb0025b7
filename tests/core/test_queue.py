"""The line for a slot: persons take turns, nobody who left is waited for, and no slot is left free
while somebody waits for it."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from olp.config import BreakerConfig
from olp.core.admission.admission import Admission, Now, Permit
from olp.core.admission.queue import Queue, Ticket
from olp.core.admission.slots import Slots
from olp.events import ErrorCode, Failed
from olp.model import Hop


def line(queue: Queue, *persons: str) -> list[Ticket]:
    return [queue.join(["claude"], person, lambda: None) for person in persons]


def served(queue: Queue) -> list[str]:
    """Serve everybody; the persons in the order of their turns."""
    order = []
    while ticket := queue.first("claude"):
        order.append(ticket.person)
        queue.leave(ticket, served=True)
    return order


def test_one_busy_person_delays_the_others_by_one() -> None:
    queue = Queue()
    line(queue, *["busy"] * 20, "anna", "ben")
    assert served(queue)[:5] == ["busy", "anna", "ben", "busy", "busy"]
    assert queue.waiting("claude") == 0


def test_a_persons_own_are_served_in_their_order() -> None:
    queue = Queue()
    first, second = line(queue, "anna", "anna")
    assert queue.first("claude") is first
    queue.leave(first, served=True)
    assert queue.first("claude") is second


def test_whoever_leaves_gives_up_the_place_and_the_next_is_woken() -> None:
    queue, woken = Queue(), list[str]()
    tickets = [
        queue.join(["claude"], person, partial(woken.append, person))
        for person in ("anna", "ben", "carl")
    ]
    queue.leave(tickets[0], served=False)
    assert woken == ["ben"]
    queue.freed("claude")
    assert woken == ["ben", "ben"]
    queue.freed("codex")
    assert woken == ["ben", "ben"]


def test_each_provider_has_its_own_first() -> None:
    queue = Queue()
    anna = queue.join(["claude"], "anna", lambda: None)
    ben = queue.join(["codex", "claude"], "ben", lambda: None)
    assert queue.first("claude") is anna and queue.first("codex") is ben
    assert queue.first("vibe") is None
    assert (queue.waiting("claude"), queue.waiting("codex"), queue.waiting("vibe")) == (2, 1, 0)
    assert repr(queue) == "Queue({'anna': 1, 'ben': 1})"


def test_whoever_waits_for_less_than_before_makes_way() -> None:
    queue, woken = Queue(), list[str]()
    anna = queue.join(["claude", "codex"], "anna", partial(woken.append, "anna"))
    ben = queue.join(["codex"], "ben", partial(woken.append, "ben"))
    queue.narrow(anna, ["claude"])
    assert woken == ["ben"] and queue.first("codex") is ben
    queue.narrow(anna, ["claude"])
    assert woken == ["ben"], "nothing has changed"


def test_whoever_was_served_elsewhere_leaves_every_line() -> None:
    queue, woken = Queue(), list[str]()
    anna = queue.join(["claude", "codex"], "anna", partial(woken.append, "anna"))
    queue.join(["codex"], "ben", partial(woken.append, "ben"))
    queue.leave(anna, served=True)
    assert woken == ["ben"] and queue.waiting("claude") == 0


def test_a_person_who_was_served_makes_way_at_every_provider() -> None:
    """The slot of vibe may be free, and it was Anna's turn there."""
    queue, woken = Queue(), list[str]()
    anna = queue.join(["claude"], "anna", lambda: None)
    ben = queue.join(["vibe"], "ben", partial(woken.append, "ben"))
    later = queue.join(["vibe"], "anna", partial(woken.append, "later"))
    assert queue.first("vibe") is later
    queue.leave(anna, served=True)
    assert queue.first("vibe") is ben and woken == ["ben"]


@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "serve"]), st.integers(0, 9))))
def test_nobody_is_served_twice_while_another_waits(steps: list[tuple[str, int]]) -> None:
    """From when a person has somebody in line, each other person has at most one turn before."""
    queue = Queue()
    inside: list[Ticket] = []
    before: dict[str, list[str]] = {}
    for what, number in steps:
        if what == "join":
            person = "abc"[number % 3]
            inside.append(queue.join(["claude"], person, lambda: None))
            before.setdefault(person, [])
        elif what == "leave" and inside:
            queue.leave(inside.pop(number % len(inside)), served=False)
        elif what == "serve" and (first := queue.first("claude")):
            assert first is next(t for t in inside if t.person == first.person), "in their order"
            queue.leave(first, served=True)
            inside.remove(first)
            before[first.person] = []
            for person in before.keys() - {first.person}:
                before[person].append(first.person)
        before = {p: turns for p, turns in before.items() if p in {t.person for t in inside}}
        assert all(len(set(turns)) == len(turns) for turns in before.values()), before
        assert queue.waiting("claude") == len(inside)
        assert (queue.first("claude") is None) == (not inside)


# --- the line and the books together -------------------------------------------------------------

LIMITS = {"claude": 1, "codex": 2, "vibe": 1}
HOPS = [Hop("claude", "sonnet"), Hop("claude", "opus"), Hop("codex", "gpt"), Hop("vibe", "m")]
PICK = st.integers(0, 100)


class Waiter:
    """A request in line, as `olp.runtime.serving.queueing` waits, without a loop."""

    def __init__(self, machine: LineMachine, person: str, hops: list[Hop]) -> None:
        self.hops = hops
        self.woken = True
        names = {hop.provider for hop in hops}
        self.ticket = machine.admission.queue.join(names, person, self._wake)

    def _wake(self) -> None:
        self.woken = True


class LineMachine(RuleBasedStateMachine):
    """Requests that come, wait, leave and end whenever they like, on plans that are used up and
    lifted, with limits that are changed."""

    def __init__(self) -> None:
        super().__init__()
        self.admission = Admission(Slots(LIMITS), BreakerConfig(), {})
        self.now = 0.0
        self.running: list[Permit] = []
        self.waiting: list[Waiter] = []

    def _at(self) -> Now:
        return Now(self.now, 1_800_000_000.0 + self.now, "2027-01-15")

    @rule(
        person=st.sampled_from("abc"), hops=st.lists(st.sampled_from(HOPS), min_size=1, max_size=3)
    )
    def come(self, person: str, hops: list[Hop]) -> None:
        """The hops in their order, at once; then in line for those that are full."""
        full = []
        for hop in dict.fromkeys(hops):
            first = self.admission.queue.first(hop.provider)
            right = self.admission.enter(hop, None, self._at())
            if isinstance(right, Permit):
                assert first is None, "nobody goes before those who wait"
                self.running.append(right)
                return
            full += [hop] if right.code is ErrorCode.CONCURRENCY_LIMIT else []
        if full:
            self.waiting.append(Waiter(self, person, full))

    @precondition(lambda self: any(waiter.woken for waiter in self.waiting))
    @rule(which=PICK)
    def look(self, which: int) -> None:
        """One that was woken tries, as its task does when it runs."""
        woken = [waiter for waiter in self.waiting if waiter.woken]
        waiter = woken[which % len(woken)]
        waiter.woken = False
        for hop in list(waiter.hops):
            if self.admission.queue.first(hop.provider) is not waiter.ticket:
                continue
            right = self.admission.enter(hop, None, self._at(), in_turn=True)
            if isinstance(right, Permit):
                self.running.append(right)
                self.waiting.remove(waiter)
                self.admission.queue.leave(waiter.ticket, served=True)
                return
            if right.code is not ErrorCode.CONCURRENCY_LIMIT:
                waiter.hops.remove(hop)
        if not waiter.hops:
            self.waiting.remove(waiter)
            self.admission.queue.leave(waiter.ticket, served=False)
            return
        self.admission.queue.narrow(waiter.ticket, {hop.provider for hop in waiter.hops})

    @precondition(lambda self: self.waiting)
    @rule(which=PICK)
    def give_up(self, which: int) -> None:
        waiter = self.waiting.pop(which % len(self.waiting))
        self.admission.queue.leave(waiter.ticket, served=False)

    @precondition(lambda self: self.running)
    @rule(which=PICK, used_up=st.booleans(), answered=st.booleans())
    def end(self, which: int, used_up: bool, answered: bool) -> None:
        right = self.running.pop(which % len(self.running))
        if used_up:
            self.admission.note(right.hop, Failed(ErrorCode.QUOTA_EXHAUSTED, "used up"), self._at())
        with right:
            if answered:
                right.answered()

    @rule()
    def lift(self) -> None:
        self.admission.holds.clear()

    @rule(claude=st.integers(1, 3))
    def change(self, claude: int) -> None:
        self.admission.adopt({**LIMITS, "claude": claude}, BreakerConfig(), {})

    @invariant()
    def D3_no_slot_stays_free_while_somebody_waits_for_it(self) -> None:
        for name, limit in self.admission.slots.limits.items():
            first = self.admission.queue.first(name)
            if first is not None and self.admission.slots.active[name] < limit:
                assert next(w for w in self.waiting if w.ticket is first).woken

    @invariant()
    def D1_no_more_slots_are_taken_than_there_are_processes(self) -> None:
        for name in LIMITS:
            taken = sum(right.hop.provider == name for right in self.running)
            assert self.admission.slots.active[name] == taken
            assert self.admission.slots.leaving[name] == 0


def test_the_line_and_the_books_together() -> None:
    run_state_machine_as_test(
        LineMachine,
        settings=settings(max_examples=200, stateful_step_count=40, deadline=None),
    )
