"""What must be true of the breaker, the holds, and all the books, in any order of events.

Each machine is driven by hypothesis through sequences that nobody would think of, and compared with
a model that is so simple that it can be believed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from olp.config import BreakerConfig
from olp.core.admission.admission import Admission, Now, Permit
from olp.core.admission.breaker import Breaker
from olp.core.admission.half_open import Probe
from olp.core.admission.holds import MAX_HOLD_S, Holds, Scope
from olp.core.admission.slots import Slots
from olp.core.routing.chains import Chain, Policy
from olp.core.routing.walk import NOT_ASKED, Walk
from olp.events import Done, ErrorCode, Failed, Text
from olp.model import Hop

SETTINGS = settings(max_examples=200, stateful_step_count=30, deadline=None)
"""Many runs, because it takes a long run-up to go wrong; they are quick."""
WALL = 1_800_000_000.0
SONNET, OPUS, CODEX = Hop("claude", "sonnet"), Hop("claude", "opus"), Hop("codex", "gpt")
HOPS = (SONNET, OPUS, CODEX)
QUIET = (
    ErrorCode.BAD_REQUEST,
    ErrorCode.QUOTA_EXHAUSTED,
    ErrorCode.AUTH_MISSING,
    ErrorCode.RATE_LIMITED,
)
LOUD = (ErrorCode.SPAWN_FAILED, ErrorCode.SPAWN_TIMEOUT, ErrorCode.OVERLOADED)
WAITS = st.sampled_from([0.0, 0.5, 1.0, 5.0, 9.0, 10.0, 11.0, 25.0, 60.0, 400.0, 900.0])
PICK = st.integers(0, 100)


# --- the breaker ---------------------------------------------------------------------------------


class BreakerMachine(RuleBasedStateMachine):
    """One circuit, entered as the books do it, and failures written down on a list."""

    WINDOW, THRESHOLD, COOLDOWN = 30.0, 2, 10.0

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(
            BreakerConfig(window_s=self.WINDOW, threshold=self.THRESHOLD, cooldown_s=self.COOLDOWN)
        )
        self.now = 0.0
        self.failures: list[float] = []
        self.running: list[Probe | None] = []
        self.probes: set[Probe] = set()

    def _openings(self) -> list[float]:
        """The failures at which the circuit was opened, since it was last closed."""
        found = []
        for index, at in enumerate(self.failures):
            near = [t for t in self.failures[: index + 1] if t > at - self.WINDOW]
            if len(near) >= self.THRESHOLD:
                found.append(at)
            elif found and at >= found[-1] + self.COOLDOWN:
                found = []  # the probe of a circuit whose failures are forgotten: it is closed
        return found

    @property
    def shut(self) -> bool:
        """Whether the cool-down runs, by the list alone."""
        return any(self.now < at + self.COOLDOWN for at in self._openings())

    @rule(seconds=WAITS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(forced=st.booleans())
    def enter(self, forced: bool) -> None:
        if self.breaker.blocks(SONNET, self.now) and not forced:
            return
        probe = self.breaker.enter(SONNET)
        self.running.append(probe)
        if probe is not None:
            assert not self.probes, "two probes of one latch"
            assert self._openings(), "a probe of a closed circuit"
            self.probes.add(probe)

    @precondition(lambda self: self.running)
    @rule(which=PICK, end=st.sampled_from([*LOUD, *LOUD, Done(), QUIET[0], None]))
    def end(self, which: int, end: Done | ErrorCode | None) -> None:
        probe = self.running.pop(which % len(self.running))
        if isinstance(end, ErrorCode):
            self.breaker.note(SONNET, Failed(end, "no"), self.now)
            if end in LOUD:
                self.failures.append(self.now)
        elif end is not None:
            self.breaker.note(SONNET, end, self.now)
            self.failures.clear()
            assert not self.breaker.blocks(SONNET, self.now), "closed after a success"
        if probe is not None:
            probe.leave()
            self.probes.discard(probe)
        if not self._openings():
            self.probes.clear()

    @invariant()
    def F1_it_blocks_exactly_while_it_cools_down_or_is_probed(self) -> None:
        assert self.breaker.blocks(SONNET, self.now) == (self.shut or bool(self.probes))

    @invariant()
    def F1_without_a_probe_it_is_free_after_the_cool_down(self) -> None:
        if not self.probes:
            assert not self.breaker.blocks(SONNET, self.now + self.COOLDOWN)

    @invariant()
    def F1_another_target_is_never_concerned(self) -> None:
        assert not self.breaker.blocks(OPUS, self.now)

    @invariant()
    def F5_what_is_told_is_what_is(self) -> None:
        told = dict(self.breaker.open_circuits(self.now))
        assert (SONNET in told) == bool(self._openings())
        assert (told.get(SONNET, 0.0) > 0) == self.shut


# --- the holds -----------------------------------------------------------------------------------


class HoldsMachine(RuleBasedStateMachine):
    """Holds of a plan and of its models, with requests that end whenever they like."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = Holds()
        self.now = 0.0
        self.running: list[tuple[Hop, tuple[Probe, ...]]] = []
        self.until: dict[Scope, float] = {}

    @staticmethod
    def _scopes(hop: Hop) -> tuple[Scope, Scope]:
        return (hop.provider, None), (hop.provider, hop.model)

    @rule(seconds=WAITS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(hop=st.sampled_from(HOPS))
    def enter(self, hop: Hop) -> None:
        if self.holds.blocking(hop, self.now) is None:
            self.running.append((hop, self.holds.enter(hop)))

    @precondition(lambda self: self.running)
    @rule(
        which=PICK,
        resets_in=st.sampled_from([None, -5.0, 0.0, 30.0, 800.0, 1e6]),
        model_limit=st.booleans(),
        end=st.sampled_from(["answer", "used up", "used up", "other", "gone"]),
    )
    def end(self, which: int, resets_in: float | None, model_limit: bool, end: str) -> None:
        hop, probes = self.running.pop(which % len(self.running))
        wall = WALL + self.now
        if end == "answer":
            self.holds.note(hop, Done(), self.now, wall)
            for scope in self._scopes(hop):
                self.until.pop(scope, None)
            assert self.holds.blocking(hop, self.now) is None, "an answer lifts its holds"
        elif end == "used up":
            resets_at = None if resets_in is None else wall + resets_in
            failed = Failed(ErrorCode.QUOTA_EXHAUSTED, "full", None, resets_at, model_limit)
            self.holds.note(hop, failed, self.now, wall)
            scope = (hop.provider, hop.model if model_limit else None)
            told = 300.0 if resets_in is None else min(max(resets_in, 0.0), 900.0)
            self.until[scope] = self.now + told
        elif end == "other":
            self.holds.note(hop, Failed(ErrorCode.OVERLOADED, "no"), self.now, wall)
        for probe in probes:
            probe.leave()

    @rule(provider=st.sampled_from([None, "claude", "codex"]))
    def clear(self, provider: str | None) -> None:
        gone = [scope for scope in self.until if provider in (None, scope[0])]
        assert self.holds.clear(provider) == len(gone)
        for scope in gone:
            del self.until[scope]

    @invariant()
    def E5_a_hold_lasts_as_told_and_ends_within_15_minutes(self) -> None:
        probed = {id(p._gate) for _, probes in self.running for p in probes}
        for hop in HOPS:
            waits = any(self.now < self.until.get(scope, 0.0) - 1e-6 for scope in self._scopes(hop))
            assert not waits or self.holds.blocking(hop, self.now)
            if not probed:
                later = max((self.until.get(s, 0.0) for s in self._scopes(hop)), default=0.0)
                assert later <= self.now + MAX_HOLD_S
                assert self.holds.blocking(hop, self.now + MAX_HOLD_S) is None
                assert self.holds.blocking(hop, max(self.now, later + 1e-6)) is None

    @invariant()
    def E5_never_two_probes_of_one_hold(self) -> None:
        under_way = [p for _, probes in self.running for p in probes]
        latches = [id(p._gate) for p in under_way]
        assert len(latches) == len(set(latches))

    @invariant()
    def F5_what_is_told_is_what_is(self) -> None:
        assert {scope for scope, *_ in self.holds.report(self.now)} == set(self.until)


# --- slots, breaker, holds and walks together ----------------------------------------------------


@dataclass
class Running:
    """A request whose attempt is under way."""

    walk: Walk
    hop: Hop
    right: Permit
    asked: list[Hop] = field(default_factory=list)


class BooksMachine(RuleBasedStateMachine):
    """Many requests at one time over the same books, each gone as the engine goes it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.running: list[Running] = []
        self.probing: dict[Hop, Running] = {}

    @initialize(slots=st.integers(1, 3))
    def begin(self, slots: int) -> None:
        limits = {"claude": slots, "codex": slots}
        self.slots = slots
        self.admission = Admission(Slots(limits), BreakerConfig(threshold=2, cooldown_s=10), {})

    @property
    def at(self) -> Now:
        return Now(self.now, WALL + self.now, "2027-01-15")

    @rule(seconds=WAITS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(chain=st.permutations(HOPS), count=st.integers(1, 3), force=st.booleans())
    def ask(self, chain: list[Hop], count: int, force: bool) -> None:
        policy = Policy(try_open_circuits=force, deadline_s=1e9)
        walk = Walk(Chain("c", tuple(chain[:count]), policy), streaming=True, now=self.now)
        self._go(walk, [])

    def _go(self, walk: Walk, asked: list[Hop]) -> None:
        """As `Engine.serve` does it, up to an attempt or the end."""
        while (hop := walk.next(self.now)) is not None:
            open_before = {open_ for open_, _ in self.admission.breaker.open_circuits(self.now)}
            right = self.admission.enter(hop, None, self.at, forced=walk.forced)
            if isinstance(right, Failed):
                walk.pass_on(right, self.now)
                self._keep_books(walk)
                continue
            asked.append(hop)
            assert len(asked) == len(set(asked)), "a hop is asked once"
            one = Running(walk, hop, right, asked)
            self.running.append(one)
            if hop in open_before and not walk.forced:
                assert hop not in self.probing, "two probes of one circuit"
            if hop in open_before and hop not in self.probing:
                self.probing[hop] = one
            return
        if not walk.answered:
            self._had_nowhere_to_go(walk, asked)

    def _had_nowhere_to_go(self, walk: Walk, asked: list[Hop]) -> None:
        """F4: a request that ends with nobody asked had no hop that could have been asked."""
        refused = walk.verdict(WALL + self.now)
        assert refused.records and refused.status >= 400
        if asked or not walk._chain.policy.try_open_circuits:
            return
        for record in walk.records:
            assert record.code in NOT_ASKED and record.code != ErrorCode.CIRCUIT_OPEN
            hop = Hop(record.provider, record.model)
            assert isinstance(self.admission.enter(hop, None, self.at, forced=True), Failed)

    def _keep_books(self, walk: Walk) -> None:
        for hop, end in walk.ends:
            self.admission.note(hop, end, self.at)
        walk.ends.clear()
        open_now = {hop for hop, _ in self.admission.breaker.open_circuits(self.now)}
        self.probing = {hop: one for hop, one in self.probing.items() if hop in open_now}

    @precondition(lambda self: self.running)
    @rule(
        which=PICK,
        code=st.sampled_from([t for t in ErrorCode if t not in NOT_ASKED]),
        model_limit=st.booleans(),
        after_text=st.booleans(),
    )
    def fail(self, which: int, code: ErrorCode, model_limit: bool, after_text: bool) -> None:
        one = self.running.pop(which % len(self.running))
        failed = Failed(code, "no", resets_at=WALL + self.now + 50, model_limit=model_limit)
        events = [Text("x")] if after_text else []
        self._end(one, [*events, failed])
        if after_text:
            assert one.walk.next(self.now) is None, "nobody is asked after the first byte"
        else:
            self._go(one.walk, one.asked)

    @precondition(lambda self: self.running)
    @rule(which=PICK)
    def answer(self, which: int) -> None:
        one = self.running.pop(which % len(self.running))
        self._end(one, [Text("x"), Done()])
        assert not self.admission.breaker.blocks(one.hop, self.now)
        assert self.admission.holds.blocking(one.hop, self.now) is None
        assert one.walk.next(self.now) is None

    @precondition(lambda self: self.running)
    @rule(which=PICK)
    def leave(self, which: int) -> None:
        """The client goes away: the block is left by an exception, and nothing is noted."""
        one = self.running.pop(which % len(self.running))
        self._end(one, [])

    def _end(self, one: Running, events: Iterable[Text | Done | Failed]) -> None:
        with one.right:
            for event in events:
                one.walk.pass_on(event, self.now)
            self._keep_books(one.walk)
        self.probing = {hop: other for hop, other in self.probing.items() if other is not one}

    @rule()
    def clear(self) -> None:
        self.admission.holds.clear()

    @invariant()
    def D2_no_slot_is_leaked_and_none_is_given_twice(self) -> None:
        taken = dict.fromkeys(("claude", "codex"), 0)
        for one in self.running:
            taken[one.hop.provider] += 1
        assert self.admission.slots.active == taken
        assert max(taken.values()) <= self.slots

    @invariant()
    def F4_E5_when_all_is_quiet_every_hop_is_free_again_in_time(self) -> None:
        if self.running:
            return
        for hop in HOPS:
            assert not self.admission.breaker.blocks(hop, self.now + 10)
            assert self.admission.holds.blocking(hop, self.now + MAX_HOLD_S) is None


def test_F1_F5_the_breaker_in_any_order_of_events() -> None:
    run_state_machine_as_test(BreakerMachine, settings=SETTINGS)


def test_E5_the_holds_in_any_order_of_events() -> None:
    run_state_machine_as_test(HoldsMachine, settings=SETTINGS)


def test_D1_D2_F4_the_books_with_many_walks_in_any_order_of_events() -> None:
    run_state_machine_as_test(BooksMachine, settings=SETTINGS)
