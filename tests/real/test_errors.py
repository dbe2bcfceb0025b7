"""Every error of the real vendors through the real CLIs, as the client meets it."""

from __future__ import annotations

import time

import pytest

from .house import House
from .test_answers import MODELS, VENDOR
from .vendors.client import Vendors

ROWS = {
    "QUOTA": ("QUOTA_EXHAUSTED", 429),
    "THROTTLE": ("RATE_LIMITED", 429),
    "CREDIT": ("QUOTA_EXHAUSTED", 429),
    "OVERLOADED": ("OVERLOADED", 503),
    "ERROR500": ("OVERLOADED", 503),
    "AUTH": ("AUTH_MISSING", 502),
    "BADREQ": ("BAD_REQUEST", 400),
    "MODEL": ("MODEL_NOT_FOUND", 404),
    "CONTEXT": ("CONTEXT_TOO_LONG", 400),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("cli", ["claude", "codex", "vibe"])
def test_K_every_row(house: House, vendors: Vendors, cli: str, row: str) -> None:
    code, status = ROWS[row]
    if (cli, row) == ("vibe", "QUOTA"):
        code = "RATE_LIMITED"  # the vendor's 429 does not say which of the two it is
    answer = house.chat(f"hi [[{row}]]", MODELS[cli])
    assert (answer.status, answer.detail[0]["code"]) == (status, code)
    assert answer.json["error"]["message"].startswith(f"{code}: ")


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_K_a_used_up_plan_says_when_it_is_back(house: House, vendors: Vendors, cli: str) -> None:
    vendors.quota(resets_in=1800)
    answer = house.chat("hi [[QUOTA]]", MODELS[cli])
    assert 1500 < int(answer.headers["Retry-After"]) <= 3600
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("cli", ["claude", "codex", "vibe"])
def test_A8_a_refused_login_is_never_shown_as_the_clients_fault(
    house: House, vendors: Vendors, cli: str
) -> None:
    answer = house.chat("hi [[AUTH]]", MODELS[cli])
    assert answer.status == 502
    assert answer.json["error"]["type"] == "provider_auth_missing"
    assert "401" not in answer.body.decode()


def test_A8_a_missing_login_stops_the_chain(house: House, vendors: Vendors) -> None:
    vendors.scenario("anthropic", "AUTH")
    answer = house.chat("hi [[OK]]", "house")
    assert answer.headers["X-OLP-Provider-Used"] == "claude"
    assert answer.headers["X-OLP-Fallback-Hops"] == "0"
    assert vendors.requests("openai") == []


@pytest.mark.parametrize("row", ["QUOTA", "OVERLOADED", "THROTTLE"])
@pytest.mark.parametrize("stream", [False, True])
def test_A3_the_next_cli_answers(house: House, vendors: Vendors, row: str, stream: bool) -> None:
    vendors.scenario("anthropic", row)
    answer = house.chat("hi [[OK]]", "house", stream=stream)
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "codex")
    assert answer.headers["X-OLP-Fallback-Hops"] == "1"
    assert answer.detail[0]["code"] == ROWS[row][0]


def test_A3_two_fail_and_the_third_answers(house: House, vendors: Vendors) -> None:
    vendors.scenario("anthropic", "QUOTA")
    vendors.scenario("openai", "OVERLOADED")
    answer = house.chat("hi [[OK]]", "house", stream=True)
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "vibe")
    assert [record["code"] for record in answer.detail] == ["QUOTA_EXHAUSTED", "OVERLOADED"]


def test_A4_A5_all_fail(house: House, vendors: Vendors) -> None:
    for vendor in VENDOR.values():
        vendors.scenario(vendor, "OVERLOADED")
    answer = house.chat("hi [[OK]]", "house")
    assert answer.status == 503
    assert answer.headers["X-OLP-Fallback-Exhausted"] == "claude,codex,vibe"
    assert answer.headers["X-OLP-Fallback-Hops"] == "3"
    assert answer.headers["X-OLP-Provider-Used"] == "claude"


def test_falling_back_costs_little_more_than_the_second_cli_alone(
    house: House, vendors: Vendors
) -> None:
    alone = min(_seconds(house, "codex/gpt-5.5") for _ in range(3))
    vendors.scenario("anthropic", "QUOTA")
    both = min(_seconds(house, "house") for _ in range(3))
    assert both - alone < 1.5, f"{both:.2f} s after {alone:.2f} s alone"


def _seconds(house: House, model: str) -> float:
    began = time.monotonic()
    assert house.chat("hi [[OK]]", model).headers["X-OLP-Provider-Used"] == "codex"
    return time.monotonic() - began


@pytest.mark.parametrize("row", ["MIDERR:3", "DROP:3"])
@pytest.mark.parametrize("cli", ["claude", "codex", "vibe"])
def test_B3_C7_a_broken_answer_never_looks_whole(
    house: House, vendors: Vendors, cli: str, row: str
) -> None:
    answer = house.chat(f"[[{row}]]", MODELS[cli], stream=True)
    whole = answer.status == 200 and answer.finish == "stop"
    assert not whole, answer.body
    assert len(vendors.requests(VENDOR[cli])) == 1
