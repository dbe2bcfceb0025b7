"""Resolves a request for its caller: the chain, and whether it is a background job that the chat
program sends on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from olp.core.keys.background import Shapes
from olp.core.routing.chains import Chain
from olp.model import Request
from olp.runtime.access.caller import Caller
from olp.runtime.log import Log


@dataclass(frozen=True, slots=True)
class Plan:
    """`request` as the CLIs get it, and its chain. `background` is the name of the background job,
    if it is one."""

    request: Request
    chain: Chain
    background: str | None = None


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Whose request it is. `background` is the name of the background job, if it is one; `log`
    carries the same for its lines."""

    id: str
    caller: Caller
    background: str | None
    log: Log


class Planner:
    """Makes plans. `background_chain` is the chain for background jobs; empty for none."""

    def __init__(self, shapes: Shapes, background_chain: str) -> None:
        self._shapes = shapes
        self._background_chain = background_chain

    def plan(self, request: Request, caller: Caller, resolve: Callable[[Request], Chain]) -> Plan:
        """How `request` is served. Raises RequestError 403 or 404."""
        caller.check_model(request.model)
        chain = resolve(request)
        job = self._shapes.recognise(request)
        name = self._background_chain
        # A prompt is easily made to look like such a job, so it must not give access to a chain
        # that the caller may not use.
        if job and name and not request.forbid_substitution and caller.may_ask(name):
            chain = resolve(Request(name, request.messages))
        return Plan(caller.with_prompt(request), chain, job)
