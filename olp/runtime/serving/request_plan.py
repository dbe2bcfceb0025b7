"""What a request comes to for the person who sends it: which chain, and whether it is a job that
their chat program sends on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from olp.core.keys.background import Shapes
from olp.core.routing.chains import Chain
from olp.model import Request
from olp.runtime.access.caller import Caller


@dataclass(frozen=True, slots=True)
class Plan:
    """`request` as the CLIs get it, and the chain it goes along. `background` names the job."""

    request: Request
    chain: Chain
    background: str | None = None


class Planner:
    """Makes plans. `background_chain` is the name that jobs are sent to; empty for none."""

    def __init__(self, shapes: Shapes, background_chain: str) -> None:
        self._shapes = shapes
        self._background_chain = background_chain

    def plan(self, request: Request, caller: Caller, resolve: Callable[[Request], Chain]) -> Plan:
        """How `request` is served; RequestError 403 or 404 if it cannot be."""
        caller.check_model(request.model)
        chain = resolve(request)
        job = self._shapes.recognise(request)
        name = self._background_chain
        # A prompt is easily made to look like such a job, so it opens no chain that its sender may
        # not ask for.
        if job and name and not request.forbid_substitution and caller.may_ask(name):
            chain = resolve(Request(name, request.messages))
        return Plan(caller.with_prompt(request), chain, job)
