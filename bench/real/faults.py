"""The catalogue of `bench/failover --real`: sixteen faults, as vendors tell them over HTTP.

They are those of the public catalogue (FailoverBench 0.1). A fault is a function: it starts a
server, tells the vendors what to do, asks as a client does, and returns a verdict. Where the
catalogue's clocks are minutes they are seconds here, and so are OLP's: `told` says which. Whatever
is not named in a `house()` is OLP's default.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.faults import view_of
from bench.real.judge import Verdict, all_of, fail, refused, served, stopped
from bench.real.scene import HOPS, NAMES, WORDS, House, Reply, Scene, Way
from tests.support import Answer, Streamed

Play = Callable[[Scene], Awaitable[Verdict]]

FIRST = NAMES[0]
BACK_S = 2
"""S01: how soon the vendor wants to be asked again."""

CUT, STALL, ODD = 40, 20, 10
"""After so many words a stream is cut, stalls, or has a line of garbage in it."""

FASTER = 5
"""S15 is played so many times faster than it is told: 60 s are 12."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One row: what happens, how it is told to a vendor, and on which CLI as first hop a stream may
    be no more than safe."""

    id: str
    name: str
    run: Play
    told: str
    safe_on: tuple[str, ...] = ()

    def may_be_safe(self, way: Way) -> bool:
        """Whether a clean error after the first words is the most that a client can hope for."""
        return way.stream and way.chain[0] in self.safe_on


EVERY = tuple(HOPS)


def _start_s(scene: Scene) -> float:
    """How long the slowest CLI of the chain may need before its vendor is asked."""
    return 15.0 if _is_slow(scene) else 3.0


def _faster(scene: Scene) -> int:
    """The scale of S15. A CLI's own start cannot be scaled, so a slow one is played as it is."""
    return 1 if _is_slow(scene) else FASTER


def _is_slow(scene: Scene) -> bool:
    return scene.way.transport == "oneshot" and "vibe" in scene.way.chain


def _first(scene: Scene, **options: Any) -> dict[str, Any]:
    """Options of the first hop's CLI alone."""
    return {"providers": {scene.way.chain[0]: options}}


async def one_limit(scene: Scene) -> Verdict:
    async with scene.house() as house:
        house.tell(0, f"THROTTLE:{BACK_S}", times=1)
        moved = await house.ask("one")
        await asyncio.sleep(BACK_S)
        back = await house.ask("two")
        return await _and_alive(house, served(moved, scene.way, 1), served(back, scene.way, 0))


async def limited_for_ever(scene: Scene) -> Verdict:
    async with scene.house() as house:
        house.tell(0, "THROTTLE")
        replies = [await house.ask(f"question {number}") for number in range(3)]
        return await _and_alive(house, *(served(reply, scene.way, 1) for reply in replies))


async def one_500(scene: Scene) -> Verdict:
    async with scene.house() as house:
        house.tell(0, "ERROR500", times=1)
        moved, back = await house.ask("one"), await house.ask("two")
        return await _and_alive(house, served(moved, scene.way, 1), served(back, scene.way, 0))


async def down_for_ever(scene: Scene) -> Verdict:
    async with scene.house() as house:
        house.tell(0, "OVERLOADED")
        replies = [await house.ask(f"question {number}") for number in range(6)]
        spent = sum(reply.asked[0] for reply in replies)
        verdicts = [served(reply, scene.way, 1) for reply in replies]
        if spent > 3:
            verdicts.append(fail(f"a vendor that is down was asked {spent} times"))
        return await _and_alive(house, *verdicts)


async def _one(scene: Scene, order: str, clocks_s: float = 0.0, **tables: Any) -> Verdict:
    """One request while hop 0's vendor does this; hop 1 is well."""
    async with scene.house(**tables) as house:
        house.tell(0, order)
        reply = await house.ask()
        return await _and_alive(house, served(reply, scene.way, 1, clocks_s))


async def reset_before_head(scene: Scene) -> Verdict:
    return await _one(scene, "RESET")


async def never_answers(scene: Scene) -> Verdict:
    clock = _start_s(scene)
    return await _one(scene, "SILENT", clock, **_first(scene, opening_s=clock))


async def late_first_word(scene: Scene) -> Verdict:
    clock = _start_s(scene)
    late_s = clock + 2
    late = f"LATE:{late_s:g}:{WORDS}:{FIRST}"
    async with scene.house() as house:
        house.tell(0, late)
        waited = served(await house.ask(), scene.way, 0, late_s)
    hurried = {"hops": [HOPS[name] for name in scene.way.chain], "gate_action": "advance"}
    clocks = _first(scene, opening_s=clock, gate_s=1.0)
    async with scene.house(chains={"hurried": hurried}, **clocks) as house:
        house.tell(0, late)
        moved = served(await house.ask(model="hurried"), scene.way, 1, late_s)
        return await _and_alive(house, waited, moved)


async def cut(scene: Scene) -> Verdict:
    return await _one(scene, f"DROP:{CUT}:{WORDS}:{FIRST}")


async def stalls(scene: Scene) -> Verdict:
    clock = _start_s(scene) + 1
    order = f"HANG_AT:{STALL}:{WORDS}:{FIRST}"
    return await _one(scene, order, clock, **_first(scene, max_spawn_s=clock))


async def garbage(scene: Scene) -> Verdict:
    async with scene.house() as house:
        house.tell(0, f"GARBAGE:{ODD}:{WORDS}:{FIRST}")
        return await _and_alive(house, _either(await house.ask(), scene.way))


async def no_last_event(scene: Scene) -> Verdict:
    async with scene.house() as house:
        house.tell(0, "ENDS")
        moved = served(await house.ask("one"), scene.way, 1)
        house.tell(0, f"NODONE:{WORDS}:{FIRST}")
        return await _and_alive(house, moved, _either(await house.ask("two"), scene.way))


def _either(reply: Reply, way: Way) -> Verdict:
    """The whole answer, whichever hop gave it."""
    return served(reply, way, reply.hop if reply.hop in (0, 1) else 1)


async def too_long(scene: Scene) -> Verdict:
    async with scene.house(providers=_reading(scene, 100_000, 1_000_000)) as house:
        house.tell(0, "CONTEXT")
        moved = served(await house.ask(), scene.way, 1)
    async with scene.house(providers=_reading(scene, 1_000_000, 100_000)) as house:
        house.tell(0, "CONTEXT")
        kept = stopped(await house.ask(), 400, "context_length_exceeded")
        return await _and_alive(house, moved, kept)


def _reading(scene: Scene, *tokens: int) -> dict[str, Any]:
    """Options by which each hop's model can read so many tokens."""
    hops = zip(scene.way.chain, tokens, strict=True)
    return {name: {"context": {HOPS[name].partition("/")[2]: size}} for name, size in hops}


REFUSALS = {
    "claude": ("REFUSE", "POLICY"),
    "codex": ("REFUSE", "POLICY", "POLICY:cyber_policy", "POLICY:400"),
    "vibe": ("POLICY",),
}
"""The ways in which each vendor refuses."""


async def content_refused(scene: Scene) -> Verdict:
    async with scene.house() as house:
        verdicts = []
        for order in REFUSALS[scene.way.chain[0]]:
            house.tell(0, order)
            verdicts.append(refused(await house.ask(order)))
        return await _and_alive(house, *verdicts)


async def no_continuation(scene: Scene) -> Verdict:
    async with scene.house() as house:
        house.tell(0, f"DROP:{CUT}:{WORDS}:{FIRST}")
        house.tell(1, f"FRESH:{WORDS}:{NAMES[1]}:{FIRST}0")
        reply = await house.ask()
        verdict = served(reply, scene.way, 1)
        if any(f"{FIRST}0" in body for body in house.bodies(1)):
            verdict = fail("the next hop was given what the first one had said")
        return await _and_alive(house, verdict)


async def down_and_back(scene: Scene) -> Verdict:
    second = 1 / _faster(scene)
    minute = 60 * second
    breaker = {"window_s": 5 * minute, "cooldown_s": minute}
    async with scene.house(breaker=breaker) as house:
        house.tell(0, "OVERLOADED")
        began = time.monotonic()
        recovery = asyncio.get_running_loop().call_later(minute, house.well, 0)
        try:
            replies = [await _at(began + 4 * second * n, house, f"{n}") for n in range(20)]
            while replies[-1].hop != 0 and time.monotonic() < began + minute * 2.5:
                replies.append(await _at(time.monotonic() + 4 * second, house, "back?"))
        finally:
            recovery.cancel()
        return flapped(scene.way, replies, began + minute, minute)


async def _at(moment: float, house: House, text: str) -> Reply:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
    return await house.ask(text)


def flapped(way: Way, replies: list[Reply], well_at: float, minute: float) -> Verdict:
    """All of S15, in which hop 0's vendor was well again at `well_at`. It must be used again half a
    `minute` later, or, where a CLI took so long to fail that the breaker opened late, when the
    cool-down ends that the last failure began."""
    verdicts = [_either(reply, way) for reply in replies]
    spent = sum(reply.asked[0] for reply in replies if reply.sent_at < well_at)
    if spent > 6:
        verdicts.append(fail(f"a vendor that is down was asked {spent} times"))
    back = [reply for reply in replies if reply.hop == 0 and reply.sent_at >= well_at]
    failed = [r.sent_at + r.seconds for r in replies if r.asked[0] and r.hop != 0]
    due = max([well_at + minute / 2, *(moment + minute for moment in failed)])
    late = [reply for reply in replies if reply.hop != 0 and reply.sent_at > due]
    if not back or late:
        verdicts.append(fail(f"hop 0 is not used {due - well_at:.0f} s after its recovery"))
    return all_of(verdicts)


async def accounting(scene: Scene) -> Verdict:
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if scene.way.stream else {}
    async with scene.house() as house:
        house.tell(0, "OVERLOADED")
        house.state.usage.input_tokens, house.state.usage.output_tokens = 321, 123
        reply = await house.ask(**more)
        verdict = served(reply, scene.way, 1)
        if verdict.kind == "pass" and reply.answer is not None:
            verdict = accounted(reply.answer, scene.way, verdict)
        return await _and_alive(house, verdict)


def accounted(answer: Answer, way: Way, verdict: Verdict) -> Verdict:
    """`verdict`, weakened where the usage or the detail is not right."""
    bodies = answer.data if isinstance(answer, Streamed) else [answer.body]
    told = [body["usage"] for body in bodies if body.get("usage")]
    usage = [(one["prompt_tokens"], one["completion_tokens"]) for one in told]
    if usage != [(321, 123)]:
        return Verdict("partial", f"`usage` {usage} instead of the vendor's own")
    [record] = answer.detail
    provider, _, model = HOPS[way.chain[0]].partition("/")
    if (record["provider"], record["model"]) != (provider, model):
        return Verdict("partial", f"the detail blames {record['provider']}/{record['model']}")
    return verdict


async def _and_alive(house: House, *verdicts: Verdict) -> Verdict:
    """The worst of these; a fail if a request after the fault, with all vendors well, is not
    served, or if all in all a vendor was asked more often than clients asked."""
    for hop, _ in enumerate(house.scene.way.chain):
        house.well(hop)
    alive = await house.ask("still there?")
    verdicts = (*verdicts, *([] if _is_whole(alive) else [fail("not served after the fault")]))
    counts, _ = house.asked()
    if max(counts) > house.clients_asked:
        verdicts = (*verdicts, fail(f"{counts} vendor's requests for {house.clients_asked}"))
    return all_of(verdicts)


def _is_whole(reply: Reply) -> bool:
    answer = reply.answer
    return answer is not None and answer.status == 200 and view_of(answer).looks_whole


FAULTS: tuple[Fault, ...] = (
    Fault(
        "S01",
        "one 429 with Retry-After",
        one_limit,
        f"HTTP 429 with `Retry-After: {BACK_S}`, once. The next hop serves; asked again after that "
        "time, the first does",
    ),
    Fault(
        "S02",
        "429 for ever",
        limited_for_ever,
        "three requests while every answer is 429 without Retry-After",
    ),
    Fault("S03", "one 500", one_500, "HTTP 500, once. The next hop serves; asked again, the first"),
    Fault(
        "S04",
        "503 for ever",
        down_for_ever,
        "six requests while every answer is a 503 (529 at Anthropic). The vendor is asked three "
        "times",
    ),
    Fault(
        "S05",
        "reset before the head",
        reset_before_head,
        "a TCP reset in the place of an answer",
    ),
    Fault(
        "S06",
        "never answers",
        never_answers,
        "the request is taken, and not one byte comes. `opening_s` of the first CLI is 3 s (15 s "
        "for a vibe that is started for the request)",
    ),
    Fault(
        "S07",
        "first token very late",
        late_first_word,
        "the stream begins, and its first word comes after 5 s (17 s where a vibe is started for "
        "the request; 20 s in the catalogue). Played with defaults, where it is waited for, and "
        'with `gate_action = "advance"`, an `opening_s` of 3 s (15 s) and a `gate_s` of 1 s, where '
        "the next hop serves",
    ),
    Fault(
        "S08",
        "cut at 40 of 60 deltas",
        cut,
        "the connection is closed in the middle of the body",
        EVERY,
    ),
    Fault(
        "S09",
        "stalls in mid-stream",
        stalls,
        "20 words, then silence with the connection open. `max_spawn_s` of the first CLI is 4 s "
        "(16 s for a vibe that is started for the request), not 600 s",
        EVERY,
    ),
    Fault(
        "S10",
        "garbage line among the events",
        garbage,
        "an event with broken JSON before the eleventh word; the rest is well. codex reads on, "
        "claude and vibe give the answer up",
        ("claude", "vibe"),
    ),
    Fault(
        "S11",
        "no last event",
        no_last_event,
        "a stream that ends in good order after some thinking, without a word; and one with all "
        "its words that lacks the last event: `message_stop` at Anthropic, `[DONE]` at Mistral, "
        "where an event before it said that the answer was whole, and `response.completed` at "
        "OpenAI, where nothing else says so",
        ("codex",),
    ),
    Fault(
        "S12",
        "context too long",
        too_long,
        "the vendor says so. A next hop whose `context` is larger serves; one whose `context` is "
        "smaller is not asked, and the client gets 400 `context_length_exceeded`",
    ),
    Fault(
        "S13",
        "content refused",
        content_refused,
        "each form in which the vendor refuses: a stop reason or refusal in a good stream, a "
        "failed response, HTTP 400. Right is a refusal, told as one, and nobody else asked",
    ),
    Fault(
        "S14",
        "cut, and the next hop rejects a continuation",
        no_continuation,
        "as S08, before a vendor that answers 400 where any of these words stand in its request",
        EVERY,
    ),
    Fault(
        "S15",
        "down for 60 s under 20 requests",
        down_and_back,
        f"503 for 60 s, a request every 4 s, to the scale of 1 to {FASTER}, the breaker's "
        "`window_s` and `cooldown_s` included (not scaled where a vibe is started for the request)."
        " The vendor is asked at most six times while it is down, and used again within 30 s of "
        "its recovery (on a busy machine: when the cool-down ends that the last failure began)",
    ),
    Fault(
        "S16",
        "the accounting",
        accounting,
        "HTTP 503. Headers, `model` in each frame and the detail name who served and who did not, "
        "and `usage` is the serving vendor's",
    ),
)
