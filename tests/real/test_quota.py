"""Plans, holds and models as the real CLIs tell of them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .conftest import Clis
from .house import House, configuration, serving
from .vendors.client import Vendors

PATIENCE_S = 30.0
COLD = {"workers": {"max_processes": 0}}
"""No CLI is started ahead of a request, so that a process means an attempt."""

MAX_BYTES = 6000
"""Bytes of a request to the vendor without tools; codex's own tools alone are many times that."""


@pytest.fixture
def own_house(clis: Clis, vendors: Vendors, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts a house of its own: `with own_house(claude={…}) as house`."""

    @contextmanager
    def start(names: tuple[str, ...] = ("claude", "codex"), **options: Any) -> Iterator[House]:
        found = {name: clis.need(name) for name in names}
        config = configuration(found, vendors, **COLD)
        for name, more in options.items():
            config["providers"][name] |= more
        with serving(config, tmp_path) as house:
            yield house

    yield start


def get(house: House, path: str) -> Any:
    with urllib.request.urlopen(house.url + path, timeout=30) as response:
        return json.load(response)


def quota_of(house: House, provider: str = "claude") -> dict[str, Any]:
    return dict(get(house, "/health")["providers"][provider]["quota"])


def until(true: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.1)


@pytest.mark.parametrize("stream", [False, True])
def test_E1_E2_a_plan_that_is_nearly_used_up_is_left_alone_until_its_window_resets(
    own_house: Callable[..., Any], vendors: Vendors, stream: bool
) -> None:
    with own_house(claude={"five_hour_window_percent_threshold": 90}) as house:
        vendors.quota(five_hour=0.91, resets_in=8)
        first = house.chat("hi [[OK]]", "short", stream=stream)
        assert (first.status, first.headers["X-OLP-Provider-Used"]) == (200, "claude")
        [window] = [w for w in quota_of(house)["windows"] if w["name"] == "five_hour"]
        assert (window["used_percent"], window["source"], window["fresh"]) == (91.0, "answer", True)
        asked = len(vendors.requests("anthropic"))

        second = house.chat("hi again [[OK]]", "short", stream=stream)
        assert time.time() < window["resets_at"], "too slow a machine to tell"
        assert (second.status, second.headers["X-OLP-Provider-Used"]) == (200, "codex")
        assert second.headers["X-OLP-Fallback-Hops"] == "1"
        [record] = second.detail
        assert (record["code"], record["trigger_type"]) == ("SOFT_TRIGGER", "soft")
        assert "91 %" in record["error_message"] and "90 %" in record["error_message"]
        assert len(vendors.requests("anthropic")) == asked, "claude was not started"

        vendors.quota(five_hour=0.02, resets_in=3600)
        time.sleep(max(0.0, window["resets_at"] + 0.2 - time.time()))
        third = house.chat("and again [[OK]]", "short", stream=stream)
        assert (third.status, third.headers["X-OLP-Provider-Used"]) == (200, "claude")
        assert third.detail == []
        assert len(vendors.requests("anthropic")) > asked


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_E5_a_used_up_plan_is_held_until_somebody_clears_it(
    house: House, vendors: Vendors, cli: str
) -> None:
    vendor, model = {
        "claude": ("anthropic", "claude/sonnet"),
        "codex": ("openai", "codex/gpt-5.5"),
    }[cli]
    vendors.quota(resets_in=1800)
    assert house.chat("hi [[QUOTA]]", model).detail[0]["code"] == "QUOTA_EXHAUSTED"
    asked = len(vendors.requests(vendor))

    held = house.chat("hi [[OK]]", model)
    assert held.status == 429
    assert (held.detail[0]["code"], held.detail[0]["trigger_type"]) == ("QUOTA_HOLD", "soft")
    assert len(vendors.requests(vendor)) == asked
    [hold] = quota_of(house, cli)["holds"]
    assert hold["model"] is None and 850 < hold["next_probe_s"] <= 900, "at most 15 minutes"

    assert house.command(f"/olp/quota/clear?provider={cli}") == {"cleared": 1}
    back = house.chat("hi [[OK]]", model)
    assert (back.status, back.headers["X-OLP-Provider-Used"]) == (200, cli)
    assert quota_of(house, cli)["holds"] == []


def test_E5_a_chain_goes_on_behind_a_held_plan(house: House, vendors: Vendors) -> None:
    vendors.quota(resets_in=1800)
    vendors.scenario("anthropic", "QUOTA", times=1)
    codes = []
    for _ in range(2):
        answer = house.chat("hi [[OK]]", "short")
        assert answer.headers["X-OLP-Provider-Used"] == "codex"
        codes += [record["code"] for record in answer.detail]
    assert codes == ["QUOTA_EXHAUSTED", "QUOTA_HOLD"]
    house.command("/olp/quota/clear")
    assert house.chat("hi [[OK]]", "short").headers["X-OLP-Provider-Used"] == "claude"


def test_E2_a_refresh_costs_no_request(house: House, vendors: Vendors) -> None:
    told = house.command("/olp/quota/refresh")
    assert set(told) == {"claude", "codex", "vibe"}
    models = [r for r in vendors.requests() if r.path.startswith(("/v1/messages", "/v1/responses"))]
    assert models == []


def test_J5_the_clis_own_models_are_listed_once_they_were_asked(
    own_house: Callable[..., Any],
) -> None:
    with own_house() as house:
        configured = {"claude": "sonnet", "codex": "gpt-5.5"}

        def models() -> dict[str, set[str]]:
            ids = [entry["id"] for entry in get(house, "/v1/models")["data"]]
            return {
                name: {i.partition("/")[2] for i in ids if i.startswith(f"{name}/")}
                for name in configured
            }

        until(lambda: all(len(ids) > 2 for ids in models().values()), "the models are known")
        told = models()
        assert {"sonnet", "haiku"} <= told["claude"], told
        assert len([name for name in told["codex"] if name.startswith("gpt-5")]) >= 2, told
        assert not any(" " in name for ids in told.values() for name in ids)


def test_M1_codex_models_that_insist_on_tools_get_none_once_surveyed(
    own_house: Callable[..., Any], vendors: Vendors
) -> None:
    """Some models' entries in codex's own list switch a harness on, whatever the flags say."""
    with own_house(("codex",)) as house:
        kept = house.state / "kept"
        until(lambda: list(kept.glob("*/models.json")), "the list of models is kept")
        [file] = kept.glob("*/models.json")
        names = [m["slug"] for m in json.loads(file.read_text("utf-8"))["models"]]

        def asked_by_name() -> list[str]:
            shown = [entry["id"] for entry in get(house, "/v1/models")["data"]]
            return [name for name in names if f"codex/{name}" in shown]

        until(lambda: len(asked_by_name()) >= 2, "the models are known")
        for name in asked_by_name():
            answer = house.chat("hi [[OK]]", f"codex/{name}")
            assert answer.status == 200, (name, answer.body)
            sent = vendors.requests("openai")[-1]
            body = json.loads(sent.body)
            assert body["model"] == name
            tools = _tools(body)
            assert not tools, (name, tools)
            assert sent.body_bytes <= MAX_BYTES, (name, sent.body_bytes)


def _tools(body: dict[str, Any]) -> set[str]:
    """The tools offered: at the top, in input items, and in the namespaces of either."""
    offered = list(body.get("tools") or ())
    offered += [tool for item in body["input"] for tool in item.get("tools") or ()]
    leaves = [leaf for tool in offered for leaf in tool.get("tools") or [tool]]
    return {str(tool.get("name") or tool["type"]) for tool in leaves}
