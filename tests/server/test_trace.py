"""What is written down of a request, as `olp why` and `olp usage` tell it afterwards."""

from __future__ import annotations

from olp.core.keys.time_range import TimeRange
from olp.runtime.usage.report import UsageReport
from tests.conftest import OpenHouse
from tests.fakes.plan import fails, says
from tests.support import ask


async def test_a_models_failures_and_answers_are_in_one_row(open_: OpenHouse) -> None:
    """The chain says `sonnet`, and the CLI calls itself by its full id."""
    house = await open_(
        chains={"one": ["claude/sonnet"]},
        claude=[
            says("a", model="claude-sonnet-5"),
            fails("overloaded"),
            says("b", model="claude-sonnet-5"),
        ],
    )
    for _ in range(3):
        await house.chat(ask(model="one"))
    await house.settled()
    record = house.service.lasting.store
    told = UsageReport(record).usage("model", TimeRange(None, None))
    assert {name: one.requests for name, one in told.items()} == {"claude/claude-sonnet-5": 3}
