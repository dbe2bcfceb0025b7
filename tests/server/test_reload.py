"""The configuration changes while the server runs: nothing is dropped, nothing is forgotten."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from olp.cli import compose as composition
from olp.config import Config
from olp.runtime.usage.store import UsageStore
from tests.conftest import OpenHouse, Serve
from tests.fakes.plan import Plan, fails, says, turn
from tests.server.people import key_of
from tests.support import (
    BOTH,
    CHAT,
    GoOn,
    House,
    Served,
    ask,
    connected,
    exists,
    open_house,
    soon,
    until,
    write_config,
)

CLAUDE, CODEX = "claude/sonnet", "codex/gpt-5.5"
OTHER = {"claude": {"max_concurrent": 9}, "vibe": {"enabled": False}}
WAITING = Path(__file__).parents[1] / "fakes" / "waiting_claude.py"


@pytest.fixture
def reload(tmp_path: Path, plan: Plan) -> Callable[..., str]:
    """Another configuration for a running house: `reload(house, chains={…})`; what it says."""

    def run(house: House, **tables: Any) -> str:
        path = write_config(tmp_path / "olp.toml", plan, tables)

        def read() -> tuple[Config, Mapping[str, composition.Found]]:
            config = composition.read_config(str(path)).config
            return config, composition.find_providers(config)

        return house.server.reload(read)

    return run


Reload = Callable[..., str]


def chain(*hops: str) -> dict[str, list[str]]:
    return {"auto": list(hops)}


async def begun(house: House, number: int = 0) -> None:
    """A call has read its request."""
    await until(lambda: len(house.plan.calls()) > number, f"call {number} began")
    await until(lambda: house.plan.calls()[number].line("read"), f"call {number} read")


@BOTH
async def test_the_next_request_goes_along_the_new_chain(
    open_: OpenHouse, reload: Reload, stream: bool
) -> None:
    house = await open_(claude=says("c"), codex=says("x"), chains=chain(CLAUDE))
    assert (await house.ask(stream)).text == "c"
    assert reload(house, chains=chain(CODEX)) == "reloaded"
    assert (await house.ask(stream)).text == "x"
    assert (await house.request("GET", "/health")).body["chains"]["auto"] == [CODEX]
    assert len(house.logged("reloaded")) == 1


@BOTH
async def test_an_answer_under_way_keeps_its_chain_to_the_end(
    open_: OpenHouse, reload: Reload, go_on: GoOn, stream: bool
) -> None:
    slow = turn(["init"], go_on.wait, ["fail", "overloaded", {}])
    house = await open_(claude=slow, codex=says("x"), vibe=says("v"), chains=chain(CLAUDE, CODEX))
    running = asyncio.ensure_future(house.ask(stream))
    await begun(house)
    off = {"codex": {"enabled": False}, "claude": {"enabled": False}}
    assert reload(house, chains=chain("vibe/mistral-medium-3.5"), providers=off) == "reloaded"
    assert house.service.in_flight == 1
    assert (await house.ask(stream)).text == "v"
    go_on.now()
    answer = await soon(running)
    assert (answer.text, answer.codes) == ("x", ["OVERLOADED"])


async def test_requests_and_reloads_at_once(open_: OpenHouse, reload: Reload) -> None:
    slow = turn(["init"], ["start"], ["say", "a"], ["sleep", 0.1], ["say", "b"], ["end"])
    many = {name: {"max_concurrent": 40} for name in ("claude", "codex")}
    house = await open_(claude=slow, codex=slow, chains=chain(CLAUDE), providers=many)
    running = []
    for number in range(12):
        text = f"question {number}"
        running.append(asyncio.ensure_future(house.ask(number % 2 == 0, ask(text))))
        if number % 3 == 2:
            hop = CODEX if number % 2 else CLAUDE
            assert reload(house, chains=chain(hop), providers=many) == "reloaded"
            await asyncio.sleep(0.05)
    answers = await soon(asyncio.gather(*running), 60)
    assert [answer.text for answer in answers] == ["ab"] * 12
    await house.settled()


# --- mistakes ----------------------------------------------------------------------------------


async def test_a_mistake_leaves_everything_as_it_was(
    open_: OpenHouse, reload: Reload, tmp_path: Path
) -> None:
    house = await open_(claude=says("c"), chains=chain(CLAUDE))
    service = house.service
    for tables, why in (
        ({"chains": chain("nobody/x")}, "no provider 'nobody'"),
        ({"chains": chain(CODEX), "providers": {"codex": {"enabled": False}}}, "switched off"),
        ({"server": {"prot": 1}}, "unknown key 'prot' in [server]; did you mean port?"),
        ({"routing": {"background": "vibe/x"}, "providers": OTHER}, "which does not exist here"),
        ({"server": {"tls_cert": "/x"}}, "server.tls_cert needs server.tls_key too"),
    ):
        assert reload(house, **tables).startswith("the configuration was not changed: ")
        assert why in house.logged("reload_failed")[-1]["error"]
        assert house.service is service
    assert f"{tmp_path / 'olp.toml'}:" in house.logged("reload_failed")[0]["error"]
    admission = service.lasting.admission
    assert admission.slots.limits["claude"] == 4, "nothing was half done"
    assert (await house.chat()).text == "c"


async def test_what_cannot_change_is_named_and_kept(
    open_: OpenHouse, reload: Reload, tmp_path: Path
) -> None:
    house = await open_(claude=says("c"))
    server = {"port": 4999, "state_dir": str(tmp_path / "other"), "host": "127.0.0.2"}
    said = reload(house, server=server)
    assert said == "reloaded; a new start is needed for host, port, state_dir"
    assert house.logged("reload_needs_restart")[0]["keys"] == ["host", "port", "state_dir"]
    assert house.server.config.server.state_dir == str(house.place.state)
    assert (await house.chat()).text == "c"
    files = {"tls_cert": "/x.pem", "tls_key": "/x.key"}
    assert reload(house, server=files).endswith("needed for tls_cert, tls_key")


async def test_settings_of_the_server_change(open_: OpenHouse, reload: Reload) -> None:
    house = await open_(claude=says("c"))
    origin = {"Origin": "http://nas.lan:3000"}
    assert (await house.request("GET", "/v1/models", headers=origin)).status == 403
    reload(house, server={"cors_origins": ["http://nas.lan:3000"]})
    assert (await house.request("GET", "/v1/models", headers=origin)).status == 200


# --- what is known is kept ---------------------------------------------------------------------


async def test_holds_counts_and_history_survive(open_: OpenHouse, reload: Reload) -> None:
    house = await open_(claude=fails("quota"), codex=says("x"), chains=chain(CLAUDE, CODEX))
    assert (await house.chat()).codes == ["QUOTA_EXHAUSTED"]
    await house.settled()
    before = (await house.request("GET", "/health")).body["providers"]
    reload(house, chains=chain(CLAUDE, CODEX), routing={"gate_s": 5})
    health = (await house.request("GET", "/health")).body["providers"]
    for name in ("claude", "codex"):
        assert health[name]["quota"]["requests_today"] == 1
        assert health[name]["attempts"] == before[name]["attempts"] == 1
    assert (await house.chat()).codes == ["QUOTA_HOLD"]
    assert house.plan.spawns()["claude"] == 1


async def test_the_breaker_survives_and_takes_the_new_numbers(
    open_: OpenHouse, reload: Reload
) -> None:
    house = await open_(claude=fails("overloaded"), codex=says("x"), chains=chain(CLAUDE, CODEX))
    for _ in range(2):
        assert (await house.chat()).codes == ["OVERLOADED"]
    reload(house, chains=chain(CLAUDE, CODEX), breaker={"threshold": 3, "cooldown_s": 900})
    assert (await house.chat()).codes == ["OVERLOADED"], "the third"
    assert (await house.chat()).codes == ["CIRCUIT_OPEN"]
    circuits = (await house.request("GET", "/health")).body["providers"]["claude"]["open_circuits"]
    assert circuits[0]["next_try_s"] > 600


async def test_another_account_starts_with_a_clean_sheet(open_: OpenHouse, reload: Reload) -> None:
    house = await open_(claude=fails("quota"), codex=says("x"), chains=chain(CLAUDE, CODEX))
    assert (await house.chat()).codes == ["QUOTA_EXHAUSTED"]
    house.plan.set(claude=says("c"), codex=says("x"))
    other = {"claude": {"env": {"CLAUDE_CODE_OAUTH_TOKEN": "another"}}}
    reload(house, chains=chain(CLAUDE, CODEX), providers=other)
    assert (await house.chat()).text == "c"


async def test_slots_are_one_count_before_and_after(
    open_: OpenHouse, reload: Reload, go_on: GoOn
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "first"], ["end"])
    house = await open_(claude=slow, codex=says("x"), chains=chain(CLAUDE, CODEX))
    running = asyncio.ensure_future(house.chat())
    await begun(house)
    one = {"claude": {"max_concurrent": 1}}
    reload(house, chains=chain(CLAUDE, CODEX), providers=one)
    assert (await house.chat(ask("two"))).codes == ["CONCURRENCY_LIMIT"]
    assert house.active["claude"] == 1
    go_on.now()
    assert (await soon(running)).text == "first"
    await house.settled()


async def test_models_that_the_clis_told_of_stay_known(open_: OpenHouse, reload: Reload) -> None:
    house = await open_(claude=says("c"))
    house.plan.set({"claude": {"models": ["brand-new"]}}, claude=says("c"))
    await house.service.refresh()
    reload(house, routing={"gate_s": 5})
    assert (await house.chat(ask(model="claude/brand-new"))).status == 200
    assert (await house.request("GET", "/v1/models/brand-new")).status == 200


async def test_keys_stay_and_are_needed(open_: OpenHouse, reload: Reload) -> None:
    house = await open_(claude=says("c"))
    key = key_of(house, "anna")
    reload(house, routing={"gate_s": 5})
    assert (await house.chat()).status == 401
    assert (await house.chat(headers=key)).text == "c"


async def test_the_record_is_whole(open_: OpenHouse, reload: Reload, go_on: GoOn) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "late"], ["end"], when="slow")
    house = await open_(claude=[says("c"), slow])
    running = asyncio.ensure_future(house.chat(ask("slow")))
    await begun(house)
    reload(house)
    quick = await house.chat(ask("quick"))
    go_on.now()
    late = await soon(running)
    await house.settled()
    for answer in (quick, late):
        id_ = answer.headers["X-OLP-Request-Id"]
        await until(partial(trace, house, id_), "the trace is written")


def trace(house: House, request_id: str) -> Any:
    return UsageStore(house.place.state / "olp.db").trace(request_id)


def gone(pids: set[int]) -> bool:
    return not any(map(exists, pids))


def reloads(served: Served, count: int) -> bool:
    return served.err.count('"reloaded"') == count


# --- processes ---------------------------------------------------------------------------------


async def test_waiting_processes_are_ended_and_new_ones_started(
    tmp_path: Path, surroundings: pytest.MonkeyPatch, plan: Plan, reload: Reload
) -> None:
    claude = {"command": [sys.executable, str(WAITING)], "transport": "auto"}
    off = {"enabled": False}
    tables = {"providers": {"claude": claude, "codex": off, "vibe": off}}

    def seat_pids() -> set[int]:
        processes = [s for kind in house.service._pool._pools.values() for s in kind.processes]
        return {seat.worker.pid for seat in processes if seat.worker.pid and seat.worker.ready}

    async with open_house(tmp_path, plan, tables) as house:
        seen: set[int] = set()
        for _ in range(3):
            await until(seat_pids, "one waits")
            seen |= seat_pids()
            assert reload(house, **tables) == "reloaded"
            await until(partial(gone, set(seen)), "the old ones are gone")
        await until(seat_pids, "one waits again")
        assert len(seat_pids()) == 1 and len(seen) == 3
        answer = await house.chat(ask("hi", model="claude/sonnet"))
        assert answer.text.endswith(": hi")


async def test_a_stop_waits_for_an_answer_of_the_configuration_before(
    serve: Serve, tmp_path: Path, plan: Plan, go_on: GoOn
) -> None:
    slow = turn(["init"], ["start"], ["say", "a"], go_on.wait, ["say", "b"], ["end"])
    plan.set(claude=slow)
    served = serve(server={"drain_s": 30})
    async with connected(served.url()) as client:
        running = asyncio.ensure_future(client.stream())
        await until(lambda: plan.calls() and plan.calls()[0].line("read"), "it is asked")
        for number in range(2):
            served.signal(signal.SIGHUP)
            await until(partial(reloads, served, number + 1), "reloaded")
        served.signal(signal.SIGTERM)
        await until(lambda: '"draining"' in served.err, "draining")
        go_on.now()
        answer = await soon(running)
    assert (answer.text, answer.finish, answer.done) == ("ab", "stop", True)
    assert await asyncio.to_thread(served.wait) == 0


async def test_the_signal_reads_the_file_again(serve: Serve, tmp_path: Path, plan: Plan) -> None:
    plan.set(claude=says("c"), codex=says("x"))
    served = serve(chains=chain(CLAUDE))
    async with connected(served.url()) as client:
        assert (await client.chat()).text == "c"
        write_config(tmp_path / "olp.toml", plan, {"chains": chain(CODEX)})
        served.signal(signal.SIGHUP)
        await until(lambda: '"reloaded"' in served.err, "reloaded")
        assert (await client.chat()).text == "x"
        (tmp_path / "olp.toml").write_text("[server\n")
        served.signal(signal.SIGHUP)
        await until(lambda: '"reload_failed"' in served.err, "the mistake is seen")
        [line] = [one for one in served.log if one["event"] == "reload_failed"]
        assert f"{tmp_path / 'olp.toml'}:1" in line["error"]
        answer = await client.request("POST", CHAT, data=json.dumps(ask()))
        assert answer.text == "x"
    served.signal(signal.SIGTERM)
    assert await asyncio.to_thread(served.wait) == 0


async def test_kept_answers_stay_within_the_new_bounds(open_: OpenHouse, reload: Reload) -> None:
    house = await open_(
        claude=[says("one"), says("two")], cache={"ttl_s": 60}, chains=chain(CLAUDE)
    )

    async def asked() -> tuple[str, str]:
        answer = await house.chat(ask("same"))
        return answer.text, answer.headers["X-OLP-Cache"]

    assert await asked() == ("one", "miss")
    assert reload(house, cache={"ttl_s": 60}, chains=chain(CLAUDE)) == "reloaded"
    assert await asked() == ("one", "hit")
    assert reload(house, cache={"ttl_s": 60, "max_entries": 1, "max_bytes": 1}) == "reloaded"
    assert await asked() == ("two", "miss")
