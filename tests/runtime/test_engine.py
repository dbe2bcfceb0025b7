"""The way along a chain where a provider itself makes a mistake: nothing may be lost by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from olp.model import Launch, Request
from olp.providers.base import ProviderContext, Step
from olp.providers.claude import Claude
from olp.providers.claude.answer import Driver
from olp.providers.shared.transcript import prompt_of
from tests.conftest import OpenHouse
from tests.fakes.plan import hangs, says
from tests.support import BOTH, House, ask

CANARY = "wombat-9f3"


class BadDriver(Driver):
    """A driver that fails at its first line, or only after some."""

    patience = 0

    def receive(self, line: str) -> Sequence[Step]:
        self.patience -= 1
        if self.patience < 0:
            raise RuntimeError(f"no idea what {CANARY} means")
        return super().receive(line)


class BadClaude(Claude):
    """A provider that fails while it builds a launch, or whose driver does."""

    def __init__(self, patience: int | None) -> None:
        self._patience = patience

    def launch(
        self, request: Request, model: str, context: ProviderContext, now: datetime
    ) -> tuple[Launch, Driver]:
        if self._patience is None:
            raise ValueError(f"cannot build {CANARY}")
        launch, _ = super().launch(request, model, context, now)
        driver = BadDriver(prompt_of(request), structured=False, now=now)
        driver.patience = self._patience
        return launch, driver


def spoil(house: House, patience: int | None) -> None:
    """Let claude's provider make mistakes from now on."""
    members = house.service._fleet.members
    members["claude"] = replace(members["claude"], provider=BadClaude(patience))


@BOTH
@pytest.mark.parametrize("patience", [None, 0], ids=["launch", "first line"])
async def test_D2_a_mistake_before_the_first_byte_is_a_500_and_no_leak(
    open_: OpenHouse, patience: int | None, stream: bool
) -> None:
    house = await open_(
        claude=hangs(after=["a"]), codex=says("ok"), providers={"claude": {"max_concurrent": 1}}
    )
    house.mistakes_expected = True
    spoil(house, patience)
    for _ in range(3):
        answer = await house.ask(stream, ask(model="claude/sonnet"))
        assert (answer.status, answer.error["code"]) == (500, "internal_error")
        assert answer.headers["x-should-retry"] == "false"
        await house.settled()
    assert CANARY not in str(house.log)
    assert len(house.logged("task_failed")) == 1, "and the others are counted"
    house.server._log.close()
    assert house.logged("task_failed")[1]["times"] == 2
    assert (await house.ask(stream, ask(model="codex/gpt-5.5"))).text == "ok"


async def test_B3_a_mistake_after_the_first_byte_is_an_error_event(open_: OpenHouse) -> None:
    house = await open_(claude=says("one ", "two ", "three", every=0.1))
    house.mistakes_expected = True
    spoil(house, 4)
    answer = await house.stream()
    assert answer.text == "one two "
    assert answer.error["code"] == "internal_error"
    assert not answer.done
    assert not answer.finished
    await house.settled()
    assert CANARY not in str(house.log)
