"""What an answer is worth: pass, partial, safe or fail, from what a client and the vendors saw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.faults import View, view_of
from bench.real.scene import MODELS, WORDS, Reply, Way, text_of
from tests.support import Answer, Streamed

Kind = Literal["pass", "partial", "safe", "fail"]
KINDS: tuple[Kind, ...] = ("pass", "partial", "safe", "fail")

SLOW_S = {"auto": 10.0, "oneshot": 25.0}
"""An answer that takes longer than the fault's own clocks and this is partial, by transport. A
vibe that is started for one request needs six seconds on an idle machine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How it went, and in a few words what the client got."""

    kind: Kind
    what: str


def fail(what: str) -> Verdict:
    """A failed verdict."""
    return Verdict("fail", what)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several, the first of those that are equally bad; of passes the different
    ones."""
    told = list(verdicts)
    if not told:
        return fail("nothing was looked at")
    worst = max(told, key=lambda verdict: KINDS.index(verdict.kind))
    if worst.kind != "pass":
        return worst
    return Verdict("pass", "; ".join(dict.fromkeys(verdict.what for verdict in told)))


def plain(text: str) -> str:
    """The text with its white space made alike."""
    return " ".join(text.split())


def counted(reply: Reply) -> Verdict | None:
    """A fail where a vendor was asked more than once for one request, or anything else was."""
    if reply.strangers:
        return fail(f"asked without being named: {', '.join(reply.strangers)}")
    most = max(reply.asked)
    if most > 1:
        return fail(
            f"hop {reply.asked.index(most)}'s vendor was asked {most} times for one request"
        )
    return None


def served(reply: Reply, way: Way, hop: int, clocks_s: float = 0.0) -> Verdict:
    """The whole answer of `hop`? A stream of hop 0 that broke off and says so is safe. `clocks_s`
    is what the configured clocks may take of the time."""
    if (wrong := counted(reply)) is not None:
        return wrong
    answer = reply.answer
    if answer is None:
        return fail(f"nothing in {reply.seconds:.0f} s")
    if answer.status != 200:
        return fail(f"{answer.status} {_code(answer)}, with hop {hop} healthy")
    view = view_of(answer)
    if not view.looks_whole:
        broken = _broken(view, answer)
        late = broken.kind == "safe" and any(reply.asked[1:])
        return fail("the next hop was asked after the first word was out") if late else broken
    if plain(view.text) != plain(text_of(hop)):
        return fail(_not_whole(view.text, hop))
    odd = [*_headers(answer, way, hop), *_late(reply, way, clocks_s)]
    if odd:
        return Verdict("partial", f"the whole answer of hop {hop}, but {', '.join(odd)}")
    return Verdict("pass", f"the whole answer of hop {hop}")


def refused(reply: Reply) -> Verdict:
    """The vendor's refusal, told as one: finish `content_filter` or a client error, no answer, and
    nobody else asked."""
    if (wrong := counted(reply)) is not None:
        return wrong
    answer = reply.answer
    if answer is None:
        return fail(f"nothing in {reply.seconds:.0f} s")
    if any(reply.asked[1:]):
        return Verdict("partial", "another vendor was asked what one had refused")
    if answer.status == 200:
        view = view_of(answer)
        if view.error is None and view.ended and view.finish == "content_filter":
            return Verdict("pass", "finish `content_filter`")
        return fail(f"finish {view.finish}, error {view.error} instead of a refusal")
    if 400 <= answer.status < 500 and answer.status not in (401, 408, 409, 425, 429):
        return Verdict("pass", f"{answer.status} `{_code(answer)}`")
    return fail(f"{answer.status} {_code(answer)} instead of a refusal")


def stopped(reply: Reply, status: int, code: str) -> Verdict:
    """This error, and nobody but hop 0 asked."""
    if (wrong := counted(reply)) is not None:
        return wrong
    answer = reply.answer
    if answer is None:
        return fail(f"nothing in {reply.seconds:.0f} s")
    if any(reply.asked[1:]):
        return fail("another vendor was asked")
    if (answer.status, _code(answer)) != (status, code):
        return fail(f"{answer.status} {_code(answer)} instead of {status} {code}")
    return Verdict("pass", f"{status} `{code}`")


def _broken(view: View, answer: Answer) -> Verdict:
    """A stream without a proper end: safe if what came is hop 0's and the client can tell."""
    came, words = plain(view.text), len(view.text.split())
    told = view.error is not None and not view.ended and view.finish is None
    if not isinstance(answer, Streamed) or not told or not came:
        ended = ", then [DONE]" if isinstance(answer, Streamed) and view.ended else ""
        return fail(f"{words} of {WORDS} words, finish {view.finish}, error {view.error}{ended}")
    if came != plain(text_of(0, words)):
        return fail(f"{view.text[-60:]!r} is not what hop 0 said")
    return Verdict("safe", f"{words} of {WORDS} words, then the error `{view.error}`")


def _not_whole(text: str, hop: int) -> str:
    words = text.split()
    if len(words) > len(set(words)):
        return f"doubled text that looks whole: {len(words)} words"
    if any(word not in text_of(hop).split() for word in words):
        return f"not hop {hop}'s answer: {text[:40]!r}"
    return f"a truncated answer that looks whole: {len(words)} of {WORDS} words"


def _headers(answer: Answer, way: Way, hop: int) -> list[str]:
    """What the headers and the body tell wrongly of who served."""
    provider, model, hops = answer.served
    wrong = []
    if (provider, hops) != (way.chain[hop], hop):
        wrong.append(f"served by {provider}, hops {hops}")
    told = {str(body.get("model")) for body in _bodies(answer)}
    if told != {model} or MODELS[way.chain[hop]] not in model:
        wrong.append(f"`model` {sorted(told)}, header {model}")
    if [record["hop"] for record in answer.detail] != list(range(hop)):
        wrong.append(f"detail {answer.codes}")
    return wrong


def _bodies(answer: Answer) -> Sequence[dict[str, object]]:
    return answer.data if isinstance(answer, Streamed) else [answer.body]


def _late(reply: Reply, way: Way, clocks_s: float) -> list[str]:
    late = reply.seconds > clocks_s + SLOW_S[way.transport]
    return [f"after {reply.seconds:.0f} s"] if late else []


def _code(answer: Answer) -> str:
    try:
        return str(answer.body["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return repr(answer.raw[:80])
