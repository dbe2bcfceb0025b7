"""The isolation self-test: each CLI run as the server runs it, with a malicious model.

The flags that remove a CLI's tools are only effective in versions that implement them, so this is
tested on the installed one. The CLI talks to a mock vendor on loopback, with a dummy login and none
of the owner's options, so it costs no quota and no real vendor is contacted. It is tested in each
way in which the server starts it, one-shot and warm, twice each: with a prompt that names a file
and begins with a command, and with an answer in which the model calls tools. In the latter the
driver does not intervene: the CLI itself must block the calls, because the server could only kill
it after the fact.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from olp.config import ProviderConfig
from olp.core.words import counted
from olp.doctor.finding import Finding, Patient
from olp.doctor.lab import Bystander, Lab, Lingering, OneTurn
from olp.doctor.trap import Trap, attempts, lay
from olp.doctor.vendor import Asked, MockVendor, tool_names
from olp.events import Event, Failed, Text
from olp.model import Capability, Launch, Message, Request, Role, Tool
from olp.providers.base import Driver, ProviderContext
from olp.providers.shared.environment import ALLOWED

RUN_S = 45.0
"""Seconds that one run may take; the slowest CLI needs 6 s on two idle cores."""

LINGER_S = 3.0
"""Seconds that a warm process is left running after it called a tool."""


PROBE = Tool("lookup", "Looks something up.", {"type": "object", "properties": {}})
"""A client's tool, so that the CLI is started as for a request with tools."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which the server starts a CLI: one-shot, warm (`ahead`), or warm for a request
    with `tools`.
    """

    patient: Patient
    trap: Trap
    lab: Lab
    ahead: bool
    tools: tuple[Tool, ...] = ()

    def start(self, url: str, system: str, question: str) -> tuple[Launch, Driver] | None:
        """How to start the CLI and ask `question`, with the vendor at `url`; None if it has no such
        mode.
        """
        provider = self.patient.provider
        model = provider.info.models[0]
        request = Request(model, (Message(Role.SYSTEM, system), Message(Role.USER, question)))
        context = provider.mocked(self._context(), url)
        now = datetime.now().astimezone()
        if not self.ahead:
            return provider.launch(request, model, context, now)
        if self.tools:
            request = replace(request, tools=self.tools)
            started = provider.session(context, request, model)
        else:
            started = provider.session(context)
        if started is None:
            return None
        launch, session = started
        return launch, OneTurn(session, request, model, now)

    def _context(self) -> ProviderContext:
        """A context without the owner's login and options, which could lead to a real vendor."""
        context, home = self.patient.context, str(self.trap.home)
        environ = {name: value for name, value in context.environ.items() if name in ALLOWED}
        work = str(self.lab.work)
        return ProviderContext(
            context.command, ProviderConfig(), environ, home, f"{home}/own", work=work
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run. `idle` is the reason why the CLI did not start this way, if so."""

    problems: tuple[str, ...] = ()
    tools: int = 0
    size: int = 0
    idle: str = ""


async def check_isolation(patient: Patient, lab: Lab) -> Finding:
    """Check that a client cannot access this machine through `patient`."""
    options = patient.context.config
    ways = (False, True) if options.warm > 0 and options.transport == "auto" else (False,)
    outcomes: list[Outcome] = []
    for ahead in ways:
        # Sequentially, so that a slow machine is not overloaded.
        way = Way(patient, lay(lab.private), lab, ahead)
        outcomes += await asyncio.gather(_read(way), _act(way))
    if options.transport == "auto" and Capability.TOOLS in patient.provider.info.can:
        outcomes.append(await _act(Way(patient, lay(lab.private), lab, ahead=True, tools=(PROBE,))))
    problems = dict.fromkeys(p for outcome in outcomes for p in outcome.problems)
    name = f"{patient.name}.isolation"
    if problems:
        return Finding(name, False, "; ".join(problems), _fix(patient))
    return Finding(name, True, _summary(patient, outcomes))


def _summary(patient: Patient, outcomes: Sequence[Outcome]) -> str:
    once = outcomes[0]
    tools = f"{counted(once.tools, 'tool')} that are inert" if once.tools else "no tools"
    told = f"locked: {tools}, canaries untouched, {once.size:,} bytes for a short prompt"
    notes = [f"could not be started ahead: {o.idle}" for o in outcomes[2:3] if o.idle]
    options = patient.context.config
    if options.env or options.args or options.config:
        notes.append("your env, args and config were not applied")
    return f"{told} ({'; '.join(notes)})" if notes else told


def _fix(patient: Patient) -> str:
    info = patient.provider.info
    low, high = info.tested
    return (
        f"set enabled = false in [providers.{info.name}], or install a version known to work "
        f"({low} to {high}): {info.install}"
    )


async def _read(way: Way) -> Outcome:
    """Ask a question that names the secret file."""
    answer, system = f"answer-{secrets.token_hex(8)}", f"system-{secrets.token_hex(8)}"
    question = f"/clear @{way.trap.secret}"
    async with MockVendor(answer) as vendor:
        started = way.start(vendor.url, system, question)
        if started is None:
            return Outcome(idle="it has no such way")
        events = await way.lab.run(*started, RUN_S)
    asked = vendor.answered
    if not asked:
        return _idle(way, _reason(events))
    bodies = "\n".join(a.body for a in asked)
    tools = sorted({tool for a in asked for tool in tool_names(a)})
    extra = [tool for tool in tools if tool not in way.patient.provider.info.inert_tools]
    reply = "".join(event.text for event in events if isinstance(event, Text))
    checks = {
        "a file of yours was sent to the vendor": not _seen(way.trap, vendor.asked),
        f"it offers its model tools that OLP does not know: {', '.join(extra)}": not extra,
        "the system prompt did not reach the vendor": system in bodies,
        "a prompt that starts with / was not passed unchanged": question in bodies,
        f"no answer came: {_reason(events)}": answer in reply,
        f"one prompt caused {len(asked)} vendor requests": len(asked) == 1,
    }
    problems = tuple(problem for problem, good in checks.items() if not good)
    return Outcome(problems, len(tools), len(asked[0].body.encode()))


async def _act(way: Way) -> Outcome:
    """Answer with tool calls that read the secret and write canary files."""
    answer, system = f"answer-{secrets.token_hex(8)}", f"system-{secrets.token_hex(8)}"
    async with MockVendor(answer, attempts(way.trap)) as vendor:
        started = way.start(vendor.url, system, "Hello")
        if started is None:
            return Outcome(idle="it has no such way")
        launch, driver = started
        patient = Lingering(driver, LINGER_S) if way.ahead else Bystander(driver)
        events = await way.lab.run(launch, patient, RUN_S)
    problems = []
    if _seen(way.trap, vendor.asked):
        problems.append("a tool read a file and sent it to the vendor")
    written = sorted(path.name for path in (*way.trap.drop.iterdir(), *way.lab.work.iterdir()))
    if written:
        problems.append(f"a tool ran and wrote a file: {', '.join(written)}")
    if not vendor.answered and not problems:
        return _idle(way, _reason(events))
    return Outcome(tuple(problems))


def _idle(way: Way, reason: str) -> Outcome:
    """The CLI sent no request. That is acceptable for a warm process, as the server falls back to
    one-shot.
    """
    if way.ahead:
        return Outcome(idle=reason)
    return Outcome((f"it sent no vendor request: {reason}",))


def _seen(trap: Trap, asked: Iterable[Asked]) -> bool:
    return any(trap.token in a.body for a in asked)


def _reason(events: Sequence[Event]) -> str:
    failed = [event.detail for event in events if isinstance(event, Failed)]
    return failed[0][:200] if failed else "it ended without a word"
