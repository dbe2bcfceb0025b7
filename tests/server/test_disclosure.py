"""I and J: who really answered, and what happened before, over HTTP with fake CLIs."""

from __future__ import annotations

import json

import pytest

from tests.conftest import OpenHouse
from tests.fakes.plan import fails, says, turn
from tests.support import BOTH, CHAT, Answer, ask

ALWAYS = (
    *("X-OLP-Provider-Used", "X-OLP-Model-Used", "X-OLP-Fallback-Hops"),
    *("X-OLP-Cache", "X-OLP-Latency-Ms", "X-OLP-Request-Id"),
)
EXACTLY = {"hop", "provider", "model", "code", "error_message", "trigger_type"}


def check_always(answer: Answer) -> None:
    """I1 for any response."""
    for name in ALWAYS:
        assert answer.headers[name], name
    assert int(answer.headers["X-OLP-Latency-Ms"]) >= 0
    assert int(answer.headers["X-OLP-Fallback-Hops"]) >= 0
    assert answer.headers["X-OLP-Cache"] in ("hit", "miss", "bypass")


@BOTH
async def test_I1_an_answer_has_every_header(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"))
    answers = [await house.ask(stream) for _ in range(2)]
    for answer in answers:
        check_always(answer)
        assert answer.served == ("claude", "claude-sonnet-4-5-20250929", 0)
    assert len({answer.headers["X-OLP-Request-Id"] for answer in answers}) == 2


@BOTH
@pytest.mark.parametrize("kind", ["quota", "login", "context", "unknown"])
async def test_I1_a_refusal_has_every_header(open_: OpenHouse, kind: str, stream: bool) -> None:
    house = await open_(claude=fails(kind), chains={"one": ["claude/sonnet"]})
    check_always(await house.ask(stream, ask(model="one")))


async def test_I1_the_latency_of_a_stream_is_that_of_its_first_byte(open_: OpenHouse) -> None:
    slow = turn(
        *(["init"], ["start"], ["sleep", 0.3], ["say", "a"], ["sleep", 0.9], ["say", "b"], ["end"])
    )
    house = await open_(claude=slow)
    answer = await house.stream()
    whole = answer.frames[-1][0] * 1000
    assert 300 <= int(answer.headers["X-OLP-Latency-Ms"]) < whole - 850


@pytest.mark.parametrize(
    ("method", "path", "body", "model"),
    [
        ("POST", CHAT, "{", "unknown"),
        ("POST", CHAT, "null", "unknown"),
        ("POST", CHAT, '{"model": "auto"}', "auto"),
        ("POST", CHAT, json.dumps(ask(n=2)), "auto"),
        ("POST", CHAT, json.dumps(ask(model="no-such")), "no-such"),
        ("POST", CHAT, json.dumps(ask(model="x\r\nEvil: 1\u00e9\ud83d\ude00")), "x?Evil: 1?"),
        ("POST", CHAT, json.dumps(ask(model="m" * 200)), "m" * 128),
        ("GET", CHAT, None, "unknown"),
        ("GET", "/nowhere", None, "unknown"),
        ("GET", "/v1/models", None, "unknown"),
        ("GET", "/v1/models/no-such", None, "no-such"),
        ("GET", "/healthz", None, "unknown"),
        ("OPTIONS", CHAT, None, "unknown"),
    ],
)
async def test_I1_an_early_error_has_every_header(
    open_: OpenHouse, method: str, path: str, body: str | None, model: str
) -> None:
    house = await open_()
    answer = await house.request(method, path, data=body)
    check_always(answer)
    assert answer.served == ("none", model, 0)
    assert answer.headers["X-OLP-Cache"] == "bypass"
    assert house.plan.calls() == []


@BOTH
async def test_I2_the_detail_is_there_whenever_a_hop_failed(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("rate"), codex=says("saved"))
    answer = await house.ask(stream)
    assert answer.text == "saved"
    [record] = answer.detail
    assert set(record) == EXACTLY
    assert (record["hop"], record["provider"], record["model"]) == (0, "claude", "sonnet")
    assert "Request rejected (429)" in record["error_message"]


@BOTH
async def test_I2_a_clean_first_hop_has_no_detail(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"))
    assert "X-OLP-Fallback-Detail" not in (await house.ask(stream)).headers


@BOTH
@pytest.mark.parametrize(
    ("kind", "code", "trigger"),
    [
        ("quota", "QUOTA_EXHAUSTED", "hard"),
        ("login", "AUTH_MISSING", "auth_missing"),
        ("bad", "BAD_REQUEST", "client_error"),
        ("unknown", "UNKNOWN", "non_trigger"),
    ],
)
async def test_I3_code_and_trigger_type(
    open_: OpenHouse, kind: str, code: str, trigger: str, stream: bool
) -> None:
    house = await open_(claude=fails(kind), codex=says("saved"))
    [record] = (await house.ask(stream)).detail
    assert (record["code"], record["trigger_type"]) == (code, trigger)


@BOTH
async def test_I4_a_long_message_is_cut_to_200_characters(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("rate", text="too busy " * 80), codex=says("saved"))
    [record] = (await house.ask(stream)).detail
    assert len(record["error_message"]) == 200
    assert record["error_message"].endswith("\u2026")


@BOTH
async def test_I4_secrets_and_paths_are_scrubbed_everywhere(open_: OpenHouse, stream: bool) -> None:
    secrets = ("sk-ant-oat01-abcdefgh", "eyJhbGciOiJIUzI1NiJ9.abc.def", "/home/anna/.claude/x.json")
    text = f"busy: key {secrets[0]}, Bearer {secrets[1]} in {secrets[2]}"
    house = await open_(claude=fails("rate", text=text), codex=fails("login", text=text))
    answer = await house.ask(stream)
    told = answer.raw.decode() + json.dumps(dict(answer.headers))
    await house.settled()
    logged = json.dumps(house.log)
    for secret in secrets:
        assert secret not in told
        assert secret not in logged


@BOTH
async def test_I5_the_detail_is_ascii_and_bounded(open_: OpenHouse, stream: bool) -> None:
    wide = "\U0001f600\u00e9\x07\x1b[0m " * 60
    house = await open_(
        claude=fails("rate", text=wide), codex=fails("rate", text="x" + wide), vibe=says("saved")
    )
    answer = await house.ask(stream)
    value = answer.headers["X-OLP-Fallback-Detail"]
    assert len(value) <= 4096
    assert value.isascii()
    assert value.isprintable()
    assert "\\ud83d\\ude00" in value


@BOTH
@pytest.mark.parametrize(("policy", "seen"), [("owner_only", True), ("all", True), ("none", False)])
async def test_I6_who_sees_the_detail(
    open_: OpenHouse, policy: str, seen: bool, stream: bool
) -> None:
    house = await open_(
        claude=fails("rate"), codex=says("saved"), routing={"fallback_detail": policy}
    )
    answer = await house.ask(stream)
    assert ("X-OLP-Fallback-Detail" in answer.headers) == seen
    assert answer.served[2] == 1


@BOTH
async def test_I7_what_the_client_sent_comes_back_tame(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"))
    body = {**ask(), "evil\r\nX-Injected: 1": 1, "\u00e9\U0001f600": 2, "y" * 3000: 3}
    answer = await house.ask(stream, body)
    assert answer.text == "ok"
    assert "X-Injected" not in answer.headers
    listed = answer.headers["X-OLP-Ignored-Params"]
    assert listed.isascii()
    assert listed.isprintable()
    assert len(listed) <= 1024


@BOTH
async def test_I8_parameters_without_effect_are_listed(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"))
    body = ask(temperature=0.1, top_p=0.9, seed=7, user="anna", logit_bias={}, stop=["x"])
    answer = await house.ask(stream, body)
    assert answer.text == "ok"
    listed = answer.headers["X-OLP-Ignored-Params"].split(",")
    assert {"temperature", "top_p", "seed", "user"} <= set(listed)
    assert not {"model", "messages", "stop", "stream"} & set(listed)


@BOTH
async def test_I8_a_refusal_lists_them_too(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("rate"), chains={"one": ["claude/sonnet"]})
    answer = await house.ask(stream, ask(model="one", temperature=0.1))
    assert answer.headers["X-OLP-Ignored-Params"] == "temperature"


@BOTH
async def test_I9_an_exhausted_chain_asks_for_no_retry(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("rate"), codex=fails("server"), vibe=fails("rate"))
    answer = await house.ask(stream)
    assert answer.headers["x-should-retry"] == "false"


# --- J -----------------------------------------------------------------------------------------


async def test_J1_a_model_id_is_served_by_that_model_alone(open_: OpenHouse) -> None:
    house = await open_(claude=fails("rate"), codex=says("never"), vibe=says("never"))
    for model in ("sonnet", "claude/sonnet", "claude/opus"):
        assert (await house.chat(ask(model=model))).status == 429
    assert set(house.plan.spawns()) == {"claude"}
    assert [call.argv[call.argv.index("--model") + 1] for call in house.plan.calls()] == [
        "sonnet",
        "sonnet",
        "opus",
    ]


async def test_J1_auto_is_the_one_name_over_other_models(open_: OpenHouse) -> None:
    house = await open_(claude=fails("rate"), codex=fails("rate"), vibe=says("ok"))
    assert (await house.chat(ask(model="auto"))).served[0] == "vibe"


async def test_J1_an_unknown_model_is_404_with_the_nearest_name(open_: OpenHouse) -> None:
    house = await open_()
    answer = await house.chat(ask(model="claude/"))
    assert answer.status == 404
    answer = await house.chat(ask(model="sonet"))
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    assert "sonnet" in answer.error["message"]
    assert house.plan.calls() == []


@BOTH
async def test_J2_header_body_and_log_name_who_answered(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("rate"), codex=says("saved"))
    answer = await house.ask(stream)
    assert answer.served == ("codex", "gpt-5.5", 1)
    chunks = answer.data if stream else [answer.body]  # type: ignore[attr-defined]
    assert {chunk["model"] for chunk in chunks} == {"gpt-5.5"}
    await house.settled()
    [line] = house.logged("answered")
    assert (line["provider"], line["model"], line["hop"]) == ("codex", "gpt-5.5", 1)
    assert line["request_id"] == answer.headers["X-OLP-Request-Id"]


@BOTH
async def test_J3_a_request_may_forbid_substitution(open_: OpenHouse, stream: bool) -> None:
    house = await open_(
        claude=fails("rate"),
        codex=says("never"),
        chains={"mix": ["claude/sonnet", "codex/gpt-5.5"]},
    )
    body = {**ask(model="mix"), "stream": stream}
    headers = {"X-OLP-Substitution": "forbid"}
    answer = await house.request("POST", CHAT, json=body, headers=headers)
    assert answer.status == 429
    assert answer.codes == ["RATE_LIMITED"]
    assert house.plan.spawns() == {"claude": 1}


async def test_J3_the_same_model_elsewhere_is_no_substitution(open_: OpenHouse) -> None:
    house = await open_(
        claude=fails("rate"),
        vibe=says("same model"),
        chains={"mix": ["claude/m", "codex/other", "vibe/m"]},
    )
    answer = await house.chat(ask(model="mix"), {"X-OLP-Substitution": "forbid"})
    assert answer.text == "same model"
    assert house.plan.spawns() == {"claude": 1, "vibe": 1}


async def test_J3_a_wish_that_nobody_knows_is_refused(open_: OpenHouse) -> None:
    house = await open_()
    answer = await house.chat(None, {"X-OLP-Substitution": "maybe"})
    assert (answer.status, answer.error["param"]) == (400, "X-OLP-Substitution")


@BOTH
async def test_J4_another_model_than_asked_is_reported_with_a_warning(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=says("ok", model="claude-haiku-4-5-20251001"))
    answer = await house.ask(stream, ask(model="claude/opus"))
    assert answer.served == ("claude", "claude-haiku-4-5-20251001", 0)
    chunks = answer.data if stream else [answer.body]  # type: ignore[attr-defined]
    assert {chunk["model"] for chunk in chunks} == {"claude-haiku-4-5-20251001"}
    await house.settled()
    [line] = house.logged("model_differs")
    assert line["level"] == "warn"
    assert (line["asked"], line["answered"]) == ("opus", "claude-haiku-4-5-20251001")


async def test_J5_the_models_list_shows_every_chain(open_: OpenHouse) -> None:
    house = await open_(chains={"evening": ["claude/sonnet", "codex/gpt-5.5"]})
    data = {entry["id"]: entry for entry in (await house.request("GET", "/v1/models")).body["data"]}
    assert data["evening"]["olp_hops"] == ["claude/sonnet", "codex/gpt-5.5"]
    assert data["auto"]["olp_hops"][0].startswith("claude/")
    one = (await house.request("GET", "/v1/models/evening")).body
    assert one == data["evening"]
