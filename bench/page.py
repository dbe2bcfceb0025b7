"""docs/scorecard.md: two parts, each written by the run that plays it, and the words around them.

A run writes its own part and leaves the other one as it stands in the file. So neither has to be
played for the other's sake, and a test can compare each part with what the command says today.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PARTS = ("scripted", "real")
EMPTY = "Not played yet."

HEAD = """\
# What a client gets when a CLI or its vendor fails

<!-- Made by bench/failover: do not edit. -->

Two cards. In the first one the CLIs are scripted fakes, so that they can be made to do whatever a
program can do. In the second one they are the real CLIs, and their vendors fail."""

SCRIPTED = """\
## Scripted CLIs: 25 faults

`bench/failover` plays 25 faults on a real server, `olp serve` as a process of its own, whose CLIs
are scripted fakes that speak the output formats of claude, codex and vibe. Every fault is played
twice, without streaming and with it. What the client received is judged, and so is what it cannot
see: which CLIs were started, how often and with what, whether a slot or a private folder is still
taken after the answer, and whether a process is left when the server has stopped."""

REAL = """\
## Real CLIs: 16 faults told by vendors

`bench/failover --real` starts the three real CLIs behind a real `olp serve`, with loopback as their
only network, and mock vendors that speak each vendor's own API and fail in it: statuses with that
vendor's error bodies, closed and reset connections, silence, and faults in the event stream. Each
chain has two hops, and the second vendor is healthy. What is judged is seen from outside alone:
what an HTTP client got (text, finish reason, `[DONE]`, error, headers), and how often each vendor
was asked, which is at most once per hop and request, and never for a model that nobody named.

Every cell has a server, CLIs and vendors of its own, and ends with one more request that must be
served. codex is given its vendor as an owner would write it, with codex's own retries."""

WORDS = """\
## What the words mean

For the scripted CLIs:

- **pass**: the client got the complete answer, marked as complete and attributed to the hop that
  gave it; or, where no hop could or should have answered, the precise error for it. In S22 and S23
  the client or the server is gone; there it is that nothing is left behind, and that the next
  request is served.
- **safe**: a stream that had begun was broken off, and the client can tell: what had come is
  unchanged, and it ends with finish reason `length`, or with an error event and no `[DONE]`. Only
  S08, S09 and S14 may end so, and only streamed; anywhere else it counts as a fail.
- **fail**: everything else. Above all a truncated answer that looks complete, but also an answer of
  the wrong hop, a CLI started once too often, a process that is left, or a wait that is too long.

For the real CLIs:

- **pass**: the client got the whole right answer, word for word, from the next hop, or from the
  first one where the fault does not matter. In S12 and S13, where no other hop should be asked, it
  is the precise error or refusal instead.
- **partial**: as pass, but weaker. It took 10 s longer than the clocks of the fault (25 s where a
  process is started for each request: a vibe takes six by itself), a header, `model` or `usage`
  tells something wrong, or another vendor was asked what one had refused.
- **safe**: the first words were out, and then came an error event, without a finish reason and
  without `[DONE]`. What had come is unchanged, and nobody else was asked. Allowed only where the
  table of faults says so, and only streamed; anywhere else it counts as a fail.
- **fail**: an answer that looks whole and is not (cut, doubled, or of two hops; a finish reason
  `length` with `[DONE]` counts as such, since the vendor set no limit), an error although the next
  hop was healthy, no end within 60 s, more than one request to a vendor for one request of the
  client, a request for a model that nobody named, or a server that does not serve afterwards.

A fault with several parts has the verdict of its worst part."""

LIMITS = """\
## What the numbers do not say

- Once the first word of a stream is out, no other provider is asked, by design. So an answer that
  breaks off under a stream can come to *safe* at best; more would mean that two models' answers
  were glued together.
- Scripted S08 without streaming is counted as a pass although 20 of 60 words are missing: what a
  dead CLI had said is returned with finish reason `length`, as [behaviour.md](behaviour.md)
  promises, and is not thrown away to ask another model. Whoever wants all 60 words has to count one
  less. Where a living CLI says that its vendor's answer broke off, as the real ones do in S08, the
  next hop is asked, and gives all of them.
- Scripted S11 and S20 are told before the first word, where another hop can still serve. The same
  exits after the first words are played too, as parts of S08, and come to *safe* when streamed.
- S15 is an outage that begins while the breaker is closed. That the provider is well again is
  noticed when the cool-down ends, 60 s after the failure that opened the breaker or after the last
  probe that failed. An outage that ends just after such a probe is noticed later than 30 s.
- Where a clock of minutes is at work, the configuration makes it seconds, as told above.
- The scripted CLIs are started for each request. CLIs that wait for requests ahead of time speak
  other protocols; the real ones are played both ways.
- The fakes and the mock vendors do what somebody wrote down. A vendor can fail in a way that nobody
  has thought of."""

OTHERS = """\
## Other scorecards

The first sixteen faults are those of a public catalogue for gateways between HTTP APIs
([FailoverBench](https://github.com/failoverbench/failoverbench), methodology 0.1). There a gateway
may ask the same vendor again, and for S01 and S03 it should; OLP never does, since each attempt is
quota, and asks the next hop instead. So S01 and S03 are judged by that here. Nor is a late first
word marked down that was waited for within the gate's time, and a next hop is asked what was too
long for the first one only where it is known to take more. The vendors, the judges and the server
come from the same people. So a number on this page cannot be set against another product's number
one to one; what it can be set against is another version of OLP."""


def page(parts: Mapping[str, str]) -> str:
    """The whole page around its two parts."""
    said = {
        name: f"{_mark(name)}\n\n{parts.get(name, EMPTY)}\n\n{_mark('/' + name)}" for name in PARTS
    }
    blocks = (HEAD, SCRIPTED, said["scripted"], REAL, said["real"], WORDS, LIMITS, OTHERS)
    return "\n\n".join(blocks) + "\n"


def parts_of(text: str) -> dict[str, str]:
    """The parts that stand on a page."""
    found = {}
    for name in PARTS:
        _, begun, rest = text.partition(_mark(name) + "\n")
        body, ended, _ = rest.partition(_mark("/" + name))
        if begun and ended:
            found[name] = body.strip("\n")
    return found


def write(file: Path, name: str, body: str) -> None:
    """Put a part on the page in `file`, and leave the other one as it is."""
    old = file.read_text("utf-8") if file.exists() else ""
    file.write_text(page({**parts_of(old), name: body}), "utf-8")


def _mark(name: str) -> str:
    return f"<!-- {name} -->"
