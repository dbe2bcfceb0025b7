"""The stand-in CLI that ships with OLP, so that everything can be tried without a subscription.

It speaks Claude Code's protocol (`python -m olp.demo`), and its model ids say how it behaves.
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
    """The provider: Claude's way of starting, another program."""

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
        return None  # it starts at once as it is

    def survey(self, context: ProviderContext) -> Sequence[tuple[Launch, Driver]]:
        return ()  # its models are known, and it has no plan

    def probes(self, context: ProviderContext) -> Mapping[str, Launch]:
        return {"version": self._claude.probes(_as_module(context))["version"]}

    def mocked(self, context: ProviderContext, url: str) -> ProviderContext:
        return context


def _as_module(context: ProviderContext) -> ProviderContext:
    """The stand-in's command; the real Claude's login is not for it."""
    environ = {k: v for k, v in context.environ.items() if k not in Claude.info.passes}
    return replace(context, command=(*context.command, "-m", "olp.demo"), environ=environ)


PROVIDER = Demo()
