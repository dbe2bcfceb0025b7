"""/metrics and GET /olp/usage: what they tell, and to whom."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from olp.errors import StartError
from olp.model import Hop
from olp.runtime.usage.counters import Counters, Histogram
from olp.runtime.usage.entries import RequestRow
from olp.runtime.usage.report import UsageReport
from olp.runtime.usage.store import UsageStore
from tests.conftest import OpenHouse
from tests.fakes.plan import dies, fails, hangs, says, turn
from tests.runtime.usage_entries import row
from tests.server.people import key_of
from tests.support import GoOn, House, ask, soon, until

Labels = Mapping[str, str]
COLD: dict[str, Any] = {"workers": {"max_processes": 0}}


class Metrics:
    """One scrape, parsed by Prometheus' own parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        families = list(text_string_to_metric_families(text))
        self.names = {family.name for family in families}
        self.samples = [sample for family in families for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that have these labels."""
        found = [s.value for s in self.samples if s.name == name and _has(s.labels, labels)]
        assert found, f"no {name} with {labels}"
        return float(sum(found))

    def labels(self, label: str) -> set[str]:
        """Every value of one label."""
        return {s.labels[label] for s in self.samples if label in s.labels}


def _has(labels: Labels, wanted: Labels) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


async def scrape(house: House, url: str = "", headers: Labels | None = None) -> Metrics:
    """What stands at /metrics."""
    async with house.http.get(url or f"{house.url}/metrics", headers=headers) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/plain"
        return Metrics(await response.text())


async def test_L2_every_hop_is_counted_as_it_is_logged(open_: OpenHouse) -> None:
    house = await open_(claude=fails("quota"), codex=[dies(), says("ok")], vibe=says("ok"), **COLD)
    for number in range(3):
        assert (await house.chat(ask(f"q{number}"))).text == "ok"
    await house.settled()
    metrics = await scrape(house)
    logged = house.logged("fallback_hop_error")
    assert len(logged) == 4
    for line in logged:
        by = {name: line[name] for name in ("provider", "model", "code", "trigger_type")}
        same = [other for other in logged if other.items() >= by.items()]
        assert metrics("olp_hops_total", **by) == len(same)
    assert metrics("olp_hops_total", code="QUOTA_HOLD", trigger_type="soft") == 2
    assert metrics("olp_hops_total", code="OK", provider="codex") == 2
    assert metrics("olp_hops_total", code="OK", provider="vibe") == 1
    assert metrics("olp_hops_total") == len(logged) + 3
    assert metrics("olp_requests_total", outcome="answered") == 3


async def test_L6_metrics_tell_requests_tokens_and_times(open_: OpenHouse) -> None:
    house = await open_(claude=[says("ok"), fails("context")], **COLD)
    answer = await house.chat()
    assert (await house.chat(ask("long"))).status == 400
    assert (await house.request("POST", "/v1/chat/completions", data=b"x")).status == 400
    await house.settled()
    metrics = await scrape(house)
    usage = answer.body["usage"]
    assert metrics("olp_tokens_total", kind="input") == usage["prompt_tokens"]
    assert metrics("olp_tokens_total", kind="output") == usage["completion_tokens"]
    answered = {"provider": "claude", "model": "sonnet", "outcome": "answered", "code": "OK"}
    assert metrics("olp_requests_total", **answered) == 1
    assert metrics("olp_requests_total", outcome="failed", code="CONTEXT_TOO_LONG") == 1
    assert metrics("olp_requests_total", outcome="refused", provider="none") == 1
    assert metrics("olp_first_content_seconds_count", provider="claude") == 1
    assert metrics("olp_first_content_seconds_bucket", le="+Inf") == 1
    assert metrics("olp_request_duration_seconds_count", provider="claude") == 2
    assert 0 < metrics("olp_request_duration_seconds_sum", provider="claude") < 60
    assert metrics("process_resident_memory_bytes") > 1_000_000


async def test_L6_metrics_tell_how_the_house_is(open_: OpenHouse, go_on: GoOn) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=[fails("quota"), slow], codex=[*[dies()] * 3, slow], **COLD)
    chain = {"model": "codex/gpt-5.5"}
    await house.chat(ask("a", model="claude/sonnet"))
    for number in range(3):
        await house.chat({**ask(f"q{number}"), **chain})
    asking = asyncio.ensure_future(house.chat(ask("b", model="codex/gpt-5.5")))
    await until(lambda: house.active == {"codex": 1}, "it is being answered")
    metrics = await scrape(house)
    assert metrics("olp_requests_in_flight") == metrics("olp_answers_in_flight") == 1
    assert metrics("olp_slots_taken", provider="codex") == 1
    assert metrics("olp_slots_limit", provider="codex") == 4
    assert metrics("olp_quota_holds", provider="claude") == 1
    assert metrics("olp_open_circuits", provider="codex") == 1
    assert metrics("olp_provider_failing", provider="codex") == 1
    assert metrics("olp_attempts_today", provider="claude") == 1
    assert metrics("olp_waiting_workers") == metrics("olp_waiting_requests") == 0
    assert metrics("olp_parked_workers") == 0
    assert metrics("olp_usage_store_failing") == metrics("olp_usage_store_lost_total") == 0
    assert metrics("olp_build_info") == 1
    go_on.now()
    await asking


async def test_L6_the_quota_is_a_ratio(open_: OpenHouse) -> None:
    windows = {"five_hour": {"utilization": 0.42, "resetsAt": 4_000_000_000}}
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed",
             "unifiedWindows": windows}}  # fmt: skip
    house = await open_(
        claude=turn(["init"], ["start"], ["json", event], ["say", "ok"], ["end"]), **COLD
    )
    await house.chat()
    metrics = await scrape(house)
    assert metrics("olp_quota_used_ratio", provider="claude", window="five_hour") == 0.42


async def test_L6_labels_are_bounded_whatever_clients_ask_for(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), **COLD)
    for number in range(20):
        assert (await house.chat(ask("x", model=f"claude/invented-{number}"))).text == "ok"
        await house.chat(ask("x", model=f"nowhere-{number}"))
    metrics = await scrape(house)
    assert metrics("olp_requests_total", model="other", outcome="answered") == 20
    assert metrics.labels("model") <= {"other", "none", ""}
    assert "invented" not in metrics.text and "nowhere" not in metrics.text


def test_L6_names_follow_the_conventions_of_prometheus() -> None:
    from olp.server.exposition import exposition

    counters = Counters()
    counters.knows = lambda hop: True
    counters.hop(Hop("claude", "sonnet"), "OK", "none")
    counters.request(row(), Hop("claude", "sonnet"), "anna")
    health = {"uptime_s": 1, "live": [], "in_flight": 0, "record": "ok", "record_lost": 0,
              "status": "ok", "providers": {}}  # fmt: skip
    text = exposition(health, counters, people=False).decode()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name.islower() and name.startswith(("olp_", "process_"))
            assert (kind == "counter") == name.endswith("_total"), line
    assert "anna" not in text
    assert 'person="anna"' in exposition(health, counters, people=True).decode()


def test_a_histogram_counts_each_value_once() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 3):
        histogram.note(value)
    assert (histogram.counts, histogram.sum) == ([2, 1, 1], 6.0)


def test_what_was_never_asked_is_counted_under_no_model() -> None:
    counters = Counters()
    refused: RequestRow = row(provider="", model="", outcome="refused", code="x", first_ms=None)
    counters.request(refused, None, "anna")
    assert list(counters.requests) == [("none", "none", "refused", "x", "anna")]
    assert counters.total == {}


# --- to whom -------------------------------------------------------------------------------------


async def test_L6_metrics_are_the_owners(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), **COLD)
    owner, member = key_of(house, "olga", owner=True), key_of(house, "anna")
    await house.chat(headers=member)
    assert (await house.request("GET", "/metrics")).status == 401
    refused = await house.request("GET", "/metrics", headers=member)
    assert (refused.status, refused.error["code"]) == (403, "owner_only")
    metrics = await scrape(house, headers=owner)
    assert "anna" not in metrics.text
    assert (await house.request("POST", "/metrics", headers=owner)).status == 405


async def test_L6_people_are_told_only_where_the_owner_says_so(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), metrics={"people": True}, **COLD)
    owner, member = key_of(house, "olga", owner=True), key_of(house, "anna")
    await house.chat(ask("a"), headers=member)
    await house.chat(ask("b"), headers=owner)
    await house.settled()
    metrics = await scrape(house, headers=owner)
    assert metrics("olp_requests_total", person="anna") == 1
    assert metrics("olp_tokens_total", person="olga", kind="input") > 0
    assert metrics.labels("person") == {"anna", "olga"}


async def test_L6_an_address_of_its_own_needs_no_key_and_has_nothing_else(
    open_: OpenHouse,
) -> None:
    house = await open_(claude=says("ok"), metrics={"listen": "127.0.0.1:0"}, **COLD)
    key_of(house, "olga", owner=True)
    [line] = house.logged("serving_metrics")
    metrics = await scrape(house, line["url"])
    assert "olp_healthy" in metrics.names
    other = line["url"].removesuffix("/metrics")
    for path in ("/health", "/v1/models", "/"):
        async with house.http.get(other + path) as response:
            assert response.status == 404
    page = {"Origin": "http://evil.example"}
    async with house.http.get(line["url"], headers=page) as response:
        assert response.status == 403


async def test_L6_an_address_that_is_taken_stops_the_start(open_: OpenHouse) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match="for /metrics"):
            await open_(metrics={"listen": f"127.0.0.1:{port}"})


async def test_L6_nothing_is_loaded_before_somebody_asks() -> None:
    code = (
        "import sys, olp.cli.serve, olp.server.app; assert 'prometheus_client' not in sys.modules"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True, timeout=60)


# --- GET /olp/usage ------------------------------------------------------------------------------


async def usage(house: House, headers: Labels | None = None, query: str = "") -> Any:
    answer = await house.request("GET", f"/olp/usage{query}", headers=headers)
    assert answer.status == 200, answer.raw
    return answer.body


async def test_L5_members_see_their_own_use_and_owners_everybodys(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), **COLD)
    owner = key_of(house, "olga", owner=True)
    anna, ben = key_of(house, "anna"), key_of(house, "ben")
    for number, headers in enumerate((anna, anna, ben, owner)):
        await house.chat(ask(f"q{number}"), headers=headers)
    await house.settled()

    def names(told: Any) -> dict[str, int]:
        return {group["name"]: group["requests"] for group in told["groups"]}

    record = UsageStore(house.place.state / "olp.db")
    await until(lambda: len(UsageReport(record).requests()) == 4, "they are in the book")
    assert names(await usage(house, owner)) == {"anna": 2, "ben": 1, "olga": 1}
    assert names(await usage(house, owner, "?person=ben")) == {"ben": 1}
    assert names(await usage(house, anna)) == {"anna": 2}
    assert names(await usage(house, anna, "?person=ben")) == {"anna": 2}, "their own, whatever"
    assert names(await usage(house, ben, "?by=provider&since=1h")) == {"claude": 1}
    assert names(await usage(house, owner, "?since=2020-01-01&until=2020-01-31")) == {}
    assert (await usage(house, anna))["problem"] is None
    assert (await house.request("GET", "/olp/usage")).status == 401


@pytest.mark.parametrize("query", ["?by=cost", "?since=soon", "?since=2026-11-02&until=2026-11-01"])
async def test_L5_a_question_that_makes_no_sense_is_a_400(open_: OpenHouse, query: str) -> None:
    house = await open_()
    answer = await house.request("GET", f"/olp/usage{query}")
    assert answer.status == 400 and answer.error["message"]


async def test_L5_use_can_be_asked_for_while_answers_are_made(open_: OpenHouse) -> None:
    house = await open_(claude=hangs(after=["one "]), **COLD)
    async with house.opened() as response:
        await soon(response.content.readuntil(b"one "))
        assert (await usage(house))["total"]["requests"] == 0
