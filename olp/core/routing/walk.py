"""The fallback logic as a sans-I/O state machine.

`next(now)` returns the hop to try, or None. The events of an attempt go through `pass_on`, or
`pass_on_together` for one batch, which return the outputs for the client. `wake_at` is the time at
which `expire(now)` must be called if no event comes first.

Hops are tried one at a time in the configured order, once each; `first` is the index of a hop whose
parked process waits for this request's tool results, and goes first. A failure that is a trigger
advances to the next hop as long as nothing was sent to the client; after that no other hop is
tried, and the client gets the error. The first output is always an `Answering`, sent at most once.

A full hop is skipped. If no other hop answered, `full` lists the hops worth queueing for; the one
that gets a slot is retried with `again`.

`records` go into the detail header, `notes` into the log, `ends` (the result of each attempt) into
admission; the caller drains the last two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from olp.core.routing.chains import Chain
from olp.core.routing.gate import Gate
from olp.core.routing.notes import AttemptEnded, Note
from olp.core.routing.triggers import trigger_of
from olp.core.routing.verdict import Failure, verdict
from olp.core.scrub import scrub
from olp.events import (
    Answering,
    CallStarted,
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    HopRecord,
    Output,
    Reasoning,
    Refused,
    Started,
    Text,
    TriggerType,
)
from olp.model import Field, Hop

HOP_NEEDS_S = 10.0
"""Minimum seconds left to start another hop: with less, no CLI could answer in time."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: from spawn to the start of the vendor's answer, from there to the first content, and
    in total. `fixed`: the owner configured `opening_s` for this provider."""

    opening_s: float = 240.0
    gate_s: float = 30.0
    total_s: float = 600.0
    fixed: bool = False


@dataclass(slots=True)
class _Attempt:
    hop: Hop
    index: int
    gate: Gate
    timeouts: Timeouts
    spawned_at: float
    model: str
    started_at: float | None = None


NOT_ASKED = frozenset(
    {
        ErrorCode.CIRCUIT_OPEN,
        ErrorCode.INCAPABLE,
        ErrorCode.QUOTA_HOLD,
        ErrorCode.SOFT_TRIGGER,
        ErrorCode.CONCURRENCY_LIMIT,
        ErrorCode.DEADLINE,
    }
)
"""Failures of hops that were never asked."""


class Walk:
    """One request's walk along one chain. `now` is in seconds of one monotonic clock; `patience` is
    the total time in seconds that it may queue for slots; `contexts` are the known context windows
    of hops in tokens."""

    def __init__(
        self,
        chain: Chain,
        *,
        streaming: bool,
        now: float,
        timeouts: Mapping[str, Timeouts] | None = None,
        cache: str = "bypass",
        first: int = 0,
        patience: float = 0.0,
        contexts: Mapping[Hop, int] | None = None,
    ) -> None:
        self._chain = chain
        self._patience = patience
        self._contexts = contexts or {}
        self._needs = 0
        self._left = [first, *(i for i in range(len(chain.hops)) if i != first)]
        self._began = False
        self._cache = cache
        self._streaming = streaming
        self._started_at = now
        self._timeouts = timeouts or {}
        self._index = first
        self._attempt: _Attempt | None = None
        self._failures: list[Failure] = []
        self._stopped: Failure | None = None
        self.forced = False
        self._forced: set[int] = set()
        self.conversation: str | None = None
        self.answered = False
        self.records: list[HopRecord] = []
        self.notes: list[Note] = []
        self.ends: list[tuple[Hop, Done | Failed]] = []
        self.attempts: list[AttemptEnded] = []

    def __repr__(self) -> str:
        now = self._attempt.hop if self._attempt else "between hops"
        return (
            f"Walk({self._chain.name}, {now}, answered={self.answered}, {len(self.records)} failed)"
        )

    @property
    def trying(self) -> bool:
        """Whether an attempt is in progress and expects events."""
        return self._attempt is not None

    def next(self, now: float) -> Hop | None:
        """The hop to try now, or None if there is none. If it cannot be tried, pass the failure to
        `pass_on`."""
        assert self._attempt is None, "the attempt before has not ended"
        over = self.answered or self.forced
        while not (over or self._stopped) and self._left:
            self._index = self._left.pop(0)
            hop = self._chain.hops[self._index]
            self._attempt = self._begin(hop, now)
            unfit = self._too_late(now) or self._too_small(hop)
            self._began = True
            if unfit is None:
                return hop
            self._fail(unfit)
        return None if self.full else self._last_resort(now)

    @property
    def full(self) -> tuple[Hop, ...]:
        """The hops to queue for, once all hops were tried: they lack only a free slot. Empty when
        the patience is used up."""
        over = self.answered or self._stopped or self._left or self._attempt
        return () if over else tuple(hop for hop in self._queueable() if not self._too_small(hop))

    def _queueable(self) -> list[Hop]:
        """The hops that were full, if the request may still queue."""
        patient = self._patience > 0 and not self.forced
        return [failure.hop for failure in self._full()] if patient else []

    def _full(self) -> list[Failure]:
        full = ErrorCode.CONCURRENCY_LIMIT
        return [failure for failure in self._failures if failure.failed.code is full]

    def _others(self) -> list[Hop]:
        """The hops that could still be asked."""
        return [self._chain.hops[index] for index in self._left] + self._queueable()

    def patience(self, now: float) -> float:
        """How many seconds the request may queue for `full`, limited by its deadline."""
        left = self._started_at + self._chain.policy.deadline_s - HOP_NEEDS_S - now
        return max(0.0, min(self._patience, left))

    def waited(self, seconds: float, *, in_vain: bool) -> None:
        """Charge `seconds` of queueing against the patience; `in_vain` (no slot) uses up all of
        it."""
        self._patience = 0.0 if in_vain else self._patience - seconds

    def again(self, hop: Hop, now: float) -> None:
        """Start another attempt at a hop that was full."""
        self._resume(next(failure for failure in self._full() if failure.hop == hop), now)

    def _resume(self, failure: Failure, now: float) -> None:
        self._failures.remove(failure)
        self.records = [record for record in self.records if record.hop != failure.index]
        self._index = failure.index
        self._attempt = self._begin(failure.hop, now)

    def _last_resort(self, now: float) -> Hop | None:
        """If no hop was asked at all, try the open circuit that is due first, then the next if that
        has no slot: the breaker alone must not fail a request."""
        asked = any(failure.failed.code not in NOT_ASKED for failure in self._failures)
        open_circuits = [
            failure
            for failure in self._failures
            if failure.failed.code is ErrorCode.CIRCUIT_OPEN and failure.index not in self._forced
        ]
        over = self.answered or self._stopped or asked
        if over or not open_circuits or not self._chain.policy.try_open_circuits:
            return None
        first = min(open_circuits, key=lambda failure: failure.failed.resets_at or 0.0)
        self.forced = True
        self._forced.add(first.index)
        self._resume(first, now)
        self._note("breaker_forced_attempt", "warn")
        self.attempts.append(AttemptEnded(first.index, retried=True))
        return first.hop

    def answer_kept(self, model: str, events: Sequence[Event]) -> tuple[Output, ...]:
        """Answer for the current hop from the cache, without asking it."""
        assert self._attempt is not None and not self.answered
        self.answered = True
        hop, index = self._attempt.hop, self._attempt.index
        self._note("answered_from_cache", "info")
        self._attempt = None
        head = Answering(hop.provider, model, index, tuple(self.records), cache="hit")
        return (head, *events)

    def _begin(self, hop: Hop, now: float) -> _Attempt:
        gate = Gate(
            streaming=self._streaming,
            reasoning_opens=self._chain.policy.gate == "reasoning",
        )
        timeouts = self._timeouts.get(hop.provider) or Timeouts(
            self._chain.policy.opening_s, self._chain.policy.gate_s
        )
        return _Attempt(hop, self._index, gate, timeouts, now, hop.model)

    def _too_late(self, now: float) -> Failed | None:
        left = self._started_at + self._chain.policy.deadline_s - now
        if not self._began or left >= HOP_NEEDS_S:
            return None
        return Failed(ErrorCode.DEADLINE, f"{max(left, 0):.0f} s of the request's time were left")

    def _too_small(self, hop: Hop) -> Failed | None:
        """After a context overflow, only a hop with a larger known context is asked."""
        reads = self._reads(hop)
        if self._needs == 0 or reads > self._needs:
            return None
        known = f"{reads:,} tokens" if reads else "not known to be larger"
        said = f"its context is {known}; the request is too long for {self._needs:,} tokens"
        return Failed(ErrorCode.INCAPABLE, said, field=Field.MESSAGES)

    # --- an attempt's events -------------------------------------------------------------------

    def hurry(self, opening_s: float | None) -> None:
        """Shorten this attempt's opening timeout to `opening_s`, for a process that reports when
        the vendor starts to answer; no effect on a timeout that the owner configured."""
        assert self._attempt is not None
        timeouts = self._attempt.timeouts
        if opening_s is not None and not timeouts.fixed:
            self._attempt.timeouts = replace(timeouts, opening_s=min(timeouts.opening_s, opening_s))

    def pass_on_together(self, events: Sequence[Event], now: float) -> tuple[Output, ...]:
        """The outputs for `events`, which were read in one batch. A failure in the batch discards
        the text beside it when streaming, unless an answer was already started, or the CLI died
        with no other hop left."""
        end = next((event for event in events if isinstance(event, Done | Failed)), None)
        if isinstance(end, Failed) and self._streaming and not self.answered:
            events = events if _died(end) and not self._others() else [end]
        return tuple(output for event in events for output in self.pass_on(event, now))

    def pass_on(self, event: Event, now: float) -> tuple[Output, ...]:
        """The outputs for `event`; events after the final one are ignored."""
        attempt = self._attempt
        if attempt is None:
            return ()
        if isinstance(event, Failed):
            return self._fail(event)
        if isinstance(event, Done) and event.empty and not self.answered and self._others():
            return self._fail(_EMPTY)
        if isinstance(event, Started | Text | CallStarted | Reasoning | Done):
            self._note_start(attempt, event, now)
        out = self._with_head(attempt.gate.offer(event), isinstance(event, Done) and event.empty)
        if isinstance(event, Done):
            spent = round((now - self._started_at) * 1000)
            self._note("answered", "info", model=attempt.model, finish=event.finish, ms=spent)
            self.ends.append((attempt.hop, event))
            self.attempts.append(AttemptEnded(attempt.index))
            self._attempt = None
        return out

    def _note_start(self, attempt: _Attempt, event: Event, now: float) -> None:
        if attempt.started_at is None:
            attempt.started_at = now
        if not isinstance(event, Started) or event.model is None:
            return
        if attempt.hop.model.lower() not in event.model.lower():
            self._note("model_differs", "warn", asked=attempt.hop.model, answered=event.model)
        attempt.model = event.model

    def _with_head(self, events: tuple[Event, ...], empty: bool) -> tuple[Output, ...]:
        if not events or self.answered:
            return events
        return self._answer(events, empty=empty)

    def _answer(self, events: tuple[Event, ...], *, empty: bool = False) -> tuple[Output, ...]:
        assert self._attempt is not None
        self.answered = True
        hop, index = self._attempt.hop, self._attempt.index
        records = tuple(self.records)
        model, cache = self._attempt.model, self._cache
        head = Answering(hop.provider, model, index, records, cache, self.conversation, empty)
        return (head, *events)

    # --- the clocks ----------------------------------------------------------------------------

    @property
    def wake_at(self) -> float:
        """When `expire` must be called unless an event comes first."""
        attempt = self._attempt
        assert attempt is not None
        total = attempt.spawned_at + attempt.timeouts.total_s
        if attempt.started_at is None:
            return min(total, attempt.spawned_at + attempt.timeouts.opening_s)
        if self._gate_runs(attempt):
            return min(total, attempt.started_at + attempt.timeouts.gate_s)
        return total

    def _gate_runs(self, attempt: _Attempt) -> bool:
        if attempt.gate.open or attempt.gate.has_text or attempt.gate.has_call:
            return False
        return self._streaming or self._chain.policy.gate_action == "advance"

    def expire(self, now: float) -> tuple[Output, ...]:
        """The outputs of an expired timeout; empty if none has expired."""
        attempt = self._attempt
        if attempt is None or now < self.wake_at:
            return ()
        waited = now - attempt.spawned_at
        if now >= attempt.spawned_at + attempt.timeouts.total_s:  # same arithmetic as `wake_at`
            return self._fail(_timeout(f"no complete answer after {waited:.0f} s"))
        if attempt.started_at is None:
            return self._fail(_timeout(f"the vendor did not begin to answer within {waited:.0f} s"))
        if self._chain.policy.gate_action == "advance":
            return self._fail(_timeout(f"no content after {waited:.0f} s"))
        return self._answer(attempt.gate.release())

    # --- failures ------------------------------------------------------------------------------

    def _fail(self, failed: Failed) -> tuple[Output, ...]:
        attempt = self._attempt
        assert attempt is not None
        failed = replace(failed, detail=scrub(failed.detail))  # before anything keeps or shows it
        self.ends.append((attempt.hop, failed))
        if not self.answered and self._salvageable(attempt, failed):
            self._note("spawn_failed_after_usable_chunks", "warn", code=failed.code.value)
            self.attempts.append(AttemptEnded(attempt.index, failed.code))
            self._note("cache_evicted_truncated", "info")
            out = self._answer(attempt.gate.release())
            self._attempt = None
            return (*out, Done(Finish.LENGTH, truncated=True))
        self._note_failure(attempt, failed)
        self._attempt = None
        if not self.answered:
            self._move_on_or_stop(attempt, failed)
            return ()
        if failed.code is ErrorCode.SPAWN_FAILED and _usable(attempt.gate):
            return (Done(Finish.LENGTH, truncated=True),)
        return (failed,)

    def _salvageable(self, attempt: _Attempt, failed: Failed) -> bool:
        return _died(failed) and not self._streaming and _usable(attempt.gate)

    def _move_on_or_stop(self, attempt: _Attempt, failed: Failed) -> None:
        trigger = trigger_of(failed)
        failure = Failure(attempt.hop, attempt.index, failed)
        self._failures.append(failure)
        self._failures.sort(key=lambda failure: failure.index)
        self.records.append(
            HopRecord(
                attempt.index,
                attempt.hop.provider,
                attempt.hop.model,
                failed.code.value,
                failed.detail,
                trigger,
            )
        )
        self.records.sort(key=lambda record: record.hop)
        self._stopped = None if self._moves_on(attempt.hop, failed) else failure
        if self._larger(attempt.hop, failed):
            self._needs = self._reads(attempt.hop)

    def _moves_on(self, hop: Hop, failed: Failed) -> bool:
        match trigger_of(failed):
            case TriggerType.HARD | TriggerType.SOFT:
                return True
            case TriggerType.AUTH_MISSING:
                return self._chain.policy.on_auth_missing == "advance"
            case TriggerType.CLIENT_ERROR | TriggerType.NON_TRIGGER:
                return self._larger(hop, failed) is not None

    def _larger(self, hop: Hop, failed: Failed) -> Hop | None:
        """The next hop with a larger known context, if `hop` failed with CONTEXT_TOO_LONG."""
        reads = self._reads(hop)
        if failed.code is not ErrorCode.CONTEXT_TOO_LONG or not reads:
            return None
        return next((other for other in self._others() if self._reads(other) > reads), None)

    def _reads(self, hop: Hop) -> int:
        """Its context window in tokens; 0 if unknown."""
        return self._contexts.get(hop, 0)

    def verdict(self, wall: float) -> Refused:
        """The refusal for the client when no hop answered. `wall` is in epoch seconds."""
        assert self._failures and not self.answered
        if not self._stopped:
            providers = [hop.provider for hop in self._chain.hops]
            self._note("fallback_chain_exhausted", "error", providers=providers)
        return verdict(self._chain, self._failures, self.records, stopped=self._stopped, wall=wall)

    # --- notes for the log ---------------------------------------------------------------------

    def _note_failure(self, attempt: _Attempt, failed: Failed) -> None:
        # The error detail is not logged: a vendor may quote the prompt in it.
        trigger = trigger_of(failed)
        self.attempts.append(AttemptEnded(attempt.index, failed.code, trigger, failed.status))
        fields = {
            "code": failed.code.value,
            "trigger_type": trigger.value,
            "status": failed.status,
        }
        self._note("fallback_hop_error", "warn", **fields)
        if self.answered:
            self._note("answer_broken_off", "warn", **fields)
            return
        name = _TRIGGER_EVENTS[trigger]
        if self._moves_on(attempt.hop, failed):
            following = self._chain.hops[self._left[0]] if self._left else None
            following = self._larger(attempt.hop, failed) or following
            fields["next_provider"] = following.provider if following else None
            name = _ADVANCE_EVENTS.get(trigger, name)
        self._note(name, "warn", **fields)

    def _note(self, event: str, level: str, **fields: Any) -> None:
        if self._attempt is not None:
            hop = self._attempt.hop
            fields = {
                "hop": self._attempt.index,
                "provider": hop.provider,
                "model": hop.model,
            } | fields
        self.notes.append(Note(event, level, fields))


_TRIGGER_EVENTS = {
    TriggerType.HARD: "fallback_hard_trigger",
    TriggerType.SOFT: "fallback_soft_trigger",
    TriggerType.AUTH_MISSING: "fallback_auth_missing_no_fallback",
    TriggerType.CLIENT_ERROR: "fallback_client_error_no_fallback",
    TriggerType.NON_TRIGGER: "fallback_non_trigger_error",
}

_ADVANCE_EVENTS = {
    TriggerType.AUTH_MISSING: "fallback_auth_missing_advance",
    TriggerType.CLIENT_ERROR: "fallback_larger_context",
}
"""Overrides where the walk advances nevertheless."""

_EMPTY = Failed(ErrorCode.EMPTY_ANSWER, "the model gave no text, no call and no refusal")


def _died(failed: Failed) -> bool:
    """Whether the CLI exited without a final event: its partial answer may be used."""
    return failed.code is ErrorCode.SPAWN_FAILED and not failed.living


def _usable(gate: Gate) -> bool:
    """Whether the partial answer is usable: text, but no incomplete tool call."""
    return gate.has_text and not gate.has_call


def _timeout(detail: str) -> Failed:
    return Failed(ErrorCode.SPAWN_TIMEOUT, detail)
