"""K and L: what a failure looks like to the client, and what the log says of it."""

from __future__ import annotations

import json
import time

import pytest

from tests.conftest import OpenHouse
from tests.fakes.plan import Turn, dies, fails, hangs, says
from tests.support import BOTH, ask

STATUSES: dict[str, tuple[Turn, int, str, str]] = {
    "QUOTA_EXHAUSTED": (fails("quota"), 429, "insufficient_quota", "insufficient_quota"),
    "RATE_LIMITED": (fails("rate"), 429, "rate_limit_error", "rate_limit_exceeded"),
    "SPAWN_TIMEOUT": (hangs(), 504, "server_error", "spawn_timeout"),
    "OVERLOADED": (fails("overloaded"), 503, "server_error", "overloaded"),
    "SPAWN_FAILED": (dies(stderr="boom"), 502, "server_error", "spawn_failed"),
    "AUTH_MISSING": (fails("login"), 502, "provider_auth_missing", "provider_auth_missing"),
    "CONTEXT_TOO_LONG": (fails("context"), 400, "invalid_request_error", "context_length_exceeded"),
    "MODEL_NOT_FOUND": (fails("model"), 404, "invalid_request_error", "model_not_found"),
    "BAD_REQUEST": (fails("bad"), 400, "invalid_request_error", "bad_request"),
    "UNKNOWN": (fails("unknown"), 500, "server_error", "unknown"),
}


@BOTH
@pytest.mark.parametrize("code", STATUSES)
async def test_K_each_failure_has_its_status_and_its_shape(
    open_: OpenHouse, code: str, stream: bool
) -> None:
    doing, status, kind, error_code = STATUSES[code]
    house = await open_(claude=doing, routing={"opening_s": 0.4} if status == 504 else {})
    answer = await house.ask(stream, ask(model="claude/sonnet"))
    assert answer.status == status
    assert answer.headers["Content-Type"].startswith("application/json")
    assert (answer.error["type"], answer.error["code"]) == (kind, error_code)
    assert answer.error["param"] is None
    assert answer.codes == [code]
    if status >= 500:
        assert "What to do:" in answer.error["message"]


@BOTH
async def test_K_a_missing_cli_is_502(open_: OpenHouse, stream: bool) -> None:
    missing = {"enabled": True, "command": ["/nowhere/claude"]}
    house = await open_(providers={"claude": missing})
    answer = await house.ask(stream, ask(model="claude/sonnet"))
    assert (answer.status, answer.error["code"]) == (502, "cli_not_found")
    assert "olp doctor" in answer.error["message"]


@BOTH
async def test_K_the_retry_time_is_the_earliest_reset(open_: OpenHouse, stream: bool) -> None:
    now = int(time.time())
    house = await open_(
        claude=fails("quota", resets_at=now + 7200),
        codex=fails("quota", text="You've hit your usage limit. Try again in 30 minutes."),
        vibe=fails("quota", text="Monthly usage limit reached, back in 3 hours"),
    )
    answer = await house.ask(stream)
    assert answer.status == 429
    assert 1700 <= int(answer.headers["Retry-After"]) <= 1800


async def test_K_a_throttle_is_sooner_over_than_a_plan(open_: OpenHouse) -> None:
    house = await open_(
        claude=fails("quota", resets_at=int(time.time()) + 7200), codex=fails("rate")
    )
    answer = await house.chat(ask(model="auto"))
    assert int(answer.headers["Retry-After"]) <= 60


@BOTH
async def test_K_an_overload_is_over_in_a_minute_whatever_the_plans_say(
    open_: OpenHouse, stream: bool
) -> None:
    used_up = fails("quota", resets_at=int(time.time()) + 7200)
    house = await open_(claude=used_up, codex=fails("overloaded"), vibe=fails("quota"))
    answer = await house.ask(stream)
    assert (answer.status, answer.error["code"]) == (429, "insufficient_quota")
    assert int(answer.headers["Retry-After"]) == 60
    told = answer.error["message"]
    assert (
        "claude/sonnet: the subscription's quota is exhausted; available again in 2 h 00 min"
        in told
    )
    assert "codex/gpt-5.5: the vendor is overloaded" in told
    assert "vibe/mistral-medium-3.5: the subscription's quota is exhausted" in told
    assert told.endswith("What to do: try again in 60 s.") and "another provider" not in told
    held = await house.ask(stream)
    assert held.codes[0] == "QUOTA_HOLD"
    assert "the plan of claude is used up" in held.error["message"], "whose plan it is"


async def test_K_a_limit_without_a_reset_still_names_a_time(open_: OpenHouse) -> None:
    house = await open_(claude=fails("rate"))
    answer = await house.chat(ask(model="claude/sonnet"))
    assert int(answer.headers["Retry-After"]) > 0


async def test_K_the_message_of_a_missing_login_blames_no_client(open_: OpenHouse) -> None:
    house = await open_(claude=fails("login"))
    answer = await house.chat()
    assert answer.status == 502
    assert "key is valid" in answer.error["message"]


# --- L -----------------------------------------------------------------------------------------

FIELDS = ("timestamp", "level", "event", "request_id", "chain_id", "request_hash")


@BOTH
async def test_L1_the_log_tells_the_story_of_a_fallback(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("quota"), codex=dies(), vibe=says("ok"))
    answer = await house.ask(stream)
    await house.settled()
    lines = [line for line in house.log if line.get("request_id")]
    for line in lines:
        assert all(line.get(name) for name in FIELDS), line
        assert line["request_id"] == answer.headers["X-OLP-Request-Id"]
    assert len({line["chain_id"] for line in lines}) == 1
    assert len({line["request_hash"] for line in lines}) == 1
    hard = house.logged("fallback_hard_trigger")
    told = [(line["hop"], line["provider"], line["code"], line["next_provider"]) for line in hard]
    assert told == [
        (0, "claude", "QUOTA_EXHAUSTED", "codex"),
        (1, "codex", "SPAWN_FAILED", "vibe"),
    ]
    assert len(house.logged("fallback_hop_error")) == 2
    assert [line["provider"] for line in house.logged("answered")] == ["vibe"]


@BOTH
@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("login", "fallback_auth_missing_no_fallback"),
        ("context", "fallback_client_error_no_fallback"),
        ("unknown", "fallback_non_trigger_error"),
        ("rate", "fallback_chain_exhausted"),
    ],
)
async def test_L1_each_end_has_its_event(
    open_: OpenHouse, kind: str, event: str, stream: bool
) -> None:
    house = await open_(claude=fails(kind), codex=fails(kind), vibe=fails(kind))
    await house.ask(stream)
    await house.settled()
    assert len(house.logged(event)) == 1


async def test_L1_two_executions_have_two_chain_ids(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    await house.chat()
    await house.chat()
    await house.settled()
    lines = house.logged("answered")
    assert len({line["chain_id"] for line in lines}) == 2
    assert len({line["request_hash"] for line in lines}) == 1


@BOTH
async def test_L2_log_and_header_tell_the_same(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("overloaded"), codex=fails("quota"), vibe=fails("login"))
    answer = await house.ask(stream)
    await house.settled()
    logged = [
        (line["hop"], line["code"], line["trigger_type"])
        for line in house.logged("fallback_hop_error")
    ]
    told = [(record["hop"], record["code"], record["trigger_type"]) for record in answer.detail]
    assert logged == told
    assert len(told) == 3


CANARY = "wombat-9f3"


@BOTH
@pytest.mark.parametrize(
    "doing",
    [
        says(f"the answer {CANARY}"),
        fails("rate", text=f"too busy for {CANARY}"),
        fails("unknown", text=f"odd: {CANARY}"),
        fails("overloaded", after=[CANARY]),
        dies(after=[CANARY], stderr=f"trace {CANARY}"),
        dies(stderr=f"trace {CANARY}"),
        hangs(after=[CANARY]),
    ],
    ids=["answer", "error", "odd error", "late error", "death", "stderr", "timeout"],
)
async def test_L3_no_prompt_answer_or_secret_is_logged(
    open_: OpenHouse, doing: Turn, stream: bool
) -> None:
    house = await open_(claude=doing, providers={"claude": {"max_spawn_s": 0.6}})
    messages = [
        {"role": "system", "content": f"system {CANARY}"},
        {"role": "user", "content": f"prompt {CANARY}"},
    ]
    body = {"model": "claude/sonnet", "messages": messages, "stop": [f"{CANARY}-stop"]}
    headers = {"Authorization": f"Bearer {CANARY}", "x-api-key": CANARY}
    await house.request("POST", "/v1/chat/completions", json={**body, "stream": stream})
    await house.request("POST", "/v1/chat/completions", json=body, headers=headers)
    await house.settled()
    assert house.log
    assert CANARY not in json.dumps(house.log)


@pytest.mark.parametrize(
    "body",
    [
        f'{{"model": "{CANARY}"',
        f'{{"model": "auto", "messages": "{CANARY}"}}',
        f'{{"model": "auto", "messages": [{{"role": "{CANARY}", "content": "x"}}]}}',
        f'{{"model": "auto", "{CANARY}": 1}}',
        f'{{"model": "{CANARY}", "messages": [{{"role": "user", "content": "x"}}]}}',
        f'{{"model": "auto", "messages": [{{"role": "user", "content": "\\ud800 {CANARY}"}}]}}',
    ],
)
async def test_L3_a_bad_request_is_not_logged_either(open_: OpenHouse, body: str) -> None:
    house = await open_(claude=says("ok"))
    answer = await house.request("POST", "/v1/chat/completions", data=body)
    assert answer.status in (200, 400, 404)
    await house.settled()
    assert CANARY not in json.dumps(house.log)


async def test_L4_health_shows_the_rate_that_was_really_seen(open_: OpenHouse) -> None:
    turns = [says("ok"), dies(), says("ok"), dies(after=["half"])]
    house = await open_(claude=turns)
    report = (await house.request("GET", "/health")).body["providers"]["claude"]
    assert report["success_rate"] is None
    for number in range(4):
        await house.chat(ask(f"question {number}", model="claude/sonnet"))
    await house.settled()
    report = (await house.request("GET", "/health")).body["providers"]["claude"]
    assert report["success_rate"] == 0.5
