"""Which of the waiting CLIs have to go: decided here, done by the pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from olp.config import WorkersConfig
from olp.runtime.pool.warm_process import ProviderPool, WarmProcess
from olp.runtime.process.memory import resident_mb

SPARE_S = 10.0
"""Seconds for which one more than is wanted may wait."""


def too_many(
    kinds: Collection[ProviderPool], config: WorkersConfig, now: float
) -> list[WarmProcess]:
    """What is dead, too old, or more than may wait; the least useful first."""
    ended = dict.fromkeys(_over(kinds, config, now))
    left = [seat for seat in _idle(kinds) if seat not in ended]
    ended |= dict.fromkeys(_spare(kinds, now))
    parked = [seat for seat in left if seat.parked]
    ended |= dict.fromkeys(_greediest(parked, len(parked) - config.parked))
    if len(left) > config.conversations:
        talks = [s for s in left if s.conversation is not None and not (s.can_begin or s.parked)]
        ended |= dict.fromkeys(_oldest(talks, len(talks) - config.conversations))
    surplus = sum(len(kind.seats) + kind.booting for kind in kinds) - len(ended)
    surplus -= config.max_processes
    if surplus > 0:
        rest = [seat for seat in _by_use(kinds) if seat not in ended]
        ended |= dict.fromkeys(rest[:surplus])
    return list(ended)


def too_large(kinds: Collection[ProviderPool], config: WorkersConfig) -> Iterator[WarmProcess]:
    """What has to go so that the memory that was measured is not more than it may be."""
    sizes = {seat: resident_mb(seat.worker.pid) for kind in kinds for seat in kind.seats}
    total = sum(sizes.values())
    for seat in _by_use(kinds):
        if total <= config.max_memory_mb:
            return
        total -= sizes[seat]
        yield seat


def _over(
    kinds: Iterable[ProviderPool], config: WorkersConfig, now: float
) -> Iterator[WarmProcess]:
    for seat in _idle(kinds):
        talk = seat.conversation is not None and not seat.parked
        done = talk and now - seat.used_at > config.conversation_idle_s
        if done and seat.session.reusable:
            seat.conversation = None
        old = now - seat.born_at > config.max_age_s and not seat.parked
        if not seat.worker.alive or old or (done and not seat.session.reusable):
            yield seat


def _spare(kinds: Iterable[ProviderPool], now: float) -> Iterator[WarmProcess]:
    for kind in kinds:
        if len(kind.seats) <= max(kind.warm, 1):
            continue
        spare = sorted((s for s in kind.seats if s.can_begin), key=lambda s: s.used_at)
        for seat in spare[: max(0, len(spare) - max(kind.warm, 1))]:
            if now - seat.used_at > SPARE_S:
                yield seat


def _idle(kinds: Iterable[ProviderPool]) -> list[WarmProcess]:
    return [seat for kind in kinds for seat in kind.seats if not seat.busy]


def _by_use(kinds: Iterable[ProviderPool]) -> list[WarmProcess]:
    """Idle seats, the least useful first: old conversations, then what waits for any, then what
    somebody's work waits for."""
    return sorted(_idle(kinds), key=lambda s: (s.parked, s.can_begin, s.used_at))


def _greediest(seats: Sequence[WarmProcess], surplus: int) -> list[WarmProcess]:
    """Of those who have the most the oldest, so that nobody can push out everybody else's."""
    left = sorted(seats, key=lambda s: s.used_at)
    out: list[WarmProcess] = []
    while len(out) < surplus:
        count = Counter(seat.caller for seat in left)
        out.append(max(left, key=lambda s: (count[s.caller], -s.used_at)))
        left.remove(out[-1])
    return out


def _oldest(seats: Sequence[WarmProcess], surplus: int) -> list[WarmProcess]:
    return sorted(seats, key=lambda s: s.used_at)[: max(0, surplus)]
