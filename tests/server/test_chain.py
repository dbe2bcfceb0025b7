"""A: chains and triggers, over HTTP with fake CLIs."""

from __future__ import annotations

import time

import pytest

from olp.errors import ConfigError
from tests.conftest import OpenHouse
from tests.fakes.plan import Turn, dies, fails, hangs, says, turn
from tests.support import BOTH, ask

HARD = {
    "quota": "QUOTA_EXHAUSTED",
    "credit": "QUOTA_EXHAUSTED",
    "prose": "QUOTA_EXHAUSTED",
    "rate": "RATE_LIMITED",
    "overloaded": "OVERLOADED",
    "server": "OVERLOADED",
    "unavailable": "OVERLOADED",
}
EACH = pytest.mark.parametrize(
    ("provider", "stream"),
    [("claude", False), ("claude", True), ("codex", False), ("vibe", True)],
    ids=["claude-whole", "claude-stream", "codex-whole", "vibe-stream"],
)
"""Each CLI, and both modes: what a CLI means does not depend on the mode."""

CLIENT = {"context": "CONTEXT_TOO_LONG", "model": "MODEL_NOT_FOUND", "bad": "BAD_REQUEST"}


async def test_A1_a_chain_of_more_than_three_hops_is_an_error_that_names_it(
    open_: OpenHouse,
) -> None:
    hops = ["claude/a", "claude/b", "codex/c", "vibe/d"]
    with pytest.raises(ConfigError, match=r"'evening'.*4 hops, at most 3"):
        await open_(chains={"evening": hops})


@BOTH
async def test_A1_hops_are_tried_in_the_written_order(open_: OpenHouse, stream: bool) -> None:
    house = await open_(
        claude=fails("quota"),
        codex=fails("rate"),
        vibe=fails("overloaded"),
        chains={"odd": ["vibe/x", "claude/sonnet", "codex/gpt-5.5"]},
    )
    answer = await house.ask(stream, ask(model="odd"))
    assert [call.provider for call in house.plan.calls()] == ["vibe", "claude", "codex"]
    assert [record["provider"] for record in answer.detail] == ["vibe", "claude", "codex"]


@BOTH
@pytest.mark.parametrize("first", ["claude", "codex", "vibe"])
async def test_A2_the_first_hop_serves(open_: OpenHouse, first: str, stream: bool) -> None:
    house = await open_(
        claude=says("from ", "claude"),
        codex=says("from ", "codex"),
        vibe=says("from ", "vibe"),
        chains={"one": [f"{first}/m", "claude/last"]},
    )
    answer = await house.ask(stream, ask(model="one"))
    assert answer.text == f"from {first}"
    assert answer.finish == "stop"
    provider, _, hops = answer.served
    assert (provider, hops) == (first, 0)
    assert house.plan.spawns() == {first: 1}


@BOTH
@pytest.mark.parametrize("index", [1, 2])
async def test_A3_success_at_hop_i_reports_i(open_: OpenHouse, index: int, stream: bool) -> None:
    house = await open_(
        claude=fails("quota"),
        codex=says("second") if index == 1 else fails("overloaded"),
        vibe=says("third"),
    )
    answer = await house.ask(stream)
    assert answer.text == ("second", "third")[index - 1]
    provider, model, hops = answer.served
    assert (provider, hops) == (("codex", "vibe")[index - 1], index)
    assert model == ("gpt-5.5", "mistral-medium-3.5")[index - 1]
    assert len(house.plan.calls()) == index + 1


@BOTH
async def test_A3_the_index_counts_hops_that_were_skipped(open_: OpenHouse, stream: bool) -> None:
    missing = {"enabled": True, "command": ["/nowhere/claude"]}
    house = await open_(codex=says("second"), providers={"claude": missing})
    answer = await house.ask(stream)
    assert answer.served == ("codex", "gpt-5.5", 1)
    assert house.plan.spawns() == {"codex": 1}


@BOTH
async def test_A4_all_fail_first_hop_error(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("rate"), codex=fails("server"), vibe=dies())
    answer = await house.ask(stream)
    assert answer.status == 429
    assert answer.error["message"].startswith("RATE_LIMITED: API Error: Request rejected (429)")
    assert answer.codes == ["RATE_LIMITED", "OVERLOADED", "SPAWN_FAILED"]


@BOTH
async def test_A4_a_first_hop_that_never_ran_still_gives_the_error(
    open_: OpenHouse, stream: bool
) -> None:
    missing = {"enabled": True, "command": ["/nowhere/claude"]}
    house = await open_(codex=fails("quota"), vibe=fails("rate"), providers={"claude": missing})
    answer = await house.ask(stream)
    assert answer.status == 502
    assert "CLI_NOT_FOUND: claude is not installed" in answer.error["message"]


@BOTH
async def test_A5_exhaustion_names_the_chain_and_its_origin(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=dies(), codex=fails("server"), vibe=fails("quota"))
    answer = await house.ask(stream)
    assert answer.headers["X-OLP-Fallback-Exhausted"] == "claude,codex,vibe"
    assert answer.served == ("claude", "sonnet", 3)


@BOTH
async def test_A5_the_origin_is_named_even_if_it_never_ran(open_: OpenHouse, stream: bool) -> None:
    missing = {"enabled": True, "command": ["/nowhere/claude"]}
    house = await open_(codex=dies(), vibe=dies(), providers={"claude": missing})
    answer = await house.ask(stream)
    assert answer.headers["X-OLP-Fallback-Exhausted"] == "claude,codex,vibe"
    assert answer.served == ("claude", "sonnet", 3)


@BOTH
async def test_A5_a_chain_of_one_is_not_called_exhausted(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("quota"))
    answer = await house.ask(stream, ask(model="claude/sonnet"))
    assert "X-OLP-Fallback-Exhausted" not in answer.headers
    assert answer.served == ("claude", "sonnet", 1)


@BOTH
@pytest.mark.parametrize(
    ("kind", "code"), [("login", "AUTH_MISSING"), ("context", "CONTEXT_TOO_LONG")]
)
async def test_A6_a_stop_in_mid_chain_reports_that_hop(
    open_: OpenHouse, kind: str, code: str, stream: bool
) -> None:
    house = await open_(claude=fails("quota"), codex=fails(kind), vibe=says("never"))
    answer = await house.ask(stream)
    assert answer.served == ("codex", "gpt-5.5", 1)
    assert answer.error["message"].startswith(f"{code}: ")
    assert "X-OLP-Fallback-Exhausted" not in answer.headers
    assert house.plan.spawns() == {"claude": 1, "codex": 1}


@EACH
@pytest.mark.parametrize("kind", HARD)
async def test_A7_a_hard_trigger_moves_on(
    open_: OpenHouse, kind: str, provider: str, stream: bool
) -> None:
    others = {"claude": "codex", "codex": "claude", "vibe": "claude"}
    other = others[provider]
    house = await open_(
        **{provider: fails(kind), other: says("saved")},
        chains={"two": [f"{provider}/x", f"{other}/y"]},
    )
    answer = await house.ask(stream, ask(model="two"))
    assert answer.text == "saved"
    [record] = answer.detail
    assert (record["code"], record["trigger_type"]) == (HARD[kind], "hard")


@BOTH
@pytest.mark.parametrize(
    ("doing", "code"),
    [
        (dies(), "SPAWN_FAILED"),
        (dies(code=0), "SPAWN_FAILED"),
        (turn(["kill", 9]), "SPAWN_FAILED"),
        (hangs(), "SPAWN_TIMEOUT"),
    ],
    ids=["dies", "exits 0", "killed", "hangs"],
)
async def test_A7_a_process_that_fails_moves_on(
    open_: OpenHouse, doing: Turn, code: str, stream: bool
) -> None:
    hurry = {"opening_s": 0.4} if code == "SPAWN_TIMEOUT" else {}
    house = await open_(claude=doing, codex=says("saved"), providers={"claude": hurry})
    answer = await house.ask(stream)
    assert answer.text == "saved"
    assert answer.codes == [code]


@EACH
@pytest.mark.parametrize("kind", [*CLIENT, "unknown"])
async def test_A7_a_client_error_and_an_unknown_failure_stop(
    open_: OpenHouse, kind: str, provider: str, stream: bool
) -> None:
    house = await open_(
        **{provider: fails(kind)}, chains={"two": [f"{provider}/x", f"{provider}/y"]}
    )
    answer = await house.ask(stream, ask(model="two"))
    assert answer.codes == [CLIENT.get(kind, "UNKNOWN")]
    expected = "client_error" if kind in CLIENT else "non_trigger"
    assert answer.detail[0]["trigger_type"] == expected
    assert house.plan.spawns() == {provider: 1}


@EACH
@pytest.mark.parametrize("kind", ["login", "expired"])
async def test_A8_a_missing_login_stops_loudly(
    open_: OpenHouse, kind: str, provider: str, stream: bool
) -> None:
    house = await open_(
        **{provider: fails(kind)}, chains={"two": [f"{provider}/x", f"{provider}/y"]}
    )
    answer = await house.ask(stream, ask(model="two"))
    assert answer.status == 502
    assert answer.error["type"] == "provider_auth_missing"
    assert answer.served == (provider, "x", 0)
    assert answer.detail[0]["trigger_type"] == "auth_missing"
    assert house.plan.spawns() == {provider: 1}
    health = (await house.request("GET", "/health")).body
    assert health["providers"][provider]["state"] == "failing"
    assert health["providers"][provider]["last_failure"]["code"] == "AUTH_MISSING"
    assert house.logged("fallback_auth_missing_no_fallback")


@BOTH
async def test_A8_a_chain_may_move_on_from_a_missing_login(open_: OpenHouse, stream: bool) -> None:
    house = await open_(
        claude=fails("login"),
        codex=says("saved"),
        chains={"soft": {"hops": ["claude/x", "codex/y"], "on_auth_missing": "advance"}},
    )
    answer = await house.ask(stream, ask(model="soft"))
    assert answer.text == "saved"
    assert answer.codes == ["AUTH_MISSING"]
    health = (await house.request("GET", "/health")).body
    assert health["providers"]["claude"]["last_failure"]["code"] == "AUTH_MISSING"
    strict = await house.ask(stream)
    assert strict.status == 502


@BOTH
async def test_A9_one_attempt_for_each_hop(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("rate"), codex=fails("rate"), vibe=fails("rate"))
    answer = await house.ask(stream)
    assert answer.status == 429
    assert house.plan.spawns() == {"claude": 1, "codex": 1, "vibe": 1}


@BOTH
@pytest.mark.parametrize(
    ("provider", "code"), [("claude", "OVERLOADED"), ("codex", "QUOTA_EXHAUSTED")]
)
async def test_A9_a_cli_that_would_try_again_is_ended_at_once(
    open_: OpenHouse, provider: str, code: str, stream: bool
) -> None:
    other = "codex" if provider == "claude" else "claude"
    again = turn(["init"], ["start"], ["fail", "retry"], ["sleep", 30], ["say", "late"], ["end"])
    house = await open_(
        **{provider: again, other: says("saved")},
        chains={"two": [f"{provider}/x", f"{other}/y"]},
    )
    began = time.monotonic()
    answer = await house.ask(stream, ask(model="two"))
    assert answer.text == "saved"
    assert answer.codes == [code]
    assert time.monotonic() - began < 10
    [left, _] = house.plan.calls()
    assert left.line("ended") is None


@BOTH
async def test_A9_a_cli_that_would_write_its_answer_again_is_ended_at_once(
    open_: OpenHouse, stream: bool
) -> None:
    again = turn(["start"], ["fail", "retry"], ["sleep", 30], ["say", "late"], ["end"])
    house = await open_(vibe=again, claude=says("whole"), chains={"two": ["vibe/x", "claude/y"]})
    began = time.monotonic()
    answer = await house.ask(stream, ask(model="two"))
    assert (answer.text, answer.finish, answer.codes) == ("whole", "stop", ["VENDOR_CUT"])
    assert time.monotonic() - began < 10
    assert house.plan.spawns() == {"vibe": 1, "claude": 1}


async def test_A9_the_clis_own_retries_are_switched_off(open_: OpenHouse) -> None:
    house = await open_(claude=says("hi"))
    await house.chat()
    [call] = house.plan.calls()
    assert call.env["CLAUDE_CODE_MAX_RETRIES"] == "0"
    assert "--fallback-model" not in call.argv


@BOTH
async def test_A10_the_failed_process_is_gone_before_the_next_hop_starts(
    open_: OpenHouse, stream: bool
) -> None:
    told_but_there = turn(["init"], ["fail", "quota"], ["hang"])
    house = await open_(
        claude=told_but_there,
        codex=hangs(),
        vibe=says("third"),
        providers={"codex": {"opening_s": 0.4}},
    )
    answer = await house.ask(stream)
    assert answer.text == "third"
    calls = house.plan.calls()
    assert [call.provider for call in calls] == ["claude", "codex", "vibe"]
    assert [call.start["alive"] for call in calls] == [[], [], []]


@BOTH
async def test_A11_each_failure_is_of_a_known_category(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("quota"), codex=dies(), vibe=fails("login"))
    answer = await house.ask(stream)
    assert [record["trigger_type"] for record in answer.detail] == ["hard", "hard", "auth_missing"]
