"""Slots: taken in one step, given back once, never queued for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.core.admission.slots import Slot, Slots
from olp.events import ErrorCode, Failed


def taken(slots: Slots, provider: str = "claude") -> Slot:
    slot = slots.take(provider)
    assert isinstance(slot, Slot)
    return slot


def test_D1_the_last_slot_is_taken_and_the_next_taker_is_told_how_full_it_is() -> None:
    slots = Slots({"claude": 2, "codex": 1})
    taken(slots)
    taken(slots)
    refused = slots.take("claude")
    assert isinstance(refused, Failed)
    assert refused.code is ErrorCode.CONCURRENCY_LIMIT
    for word in ("providerName=claude", "maxConcurrent=2", "activeSpawns=2"):
        assert word in refused.detail
    assert isinstance(slots.take("codex"), Slot), "another provider is not concerned"
    assert "claude 2/2" in repr(slots)


def test_D2_leaving_the_block_gives_the_slot_back() -> None:
    slots = Slots({"claude": 1})
    with taken(slots):
        assert slots.active == {"claude": 1}
    assert slots.active == {"claude": 0}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_D2_an_exception_gives_the_slot_back(error: type[BaseException]) -> None:
    slots = Slots({"claude": 1})
    with pytest.raises(error), taken(slots):
        raise error
    assert slots.active == {"claude": 0}


def test_D2_a_slot_is_given_back_only_once() -> None:
    slots = Slots({"claude": 2})
    taken(slots)
    with taken(slots) as slot:
        slot.give_back()
        slot.give_back()
    assert slots.active == {"claude": 1}


@given(st.integers(1, 4), st.lists(st.one_of(st.none(), st.integers(0, 5))))
def test_D1_never_more_than_the_limit_and_never_less_than_none(
    limit: int, steps: list[int | None]
) -> None:
    """None takes a slot, a number gives back the one taken at that place."""
    slots = Slots({"claude": limit})
    held: list[Slot] = []
    for step in steps:
        if step is None:
            slot = slots.take("claude")
            assert isinstance(slot, Slot) == (len(held) < limit)
            if isinstance(slot, Slot):
                held.append(slot)
        elif step < len(held):
            held.pop(step).give_back()
        assert slots.active == {"claude": len(held)}
