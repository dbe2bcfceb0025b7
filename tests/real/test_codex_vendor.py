"""What the real Codex makes of a vendor that fails: one request each, told as what it was."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from olp.providers.codex.failures import CODES, REFUSALS

from .conftest import Clis
from .house import Answer, House, configuration, serving
from .test_answers import WORDS
from .vendors.client import Vendors

MODEL = "codex/gpt-5.5"
TRANSPORTS = ("waiting", "oneshot")
CLOSED = "http://127.0.0.1:9/v1"
"""Nobody listens there."""

POLICY = (
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try "
    "again with a different prompt."
)

Houses = Mapping[tuple[str, str], House]


@pytest.fixture(scope="module")
def houses(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Houses]:
    """A house for each transport and each kind of provider of models, with claude behind codex."""
    with ExitStack() as stack:
        yield {
            (transport, kind): stack.enter_context(
                _serving(clis, vendor_process, transport, kind, tmp_path_factory.mktemp("house"))
            )
            for transport in TRANSPORTS
            for kind in ("own", "openai", "closed")
        }


@contextmanager
def _serving(
    clis: Clis, vendors: Vendors, transport: str, kind: str, folder: Path
) -> Iterator[House]:
    found = {name: clis.need(name) for name in ("claude", "codex")}
    config = configuration(found, vendors, breaker={"threshold": 1000})
    config["chains"] = {"both": [MODEL, "claude/sonnet"], "after": ["claude/sonnet"]}
    codex = config["providers"]["codex"]
    codex["transport"] = {"waiting": "auto", "oneshot": "oneshot"}[transport]
    if kind == "openai":
        codex["args"] = ["-c", f'openai_base_url="{vendors.v1_url}"']
        login = folder / "home/.codex/auth.json"
        login.parent.mkdir(parents=True)
        login.write_text('{"OPENAI_API_KEY": "sk-dummy", "tokens": null}', encoding="utf-8")
    if kind == "closed":
        codex["args"] = [arg.replace(vendors.v1_url, CLOSED) for arg in codex["args"]]
    with serving(config, folder) as house:
        yield house


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _ready(houses: Houses, transport: str, kind: str = "own") -> House:
    house = houses[transport, kind]
    house.command("/olp/quota/clear")
    house.wait_until_ready(["codex"] if transport == "waiting" else [])
    return house


def asked(vendors: Vendors, vendor: str = "openai") -> int:
    """How many requests there were, of whatever kind. A retry would have been there by now."""
    time.sleep(0.2)
    return len(vendors.requests(vendor))


def seconds(house: House, model: str) -> tuple[float, Answer]:
    """How long an answer takes while a claude waits: starting one has nothing to do with it."""
    house.wait_until_ready(["claude"])
    began = time.monotonic()
    answer = house.chat("hi", model)
    return time.monotonic() - began, answer


ONE_REQUEST = [
    ("ERROR500", None, "OVERLOADED"),
    ("OVERLOADED", None, "OVERLOADED"),
    ("EMPTY", "504", "OVERLOADED"),
    ("EMPTY", "502", "OVERLOADED"),
    ("RESET", None, "SPAWN_FAILED"),
    ("THROTTLE", None, "RATE_LIMITED"),
    ("QUOTA", None, "QUOTA_EXHAUSTED"),
    ("BLOCKED", "403", "SPAWN_FAILED"),
    ("FAILED", {"code": "server_error", "message": "boom"}, "VENDOR_CUT"),
    ("FAILED", {"code": "server_is_overloaded", "message": "x"}, "OVERLOADED"),
    ("FAILED", {"code": "slow_down", "message": "x"}, "RATE_LIMITED"),
    ("FAILED", {"code": "flex_unavailable", "message": "x"}, "OVERLOADED"),
    ("FAILED", {"code": "usage_not_included", "message": "x"}, "QUOTA_EXHAUSTED"),
    ("INCOMPLETE", "something_new", "VENDOR_CUT"),
    ("NODONE", "6", "VENDOR_CUT"),
    ("DROP", None, "VENDOR_CUT"),
]


OF_OPENAIS_OWN = ("ERROR500", "EMPTY", "RESET", "FAILED", "DROP")


@pytest.mark.parametrize(
    ("kind", "name", "arg", "code"),
    [
        (kind, *row)
        for kind in ("own", "openai")
        for row in ONE_REQUEST
        if kind == "own" or row[0] in OF_OPENAIS_OWN
    ],
)
def test_A9_a_hop_that_fails_has_asked_its_vendor_once(
    houses: Houses,
    transport: str,
    vendors: Vendors,
    kind: str,
    name: str,
    arg: Any,
    code: str,
) -> None:
    """On a provider of the owner's, and on OpenAI's own, whose retries cannot be set."""
    house = _ready(houses, transport, kind)
    vendors.scenario("openai", name, json.dumps(arg) if isinstance(arg, dict) else arg)
    answer = house.chat("hi", MODEL)
    assert answer.json["error"]["message"].startswith(f"{code}: ")
    assert [record["code"] for record in answer.detail] == [code]
    assert asked(vendors) == 1
    assert all(one.method == "POST" for one in vendors.requests("openai")), "no WebSocket"


@pytest.mark.parametrize(
    ("kind", "name", "arg", "code"),
    [
        ("closed", None, None, "SPAWN_FAILED"),
        ("own", "BLOCKED", None, "SPAWN_FAILED"),
        ("own", "EMPTY", "504", "OVERLOADED"),
        ("own", "SAY", " ", "EMPTY_ANSWER"),
    ],
)
def test_A3_the_next_hop_answers_within_a_second_of_what_it_takes_alone(
    houses: Houses,
    transport: str,
    vendors: Vendors,
    kind: str,
    name: str | None,
    arg: Any,
    code: str,
) -> None:
    """Or within twice what codex takes for an answer, on a machine that is busy."""
    house = _ready(houses, transport, kind)
    alone = min(seconds(house, "after")[0] for _ in range(3))
    good = min(seconds(_ready(houses, transport), MODEL)[0] for _ in range(2))
    vendors.scenario("openai", name, arg)
    for _ in range(8):
        both, answer = seconds(house, "both")
        assert answer.text == WORDS and answer.headers["X-OLP-Provider-Used"] == "claude"
        assert [record["code"] for record in answer.detail] == [code]
        if both < alone + max(1.0, 2 * good):
            return
    raise AssertionError(f"{both:.2f} s after {alone:.2f} s alone")


def test_A9_a_closed_port_is_a_failure_at_its_first_announcement(
    houses: Houses, transport: str, vendors: Vendors
) -> None:
    answer = _ready(houses, transport, "closed").chat("hi", MODEL)
    assert answer.status == 502
    assert answer.detail[0]["code"] == "SPAWN_FAILED"
    assert "error sending request" in answer.detail[0]["error_message"]
    assert asked(vendors) == 0


def test_A7_a_page_before_the_vendor_is_no_login(
    houses: Houses, transport: str, vendors: Vendors
) -> None:
    house = _ready(houses, transport)
    vendors.scenario("openai", "BLOCKED")
    answer = house.chat("hi", MODEL)
    assert (answer.status, answer.detail[0]["code"]) == (502, "SPAWN_FAILED")
    assert "Just a moment" in answer.json["error"]["message"]
    country = "Country, region, or territory not supported"
    told = {"code": "unsupported_country_region_territory", "message": country}
    vendors.scenario("openai", "FAIL", json.dumps({"status": 403, "body": {"error": told}}))
    answer = house.chat("hi", MODEL)
    assert answer.detail[0]["code"] == "SPAWN_FAILED" and country in answer.body.decode()


REFUSED = [
    ("invalid_prompt", POLICY),
    ("invalid_prompt", None),
    ("cyber_policy", "This request has been flagged for possible cybersecurity risk."),
    ("cyber_policy", None),
    ("bio_policy", None),
    ("misalignment_policy_violation", None),
    ("content_policy_violation", None),
    ("inference_hook_denied", None),
]


@pytest.mark.parametrize(("code", "message"), REFUSED)
def test_S13_a_vendors_refusal_is_an_answer(
    houses: Houses, transport: str, vendors: Vendors, code: str, message: str | None
) -> None:
    """Nobody else is asked. Where the vendor says nothing the CLI has a sentence for it."""
    house = _ready(houses, transport)
    vendors.scenario("openai", "FAILED", json.dumps({"code": code, "message": message}))
    answer = house.chat("hi", "both")
    assert (answer.status, answer.finish) == (200, "content_filter")
    assert answer.text == (message or answer.text) and answer.text
    assert (asked(vendors), asked(vendors, "anthropic")) == (1, 0)


@pytest.mark.parametrize("status", [400, 403])
def test_S13_so_is_one_before_the_answer(
    houses: Houses, transport: str, vendors: Vendors, status: int
) -> None:
    code = "cyber_policy" if status == 400 else "misalignment_policy_violation"
    body = {"error": {"type": "invalid_request", "code": code, "message": "This was flagged."}}
    house = _ready(houses, transport)
    vendors.scenario("openai", "FAIL", json.dumps({"status": status, "body": body}))
    answer = house.chat("hi", "both", stream=True)
    assert (answer.text, answer.finish) == ("This was flagged.", "content_filter")
    assert asked(vendors) == 1


def test_S13_a_models_refusal_shows_on_a_waiting_process_alone(
    houses: Houses, transport: str, vendors: Vendors
) -> None:
    """`codex exec` says nothing of it: an empty answer, which is another hop's to give."""
    house = _ready(houses, transport)
    vendors.scenario("openai", "REFUSE")
    answer = house.chat("hi", "both")
    if transport == "waiting":
        assert (answer.finish, asked(vendors, "anthropic")) == ("content_filter", 0)
        assert answer.json["choices"][0]["message"]["refusal"]
    else:
        assert (answer.text, answer.detail[0]["code"]) == (WORDS, "EMPTY_ANSWER")
    assert asked(vendors) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("words", [10, 20, 40])
def test_B3_a_cut_that_the_cli_reports_never_looks_whole(
    houses: Houses, transport: str, vendors: Vendors, words: int, stream: bool
) -> None:
    house = _ready(houses, transport)
    vendors.scenario("openai", "DROP", f"{words}:60:cut")
    answer = house.chat("hi", "both", stream=stream)
    assert asked(vendors) == 1
    if stream and transport == "waiting":
        assert answer.text.startswith("cut0 ") and answer.finish is None
        assert "VENDOR_CUT" in json.dumps(answer.events[-1])
        assert b"[DONE]" not in answer.body and asked(vendors, "anthropic") == 0
    else:
        assert (answer.text, answer.finish) == (WORDS, "stop")
        assert [record["code"] for record in answer.detail] == ["VENDOR_CUT"]


@pytest.mark.parametrize("order", ["INCOMPLETE:interrupted"])
def test_A9_an_answer_that_the_vendor_would_have_asked_for_again_is_ended(
    houses: Houses, transport: str, vendors: Vendors, order: str
) -> None:
    """The second request is on its way before anything shows that there is one."""
    house = _ready(houses, transport)
    name, _, arg = order.partition(":")
    vendors.scenario("openai", name, arg)
    answer = house.chat("hi", "both")
    assert answer.text == WORDS and answer.headers["X-OLP-Provider-Used"] == "claude"
    assert asked(vendors) <= 3


def test_A7_every_code_of_this_version_has_a_row(clis: Clis, tmp_path: Path) -> None:
    """`codex app-server generate-json-schema` lists them."""
    codex = clis.need("codex")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)}
    command = [str(codex.path), "app-server", "generate-json-schema", "--out", str(tmp_path)]
    subprocess.run(command, env=env, check=True, timeout=60, capture_output=True)
    file = tmp_path / "v2/ErrorNotification.json"
    listed = json.loads(file.read_text("utf-8"))["definitions"]["CodexErrorInfo"]["anyOf"]
    names = {name for one in listed for name in (*one.get("enum", ()), *one.get("required", ()))}
    assert {"cyberPolicy", "httpConnectionFailed", "other"} <= names
    assert names <= CODES.keys() | REFUSALS, f"codex {codex.version} has new codes"
