"""Eviction policy of the pool: selects the processes to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from olp.config import WorkersConfig
from olp.runtime.pool.warm_process import ProviderPool, WarmProcess

SPARE_S = 10.0
"""Seconds that a ready process above the configured number may stay."""


def too_many(
    pools: Collection[ProviderPool], config: WorkersConfig, now: float
) -> list[WarmProcess]:
    """Processes that are dead, too old or above a limit; the least useful first."""
    ended = dict.fromkeys(_over(pools, config, now))
    left = [warm for warm in _idle(pools) if warm not in ended]
    ended |= dict.fromkeys(_spare(pools, now))
    parked = [warm for warm in left if warm.parked]
    ended |= dict.fromkeys(_fair_surplus(parked, len(parked) - config.parked))
    if len(left) > config.conversations:
        held = [s for s in left if s.conversation is not None and not (s.can_begin or s.parked)]
        ended |= dict.fromkeys(_oldest(held, len(held) - config.conversations))
    surplus = sum(len(pool.processes) + pool.booting for pool in pools) - len(ended)
    surplus -= config.max_processes
    if surplus > 0:
        rest = [warm for warm in _by_use(pools) if warm not in ended]
        ended |= dict.fromkeys(rest[:surplus])
    return list(ended)


def too_large(pools: Collection[ProviderPool], config: WorkersConfig) -> Iterator[WarmProcess]:
    """Idle processes to end until the measured memory is within `max_memory_mb`."""
    total = sum(warm.memory_mb for pool in pools for warm in pool.processes)
    for warm in _by_use(pools):
        if total <= config.max_memory_mb:
            return
        total -= warm.memory_mb
        yield warm


def _over(
    pools: Iterable[ProviderPool], config: WorkersConfig, now: float
) -> Iterator[WarmProcess]:
    for warm in _idle(pools):
        conversation = warm.conversation is not None and not warm.parked
        done = conversation and now - warm.used_at > config.conversation_idle_s
        if done and warm.session.reusable:
            warm.conversation = None
        old = now - warm.born_at > config.max_age_s and not warm.parked
        if not warm.worker.alive or old or (done and not warm.session.reusable):
            yield warm


def _spare(pools: Iterable[ProviderPool], now: float) -> Iterator[WarmProcess]:
    for pool in pools:
        if len(pool.processes) <= max(pool.warm, 1):
            continue
        spare = sorted((s for s in pool.processes if s.can_begin), key=lambda s: s.used_at)
        for warm in spare[: max(0, len(spare) - max(pool.warm, 1))]:
            if now - warm.used_at > SPARE_S:
                yield warm


def _idle(pools: Iterable[ProviderPool]) -> list[WarmProcess]:
    return [warm for pool in pools for warm in pool.processes if not warm.busy]


def _by_use(pools: Iterable[ProviderPool]) -> list[WarmProcess]:
    """Idle processes, the least useful first: with a conversation (oldest first), then ready ones,
    then parked ones."""
    return sorted(_idle(pools), key=lambda s: (s.parked, s.can_begin, s.used_at))


def _fair_surplus(processes: Sequence[WarmProcess], surplus: int) -> list[WarmProcess]:
    """The oldest of the caller with the most processes, repeatedly, so that one caller cannot evict
    everybody else's."""
    left = sorted(processes, key=lambda s: s.used_at)
    out: list[WarmProcess] = []
    while len(out) < surplus:
        count = Counter(warm.caller for warm in left)
        out.append(max(left, key=lambda s: (count[s.caller], -s.used_at)))
        left.remove(out[-1])
    return out


def _oldest(processes: Sequence[WarmProcess], surplus: int) -> list[WarmProcess]:
    return sorted(processes, key=lambda s: s.used_at)[: max(0, surplus)]
