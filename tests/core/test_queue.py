"""The line for a slot: persons take turns, and nobody who left is waited for."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from olp.core.queue import Queue, Ticket


def line(queue: Queue, *persons: str) -> list[Ticket]:
    return [queue.join("claude", person, lambda: None) for person in persons]


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
        queue.join("claude", person, partial(woken.append, person))
        for person in ("anna", "ben", "carl")
    ]
    queue.leave(tickets[0], served=False)
    assert woken == ["ben"]
    queue.freed("claude")
    assert woken == ["ben", "ben"]
    queue.freed("codex")
    assert woken == ["ben", "ben"]


def test_each_provider_has_its_own_line() -> None:
    queue = Queue()
    queue.join("claude", "anna", lambda: None)
    assert queue.first("codex") is None and queue.waiting("codex") == 0
    assert repr(queue) == "Queue({'claude': {'anna': 1}})"


@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "serve"]), st.integers(0, 9))))
def test_nobody_is_served_twice_while_another_waits(steps: list[tuple[str, int]]) -> None:
    """From when a person has somebody in line, each other person has at most one turn before."""
    queue = Queue()
    inside: list[Ticket] = []
    before: dict[str, list[str]] = {}
    for what, number in steps:
        if what == "join":
            person = "abc"[number % 3]
            inside.append(queue.join("claude", person, lambda: None))
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
