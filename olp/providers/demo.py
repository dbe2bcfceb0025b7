"""The demo CLI that ships with OLP, to try everything without a subscription.

It speaks Claude Code's protocol (`python -m olp.demo`); the model id selects its behaviour.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from olp.model import Launch, Request
from olp.providers.base import Driver, ProviderContext, ProviderInfo
from olp.providers.claude import Claude

INFO = ProviderInfo(
    name="demo",
    rank=0,
    title="Demo",
    program=sys.executable,
    install="nothing: it is part of OLP",
    login="nothing: it needs no login",
    tested=("0", "9999"),
    models=("chat", "slow", "limited", "overloaded", "cut", "silent", "logged-out"),
    keeps_max_tokens=True,
)


class Demo:
    """The provider: launched like Claude Code, with another program."""

    info = INFO

    def __init__(self) -> None:
        self._claude = Claude()

    def launch(
        self, request: Request, model: str, context: ProviderContext, now: datetime
    ) -> tuple[Launch, Driver]:
        return self._claude.launch(request, model, _as_module(context), now)

    def session(
        self, context: ProviderContext, request: Request | None = None, model: str = ""
    ) -> None:
        return None  # it starts fast enough without a warm process

    def survey(self, context: ProviderContext) -> Sequence[tuple[Launch, Driver]]:
        return ()  # its models are fixed, and it has no plan

    def probes(self, context: ProviderContext) -> Mapping[str, Launch]:
        return {"version": self._claude.probes(_as_module(context))["version"]}

    def mocked(self, context: ProviderContext, url: str) -> ProviderContext:
        return context


def _as_module(context: ProviderContext) -> ProviderContext:
    """`context` with the demo's command and without the login of the real Claude Code."""
    environ = {k: v for k, v in context.environ.items() if k not in Claude.info.passes}
    return replace(context, command=(*context.command, "-m", "olp.demo"), environ=environ)


PROVIDER = Demo()
