"""M3, M4 and M8: who is let in, with what, and what each may see."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from olp.core.answer.conversation import ConversationKey
from olp.core.keys import keyfile
from olp.core.keys.key import digest_of
from olp.errors import RequestError
from olp.model import Hop
from olp.runtime.access.keyring import FILE, Keyring, new_token
from olp.runtime.access.local_server import local_servers
from olp.runtime.pool.pool import Pool
from olp.server import throttle
from olp.server.throttle import Throttle
from tests.conftest import OpenHouse, Serve
from tests.fakes.plan import fails, hangs, says
from tests.server.people import COLD, key_of, make_key, token_in
from tests.server.test_http import raw
from tests.support import BOTH, CHAT, Answer, House, ask, until

ROUTES = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/auto"),
    ("GET", "/health"),
    ("GET", "/"),
    ("GET", "/anything"),
    ("POST", CHAT),
    ("POST", "/olp/quota/refresh"),
    ("POST", "/olp/quota/clear"),
]


def refused(answer: Answer, status: int, code: str) -> str:
    """The message of a refusal in the API's own shape."""
    assert (answer.status, answer.error["code"]) == (status, code), answer.raw
    assert answer.headers["X-OLP-Provider-Used"] == "none"
    assert answer.headers["X-OLP-Request-Id"]
    return str(answer.error["message"])


def change(house: House, how: Any) -> None:
    Keyring(house.place.state).change(how)


# --- keys off and on -----------------------------------------------------------------------------


@BOTH
async def test_M4_the_first_key_switches_keys_on_at_once(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"))
    assert (await house.ask(stream)).text == "ok"
    anna = key_of(house, "anna")
    answer = await house.ask(stream, ask("again"))
    message = refused(answer, 401, "missing_api_key")
    assert "Authorization: Bearer olp_" in message and "x-api-key" in message
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert (await house.stream(ask("again"), anna) if stream else await house.chat(None, anna)).text
    [line] = house.logged("keys_on")
    assert (line["level"], line["keys"]) == ("warn", 1)


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_M4_no_route_but_healthz_is_open(open_: OpenHouse, method: str, path: str) -> None:
    house = await open_(claude=says("never"))
    key_of(house, "anna")
    options = {"json": ask()} if method == "POST" else {}
    refused(await house.request(method, path, **options), 401, "missing_api_key")
    wrong = {"Authorization": f"Bearer {new_token()}"}
    answer = await house.request(method, path, headers=wrong, **options)
    assert "not known here" in refused(answer, 401, "invalid_api_key")
    assert house.plan.calls() == []
    alive = await house.request("GET", "/healthz")
    assert (alive.status, alive.body) == (200, {"status": "alive"})


async def test_M4_a_key_is_asked_for_before_the_body_is_read(open_: OpenHouse) -> None:
    house = await open_()
    key_of(house, "anna")
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    assert (await raw(house, head.encode(), word=b"missing_api_key")).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    "headers",
    [
        lambda t: {"Authorization": f"Bearer {t}"},
        lambda t: {"authorization": f"bearer {t}"},
        lambda t: {"AUTHORIZATION": f"BEARER   {t}  "},
        lambda t: {"x-api-key": t},
        lambda t: {"X-API-Key": f" {t} "},
        lambda t: {"Authorization": f"Bearer {t}", "x-api-key": t},
        lambda t: {"Authorization": "Basic eDp5", "x-api-key": t},
        lambda t: {"Authorization": "Bearer ", "x-api-key": t},
    ],
)
async def test_N5_the_ways_to_send_a_key(open_: OpenHouse, headers: Any) -> None:
    house = await open_()
    token = token_in(key_of(house, "anna"))
    assert (await house.request("GET", "/v1/models", headers=headers(token))).status == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (lambda t: {"Authorization": t}, "missing_api_key"),
        (lambda t: {"Authorization": f"Basic {t}"}, "missing_api_key"),
        (lambda t: {"Authorization": f"Bearer{t}"}, "missing_api_key"),
        (lambda t: {"Authorization": "Bearer"}, "missing_api_key"),
        (lambda t: {"x-api-key": ""}, "missing_api_key"),
        (lambda t: {"Cookie": f"key={t}", "api-key": t}, "missing_api_key"),
        (lambda t: {"Authorization": f"Bearer {t}x"}, "invalid_api_key"),
        (lambda t: {"Authorization": f"Bearer {t[:-1]}"}, "invalid_api_key"),
        (lambda t: {"Authorization": f"Bearer {t} {t}"}, "invalid_api_key"),
        (lambda t: {"Authorization": f'Bearer "{t}"'}, "invalid_api_key"),
        (lambda t: {"Authorization": f"Bearer {t.upper()}"}, "invalid_api_key"),
        (lambda t: {"Authorization": f"Bearer {digest_of(t)}"}, "invalid_api_key"),
        (lambda t: {"x-api-key": f"Bearer {t}"}, "invalid_api_key"),
        (lambda t: {"x-api-key": f"{t},{t}"}, "invalid_api_key"),
        (lambda t: {"x-api-key": "olp_" + "x" * 7000}, "invalid_api_key"),
        (lambda t: {"Authorization": "Bearer ключ-ünïcode-🔑"}, "invalid_api_key"),
    ],
)
async def test_M4_what_is_not_the_key_is_not_the_key(
    open_: OpenHouse, headers: Any, code: str
) -> None:
    house = await open_()
    token = token_in(key_of(house, "anna"))
    answer = await house.request("GET", "/v1/models", headers=headers(token))
    assert refused(answer, 401, code)
    assert token not in answer.raw.decode()


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Authorization: Bearer {a}\r\nAuthorization: Bearer {a}\r\n", (200, 400)),
        ("Authorization: Bearer {a}\r\nAuthorization: Bearer {b}\r\n", (400,)),
        ("Authorization: Bearer wrong\r\nAuthorization: Bearer {a}\r\n", (400,)),
        ("Authorization: Bearer {a}\r\nx-api-key: {b}\r\n", (400,)),
        ("x-api-key: {a}\r\nx-api-key: {b}\r\n", (400,)),
        ("x-api-key : {a}\r\n", (400,)),
        ("x-api-key:\r\n {a}\r\n", (200, 400)),
        ("Authorization: Bearer \xff\xfe\r\n", (401, 400)),
        ("Authorization: Bearer {a}\x00\r\n", (400, 401)),
        ("X: y\nx-api-key: {a}\r\n", (400,)),
    ],
)
async def test_M4_tricks_with_headers(
    open_: OpenHouse, lines: str, status: tuple[int, ...]
) -> None:
    house = await open_()
    a, b = (token_in(key_of(house, name)) for name in ("anna", "ben"))
    head = f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n"
    got = await raw(house, head.format(a=a, b=b).encode("latin-1"))
    assert int(got.split()[1]) in status, got[:300]
    if got.startswith(b"HTTP/1.1"):  # what is no HTTP is quoted to its sender, by aiohttp itself
        assert a.encode() not in got and b.encode() not in got
    assert a not in json.dumps(house.log)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models?key={t}",
        "/v1/models?api_key={t}&x=1",
        "/v1/models?x=%6Flp_{u}",
        "/{t}/v1/models",
        "/v1/models/{t}",
        "/v1/models/%6Flp_{u}",
        "/healthy?{t}",
    ],
)
async def test_M4_a_key_in_the_address_is_refused_and_shown_to_nobody(
    open_: OpenHouse, path: str
) -> None:
    house = await open_()
    headers = key_of(house, "anna")
    token = token_in(headers)
    where = path.format(t=token, u=token[4:])
    for sent in (headers, {}):
        answer = await house.request("GET", where, headers=sent)
        message = refused(answer, 400, "misplaced_key")
        assert "olp keys rotate" in message
        assert token[4:] not in str(answer.headers) + answer.raw.decode()
    assert token[4:] not in json.dumps(house.log)


@BOTH
async def test_M3_a_key_in_the_model_reaches_no_command_line(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=says("never"))
    headers = key_of(house, "anna")
    body = ask(model=f"claude/{token_in(headers)}", stream=stream)
    answer = await house.chat(body, headers)
    refused(answer, 400, "misplaced_key")
    assert token_in(headers)[4:] not in str(answer.headers) + answer.raw.decode()
    assert house.plan.calls() == []


@BOTH
async def test_M3_a_key_is_in_no_log_no_child_no_record_and_no_error(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=[says("ok"), fails("server")], codex=says("saved"))
    headers = key_of(house, "anna")
    asking = house.stream if stream else house.chat
    answers = [await asking(ask(f"q{n}"), headers) for n in range(2)]
    await house.request("GET", "/nowhere", headers=headers)
    await house.settled()
    secret = token_in(headers)[4:]
    for call in house.plan.calls():
        assert secret not in json.dumps([call.argv, call.env])
    assert secret not in json.dumps(house.log)
    assert all(secret not in str(a.headers) + a.raw.decode() for a in answers)
    house.service.lasting.store.close()
    for file in house.place.state.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file
    assert {line["caller"] for line in house.logged("answered")} == {"anna"}


# --- revoked, expired, replaced ------------------------------------------------------------------


async def test_M4_a_revoked_key_is_refused_by_the_next_request(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    anna, ben = key_of(house, "anna"), key_of(house, "ben")
    assert (await house.chat(None, anna)).text == "ok"
    change(house, lambda keys: keyfile.revoked(keys, "anna", time.time()))
    assert "was revoked on 20" in refused(await house.chat(None, anna), 401, "key_revoked")
    assert (await house.chat(None, ben)).text == "ok"


async def test_M4_an_answer_under_way_is_not_cut_by_a_revocation(open_: OpenHouse) -> None:
    house = await open_(claude=says("a", "b", "c", every=0.2))
    anna = key_of(house, "anna")
    async with house.opened(ask(), anna) as response:
        change(house, lambda keys: keyfile.revoked(keys, "anna", time.time()))
        assert (await response.content.read()).endswith(b"[DONE]\n\n")
    refused(await house.chat(None, anna), 401, "key_revoked")


async def test_M4_a_replaced_key_is_refused_and_the_new_one_is_the_same_person(
    open_: OpenHouse,
) -> None:
    house = await open_(claude=says("ok"))
    anna, token = key_of(house, "anna", daily_requests=2), new_token()
    assert (await house.chat(None, anna)).text == "ok"
    change(house, lambda keys: keyfile.rotated(keys, "anna", digest_of(token)))
    refused(await house.chat(None, anna), 401, "invalid_api_key")
    new = {"x-api-key": token}
    assert (await house.chat(ask("2"), new)).text == "ok"
    refused(await house.chat(ask("3"), new), 429, "insufficient_quota")


async def test_M4_a_key_that_expired(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    anna = key_of(house, "anna", expires_at=time.time() + 0.5)
    assert (await house.chat(None, anna)).text == "ok"
    await asyncio.sleep(0.6)
    assert "expired on 20" in refused(await house.chat(None, anna), 401, "key_expired")


async def test_M4_when_all_keys_are_revoked_the_house_stays_closed(open_: OpenHouse) -> None:
    house = await open_(claude=says("never"))
    anna = key_of(house, "anna")
    change(house, lambda keys: keyfile.revoked(keys, "anna", time.time()))
    refused(await house.chat(None, anna), 401, "key_revoked")
    refused(await house.chat(), 401, "missing_api_key")


@pytest.mark.parametrize("harm", ["garbage", "gone", "writable"])
@BOTH
async def test_M4_keys_that_cannot_be_read_let_nobody_in(
    open_: OpenHouse, harm: str, stream: bool
) -> None:
    house = await open_(claude=says("ok"))
    anna = key_of(house, "anna")
    assert (await house.chat(None, anna)).text == "ok"
    file = house.place.state / FILE
    data = file.read_bytes()
    if harm == "garbage":
        file.write_bytes(b"{}")
    elif harm == "gone":
        file.unlink()
    else:
        file.chmod(0o666)
    answer = await house.chat(ask("1", stream=stream), anna)
    assert "refuses every request" in refused(answer, 503, "keys_unusable")
    assert str(house.place.state) not in answer.raw.decode()
    refused(await house.chat(ask("2")), 401, "missing_api_key")
    assert (await house.request("GET", "/healthz")).status == 200
    assert len(house.logged("keys_unusable")) == 1
    file.write_bytes(data)
    file.chmod(0o600)
    assert (await house.chat(ask("3", stream=False), anna)).text == "ok"


# --- guessing ------------------------------------------------------------------------------------


def test_M4_guesses_cost_more_and_more_time_up_to_an_end() -> None:
    now = [1000.0]
    one = Throttle(lambda: now[0])
    delays = []
    for _ in range(20):
        one.wrong("10.0.0.1")
        delays.append(one.delay("10.0.0.1"))
    assert delays[:5] == [0.0] * 5 and delays[5] == throttle.FIRST_S
    assert delays == sorted(delays) and delays[-1] == throttle.LONGEST_S
    assert one.delay("10.0.0.2") == 0.0
    now[0] += throttle.FORGOTTEN_S + 1
    one.wrong("10.0.0.1")
    assert one.delay("10.0.0.1") == 0.0


def test_M4_a_whole_ipv6_network_is_one_guesser() -> None:
    one = Throttle()
    for n in range(10):
        one.wrong(f"2001:db8::{n}")
    assert len(one) == 1 and one.delay("2001:db8::ffff") > 0
    assert one.delay("2001:db8:0:1::1") == 0


@settings(max_examples=20)
@given(st.lists(st.ip_addresses().map(str), max_size=50))
def test_M4_what_is_remembered_of_guessers_is_bounded(addresses: list[str]) -> None:
    one = Throttle()
    for n in range(throttle.ADDRESSES):
        one.wrong(f"10.{n >> 8}.{n & 255}.1")
    for address in [*addresses, "", "unknown"]:
        one.wrong(address)
        assert one.delay(address) == 0
        assert len(one) <= throttle.ADDRESSES


async def test_M4_only_so_many_answers_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Throttle()
    for _ in range(30):
        one.wrong("a")
    held = [asyncio.ensure_future(one.hold("a")) for _ in range(throttle.HELD_PER_ADDRESS)]
    await asyncio.sleep(0)
    with pytest.raises(RequestError) as caught:
        await one.hold("a")
    assert (caught.value.status, caught.value.code) == (429, "too_many_attempts")
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    monkeypatch.setattr(throttle, "LONGEST_S", 0.01)
    await one.hold("a")


async def test_M4_a_right_key_is_not_locked_out_by_a_guesser(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    anna = key_of(house, "anna")

    async def guess() -> Answer:
        wrong = {"Authorization": f"Bearer {new_token()}"}
        return await house.request("GET", "/v1/models", headers=wrong)

    for _ in range(8):
        refused(await guess(), 401, "invalid_api_key")
    guessing = [asyncio.ensure_future(guess()) for _ in range(60)]
    await until(lambda: sum(task.done() for task in guessing) >= 40, "some are answered at once")
    began = time.monotonic()
    for _ in range(5):
        assert (await house.request("GET", "/v1/models", headers=anna)).status == 200
    assert time.monotonic() - began < throttle.LONGEST_S / 2
    assert not all(task.done() for task in guessing), "the others are held back"
    told = {(answer.status, answer.error["code"]) for answer in await asyncio.gather(*guessing)}
    assert told == {(401, "invalid_api_key"), (429, "too_many_attempts")}
    assert len(house.logged("key_refused")) <= 8, "a guesser does not fill the log"
    assert house.logged("key_refused")[0]["remote"] == "127.0.0.1"


# --- owners and members --------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/olp/quota/refresh", "/olp/quota/clear"])
async def test_M8_what_is_the_owners_is_closed_to_members(open_: OpenHouse, path: str) -> None:
    house = await open_()
    anna, ben = key_of(house, "anna", owner=True), key_of(house, "ben")
    refused(await house.request("POST", path, headers=ben), 403, "owner_only")
    assert (await house.request("POST", path, headers=anna)).status == 200


async def test_M8_a_member_sees_a_trimmed_health_and_an_owner_all(open_: OpenHouse) -> None:
    house = await open_(
        claude=says("ok"),
        chains={"kids": ["claude/haiku"], "work": ["codex/gpt-5.5"]},
    )
    anna = key_of(house, "anna", owner=True)
    ben = key_of(house, "ben", chains=("kids", "claude/haiku"), daily_requests=9)
    assert (await house.chat(ask(model="kids"), ben)).text == "ok"
    mine = (await house.request("GET", "/health", headers=ben)).body
    assert set(mine) == {"version", "status", "chains", "you"}
    assert mine["chains"] == {"kids": {"hops": ["claude/haiku"], "ok": True}}
    assert mine["you"]["name"] == "ben" and mine["you"]["today"]["requests"] == 1
    assert mine["you"]["limits"] == {"chains": ["kids", "claude/haiku"], "daily_requests": 9}
    assert "anna" not in json.dumps(mine) and "codex" not in json.dumps(mine)
    every = (await house.request("GET", "/health", headers=anna)).body
    assert every["keys"] == "on" and set(every["chains"]) == {"auto", "kids", "work"}
    assert {one["name"]: one["today"]["requests"] for one in every["people"]} == {
        "anna": 0,
        "ben": 1,
    }


async def test_M8_a_members_health_says_when_their_chain_fails(open_: OpenHouse) -> None:
    house = await open_(claude=fails("rate"), chains={"kids": ["claude/haiku"]})
    ben = key_of(house, "ben", chains=("kids",))
    await house.chat(ask(model="kids"), ben)
    mine = (await house.request("GET", "/health", headers=ben)).body
    assert (mine["status"], mine["chains"]["kids"]["ok"]) == ("failing", False)


async def test_N3_a_member_is_told_only_of_what_they_may_ask_for(open_: OpenHouse) -> None:
    house = await open_(chains={"kids": ["claude/haiku"], "work": ["codex/gpt-5.5"]})
    ben = key_of(house, "ben", chains=("kids", "claude/opus", "nothing-here"))
    listed = (await house.request("GET", "/v1/models", headers=ben)).body["data"]
    assert [model["id"] for model in listed] == ["kids", "claude/opus"]
    everything = (await house.request("GET", "/v1/models", headers=key_of(house, "a"))).body["data"]
    assert {"auto", "kids", "work", "codex/gpt-5.5"} <= {model["id"] for model in everything}
    one = await house.request("GET", "/v1/models/kids", headers=ben)
    assert one.body["id"] == "kids"
    refused(await house.request("GET", "/v1/models/work", headers=ben), 403, "chain_not_allowed")


@BOTH
@pytest.mark.parametrize(
    "model", ["work", "auto", "haiku", "claude/opus", "KIDS", "kids/", "no-such-thing"]
)
async def test_a_member_may_ask_only_for_their_chains(
    open_: OpenHouse, model: str, stream: bool
) -> None:
    house = await open_(
        claude=says("ok"), chains={"kids": ["claude/haiku"], "work": ["codex/gpt-5.5"]}
    )
    ben = key_of(house, "ben", chains=("kids",))
    answer = await house.chat(ask(model=model, stream=stream), ben)
    assert "may ask for kids" in refused(answer, 403, "chain_not_allowed")
    assert answer.headers["x-should-retry"] == "false"
    assert answer.error["param"] == "model"
    assert house.plan.calls() == []
    assert (await house.chat(ask(model="kids"), ben)).text == "ok"


@BOTH
@pytest.mark.parametrize(
    ("policy", "shown"),
    [("owner_only", (True, False)), ("all", (True, True)), ("none", (False, False))],
)
async def test_I6_who_sees_the_detail(
    open_: OpenHouse, policy: str, shown: tuple[bool, bool], stream: bool
) -> None:
    house = await open_(
        claude=fails("rate"), codex=says("saved"), routing={"fallback_detail": policy}
    )
    people = key_of(house, "anna", owner=True), key_of(house, "ben")
    asking = house.stream if stream else house.chat
    answers = [await asking(ask(), headers) for headers in people]
    assert [answer.text for answer in answers] == ["saved", "saved"]
    assert tuple(bool(answer.codes) for answer in answers) == shown


# --- pages and hosts -----------------------------------------------------------------------------

PAGE = "http://nas.lan:3000"


async def test_M4_with_keys_a_name_of_this_machine_needs_no_configuration(
    open_: OpenHouse,
) -> None:
    house = await open_()
    foreign = {"Host": "nas.example"}
    answer = await house.request("GET", "/v1/models", headers=foreign)
    refused(answer, 403, "host_not_allowed")
    anna = key_of(house, "anna")
    answer = await house.request("GET", "/v1/models", headers={**anna, **foreign})
    assert answer.status == 200
    refused(await house.request("GET", "/v1/models", headers=foreign), 401, "missing_api_key")


async def test_N5_a_configured_page_may_ask_with_a_key(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), server={"cors_origins": [PAGE]})
    anna = key_of(house, "anna")
    before = await house.request(
        "OPTIONS",
        CHAT,
        headers={
            "Origin": PAGE,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        },
    )
    assert before.status == 204, "a browser sends no key with this question"
    assert before.headers["Access-Control-Allow-Origin"] == PAGE
    assert (await house.chat(None, {**anna, "Origin": PAGE})).text == "ok"
    answer = await house.chat(None, {"Origin": PAGE})
    refused(answer, 401, "missing_api_key")
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE, "the page can read the reason"


@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
async def test_M4_another_page_may_not_ask_even_with_a_key(open_: OpenHouse, method: str) -> None:
    house = await open_(claude=says("never"), server={"cors_origins": [PAGE]})
    anna = key_of(house, "anna")
    headers = {**anna, "Origin": "https://evil.example"}
    answer = await house.request(method, CHAT, headers=headers, data=json.dumps(ask()))
    refused(answer, 403, "origin_not_allowed")
    assert "Access-Control-Allow-Origin" not in answer.headers


# --- M7 ------------------------------------------------------------------------------------------


@BOTH
async def test_M7_two_keys_never_share_a_flight(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("a", "b", every=0.3), **COLD)
    asking = house.stream if stream else house.chat
    people = key_of(house, "anna"), key_of(house, "ben")
    answers = await asyncio.gather(*(asking(ask(), one) for one in (*people, *people)))
    assert {answer.text for answer in answers} == {"ab"}
    assert house.plan.spawns() == {"claude": 2}, "one for each person"


@BOTH
async def test_M7_two_keys_never_share_a_cached_answer(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=[says("for anna"), says("for ben")], cache={"ttl_s": 60}, **COLD)
    asking = house.stream if stream else house.chat
    anna, ben = key_of(house, "anna"), key_of(house, "ben")
    told = []
    for person in (anna, anna, ben, ben):
        answer = await asking(ask(), person)
        told.append((answer.text, answer.headers["X-OLP-Cache"]))
    assert told == [
        ("for anna", "miss"),
        ("for anna", "hit"),
        ("for ben", "miss"),
        ("for ben", "hit"),
    ]
    change(house, lambda keys: keyfile.revoked(keys, "anna", time.time()))
    again = key_of(house, "anna")
    assert (await asking(ask(), again)).headers["X-OLP-Cache"] == "miss", "a name is no person"


async def test_M7_a_system_prompt_is_part_of_what_tells_two_requests_apart(
    open_: OpenHouse,
) -> None:
    house = await open_(claude=[says("1"), says("2"), says("3")], cache={"ttl_s": 60}, **COLD)
    anna = key_of(house, "anna", system_prompt="Answer as a pirate.")
    assert [(await house.chat(ask(), anna)).text for _ in range(2)] == ["1", "1"]
    change(
        house,
        lambda keys: tuple(structs.replace(key, system_prompt="Be a poet.") for key in keys),
    )
    assert (await house.chat(ask(), anna)).text == "2"


async def test_M7_two_keys_never_share_a_live_conversation(
    open_: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a live conversation is found by, as the pool is asked for it: the same words of two
    persons are two conversations, and those of one person with another name or token are one."""
    house = await open_(claude=says("hi"), **COLD)
    found: list[tuple[str | None, str]] = []

    def take(_: Any, hop: Hop, talk: ConversationKey) -> None:
        found.append((talk.before(hop), talk.after(hop, "hi")))

    monkeypatch.setattr(Pool, "_lease", take)
    anna, ben = key_of(house, "anna"), key_of(house, "ben")
    await house.chat(ask("one"), anna)
    change(house, lambda keys: keyfile.renamed(keys, "anna", "Anne"))
    turns = [("user", "one"), ("assistant", "hi"), ("user", "two")]
    later = {**ask(), "messages": [{"role": r, "content": c} for r, c in turns]}
    for person in (ben, anna):
        await house.chat(later, person)
    first, bens, annas = found
    assert first[0] is None
    assert annas[0] == first[1]
    assert bens[0] != first[1]


# --- the system prompt ---------------------------------------------------------------------------


@BOTH
async def test_a_keys_system_prompt_goes_in_front_of_the_clients(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(vibe=says("ok"), **COLD)
    ben = key_of(house, "ben", system_prompt="RULES OF THE HOUSE")
    body = {
        "model": "vibe/m",
        "messages": [
            {"role": "system", "content": "RULES OF THE CLIENT"},
            {"role": "developer", "content": "MORE"},
            {"role": "user", "content": "hi"},
        ],
    }
    asking = house.stream if stream else house.chat
    seen: list[Any] = []
    real = house.service.join

    def join(request: Any, *more: Any) -> Any:
        seen.append(request)
        return real(request, *more)

    house.service.join = join  # type: ignore[method-assign,assignment]
    assert (await asking(body, ben)).text == "ok"
    [request] = seen
    assert request.system == "RULES OF THE HOUSE\n\nRULES OF THE CLIENT\n\nMORE"
    assert len(request.turns) == 1


# --- the command line and the server -------------------------------------------------------------


@pytest.mark.parametrize("first", [False, True])
def test_M4_beyond_this_machine_a_key_is_needed(serve: Serve, tmp_path: Any, first: bool) -> None:
    if first:
        make_key(tmp_path / "state", "anna", owner=True)
    served = serve("--host", "0.0.0.0")
    if not first:
        assert served.wait() == 2
        assert "olp keys add NAME --owner" in served.err
        return
    served.url()
    assert "Keys are on: each request needs one; 1 active" in served.out
    assert "WARNING" not in served.out


def test_M4_anonymous_access_is_loud(serve: Serve) -> None:
    served = serve("--host", "0.0.0.0", "--allow-anonymous")
    served.url()
    assert "WARNING: anyone who reaches this address" in served.out
    assert "olp keys add NAME" in served.out
    [line] = [line for line in served.log if line["event"] == "anonymous_access"]
    assert (line["level"], line["host"]) == ("warn", "0.0.0.0")


def test_M4_keys_that_cannot_be_read_are_told_at_the_start(serve: Serve, tmp_path: Any) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / FILE).write_text("{}")
    served = serve("--host", "0.0.0.0")
    served.url()
    assert "WARNING: every request is rejected, because the keys cannot be read" in served.out


async def test_M4_the_owners_own_commands_need_no_key(open_: OpenHouse) -> None:
    house = await open_()
    key_of(house, "anna")
    (server,) = local_servers(house.place.state)
    assert server.url == house.url
    token = server.token
    local = {"Authorization": f"Bearer {token}"}
    assert (await house.request("GET", "/health", headers=local)).body["keys"] == "on"
    assert (await house.request("POST", "/olp/quota/clear", headers=local)).status == 200
    assert str(token) not in json.dumps(house.log)


async def test_N5_the_sdk_sends_a_key_and_understands_a_refusal(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    anna = key_of(house, "anna", daily_requests=1)
    async with openai.AsyncOpenAI(
        base_url=f"{house.url}/v1", api_key=token_in(anna), max_retries=3
    ) as client:
        messages: Any = [{"role": "user", "content": "hi"}]
        answer = await client.chat.completions.create(model="auto", messages=messages)
        assert answer.choices[0].message.content == "ok"
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="auto", messages=messages)
        assert caught.value.code == "insufficient_quota"
        bad = client.with_options(api_key=new_token())
        with pytest.raises(openai.AuthenticationError) as denied:
            await bad.models.list()
        assert denied.value.code == "invalid_api_key"
    assert house.plan.spawns() == {"claude": 1}


@BOTH
async def test_one_person_who_hangs_does_not_use_up_the_requests_of_another(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(
        claude=[hangs(), hangs(), says("ok")],
        server={"max_requests": 2},
        providers={"claude": {"max_concurrent": 9}},
        **COLD,
    )
    anna, ben = key_of(house, "anna"), key_of(house, "ben")
    asking = [asyncio.ensure_future(house.chat(ask(f"q{n}"), anna)) for n in range(2)]
    await until(lambda: len(house.plan.calls()) == 2, "both run")
    refused(await house.chat(ask("3", stream=stream), anna), 429, "too_many_requests")
    assert (await house.chat(ask("4"), ben)).text == "ok"
    for task in asking:
        task.cancel()
    await house.settled()
