"""N, M4 and M5: what an HTTP client may rely on, and what it may not do."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import pytest

from olp.cli import compose as composition
from tests.conftest import OpenHouse
from tests.fakes.plan import fails, hangs, says, turn
from tests.support import BOTH, CHAT, Answer, GoOn, House, ask, soon, until

USER = {"role": "user", "content": "hello"}


async def raw(house: House, data: bytes, *, word: bytes = b"") -> bytes:
    """What comes back for `data`, up to `word` or else to the end of the connection."""
    host, _, port = house.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        got: bytes = await soon(reader.readuntil(word) if word else reader.read())
        return got
    finally:
        writer.close()


def check_refused(house: House, answer: Answer, status: int) -> None:
    """A precise error in the API's own shape, and nothing was started."""
    assert answer.status == status, (answer.status, answer.raw)
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.error["message"]
    assert answer.error["type"] == "invalid_request_error"
    assert house.plan.calls() == []


# --- N1: the answer ----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("provider", "usage"), [("claude", (11, 7)), ("codex", (21, 9)), ("vibe", (31, 3))]
)
async def test_N1_an_answer_has_the_shape_of_the_api(
    open_: OpenHouse, provider: str, usage: tuple[int, int], stream: bool
) -> None:
    house = await open_(**{provider: says("a", "b")}, chains={"one": [f"{provider}/m"]})
    body = ask(model="one", stream_options={"include_usage": True} if stream else None)
    answer = await house.ask(stream, body)
    chunks = answer.data if stream else [answer.body]  # type: ignore[attr-defined]
    assert {chunk["object"] for chunk in chunks} == {
        "chat.completion.chunk" if stream else "chat.completion"
    }
    assert len({(chunk["id"], chunk["created"]) for chunk in chunks}) == 1
    assert chunks[0]["id"].startswith("chatcmpl-")
    assert (answer.text, answer.finish) == ("ab", "stop")
    counted = chunks[-1]["usage"]
    assert (counted["prompt_tokens"], counted["completion_tokens"]) == usage
    assert counted["total_tokens"] == sum(usage)
    if stream:
        assert chunks[-1]["choices"] == []
        assert all(chunk["usage"] is None for chunk in chunks[:-1])
        assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


async def test_N1_no_usage_chunk_unless_asked(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    answer = await house.stream()
    assert all("usage" not in chunk and chunk["choices"] for chunk in answer.data)


@BOTH
async def test_N1_every_role_and_text_parts_are_taken(open_: OpenHouse, stream: bool) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": "two", "refusal": None},
        {"role": "user", "content": "three", "name": "anna"},
    ]
    house = await open_(claude=says("four"))
    assert (await house.ask(stream, {"model": "auto", "messages": messages})).text == "four"


@BOTH
@pytest.mark.parametrize("provider", ["claude", "codex", "vibe"])
async def test_N1_a_stop_string_cuts_and_ends_the_process(
    open_: OpenHouse, provider: str, stream: bool
) -> None:
    talk = turn(*(["init"], ["start"], ["say", "one EN"], ["say", "D two"], ["end"], ["sleep", 30]))
    if provider == "claude":
        talk["do"].insert(-2, ["sleep", 30])
    house = await open_(**{provider: talk}, chains={"one": [f"{provider}/m"]})
    answer = await house.ask(stream, ask(model="one", stop=["END"]))
    assert (answer.text, answer.finish) == ("one ", "stop")
    [call] = house.plan.calls()
    await until(lambda: not house.active, "the process is gone", 8)
    assert call.line("ended") is None


@BOTH
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_N1_max_tokens_cuts_and_ends_the_process(
    open_: OpenHouse, name: str, stream: bool
) -> None:
    talk = turn(["init"], ["start"], ["say", "word " * 50], ["end"], ["sleep", 30])
    house = await open_(codex=talk, chains={"one": ["codex/gpt-5.5"]})
    answer = await house.ask(stream, {**ask(model="one"), name: 5})
    assert answer.finish == "length"
    assert 1 <= len(answer.text.split()) <= 6
    await until(lambda: not house.active, "the process is gone", 8)


@BOTH
async def test_N1_a_limit_that_the_cli_keeps_itself_is_handed_on(
    open_: OpenHouse, stream: bool
) -> None:
    talk = turn(["init"], ["start"], ["say", "some"], ["end", "length"])
    house = await open_(claude=talk)
    answer = await house.ask(stream, ask(max_tokens=77))
    assert (answer.text, answer.finish) == ("some", "length")
    assert house.plan.calls()[0].env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "77"


@BOTH
async def test_N1_a_refusal_of_the_model_is_a_content_filter(
    open_: OpenHouse, stream: bool
) -> None:
    talk = turn(["init"], ["start"], ["say", "I cannot"], ["end", "refusal"])
    house = await open_(claude=talk, codex=says("never"))
    answer = await house.ask(stream)
    assert (answer.text, answer.finish) == ("I cannot", "content_filter")


@BOTH
async def test_N1_json_that_does_not_conform_is_an_error(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=[says('{"a": 1}'), says("no JSON")])
    body = ask(response_format={"type": "json_object"})
    assert json.loads((await house.ask(stream, body)).text) == {"a": 1}
    answer = await house.ask(stream, {**body, "messages": [{**USER, "content": "again"}]})
    assert (answer.status, answer.error["code"]) == (502, "format_mismatch")


# --- N2: what cannot be honoured ---------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"logprobs": True},
        {"audio": {"voice": "alloy", "format": "mp3"}},
        {"modalities": ["text", "audio"]},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_N2_what_cannot_be_honoured_is_refused_by_name(
    open_: OpenHouse, more: dict[str, Any], stream: bool
) -> None:
    house = await open_()
    answer = await house.ask(stream, {**ask(), **more})
    check_refused(house, answer, 400)
    assert answer.error["param"] == next(iter(more))


async def test_N2_the_neutral_values_are_accepted(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    neutral = {"n": 1, "logprobs": False, "modalities": ["text"], "audio": None, "seed": None}
    assert (await house.chat({**ask(), **neutral})).text == "ok"


# --- N3: models --------------------------------------------------------------------------------


async def test_N3_the_models_are_listed_with_their_provider(open_: OpenHouse) -> None:
    house = await open_(chains={"evening": ["claude/sonnet"]})
    body = (await house.request("GET", "/v1/models")).body
    assert body["object"] == "list"
    owners = {entry["id"]: entry["owned_by"] for entry in body["data"]}
    assert owners["auto"] == owners["evening"] == "olp"
    assert owners["claude/sonnet"] == "claude"
    assert owners["codex/gpt-5.5"] == "codex"
    for entry in body["data"]:
        one = await house.request("GET", f"/v1/models/{entry['id']}")
        assert one.body == entry
    assert house.plan.calls() == []


async def test_R5_a_model_tells_what_clients_need_to_know(open_: OpenHouse) -> None:
    began = int(time.time())
    house = await open_(
        chains={"evening": ["claude/sonnet", "codex/gpt-5.5", "vibe/m"], "seeing": ["vibe/m"]},
        providers={
            "claude": {"context": {"sonnet": 200_000}, "transport": "auto", "warm": 0},
            "codex": {"context": {"gpt-5.5": 400_000}},
        },
    )
    data = (await house.request("GET", "/v1/models")).body["data"]
    models = {entry["id"]: entry for entry in data}
    reads = {name: entry.get("context_length") for name, entry in models.items()}
    assert reads["claude/sonnet"] == reads["sonnet"] == 200_000
    assert reads["codex/gpt-5.5"] == 400_000
    assert reads["evening"] == 200_000, "what each of them can take"
    for name in ("seeing", "opus"):
        assert not {"context_length", "context_window", "max_model_len"} & models[name].keys()
    assert models["sonnet"]["context_window"] == models["sonnet"]["max_model_len"] == 200_000
    can = {name: entry["capabilities"] for name, entry in models.items()}
    assert can["sonnet"] == dict.fromkeys(("tools", "images", "files", "schema", "effort"), True)
    assert can["codex/gpt-5.5"]["tools"] is False, "as a one-shot it cannot"
    assert can["codex/gpt-5.5"]["schema"] is True
    assert can["evening"]["tools"] is True, "one of its hops can"
    created = {entry["created"] for entry in data}
    assert len(created) == 1 and began <= created.pop() <= time.time()
    assert (await house.request("GET", "/v1/models/sonnet")).body == models["sonnet"]


async def test_R5_a_model_stays_as_old_as_it_was(open_: OpenHouse) -> None:
    house = await open_()
    before = (await house.request("GET", "/v1/models/auto")).body
    found = composition.find_providers(house.server.config)
    await asyncio.sleep(1.1)
    house.server.change(house.server.config, found)
    assert (await house.request("GET", "/v1/models/auto")).body == before


async def test_N3_an_unknown_model_is_404(open_: OpenHouse) -> None:
    house = await open_()
    answer = await house.request("GET", "/v1/models/no/such")
    check_refused(house, answer, 404)
    assert answer.error["code"] == "model_not_found"


# --- N4: what is not a good request ------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("POST", "/chat/completions", 404, "/v1/chat/completions"),
        ("POST", "/v1/v1/chat/completions", 404, "/v1/chat/completions"),
        ("POST", "/v1/chat/completion", 404, "/v1/chat/completions"),
        ("POST", "/v1/chat/completions/", 404, "/v1/chat/completions"),
        ("POST", "//v1/chat/completions", 404, "/v1/chat/completions"),
        ("GET", "/models", 404, "/v1/models"),
        ("GET", "/v1/models/", 404, "/v1/models"),
        ("POST", "/", 405, "GET"),
        ("GET", "/v1/chat/completions", 405, "use POST"),
        ("PUT", "/v1/chat/completions", 405, "use POST"),
        ("DELETE", "/v1/models", 405, "use GET"),
        ("PATCH", "/v1/models", 405, "use GET"),
        ("POST", "/v1/models/auto", 405, "use GET"),
        ("GET", "/olp/quota/refresh", 405, "use POST"),
        ("OPTIONS", "/v1/chat/completion", 404, "/v1/chat/completions"),
        ("POST", "/v1/embeddings", 404, "no embeddings"),
        ("POST", "/embeddings", 404, "no embeddings"),
        ("GET", "/v1/embeddings/", 404, "no embeddings"),
        ("POST", "/v1/images/generations", 404, "no images"),
        ("POST", "/v1/audio/speech", 404, "has no audio"),
        ("POST", "/v1/moderations", 404, "has no moderation"),
        ("POST", "/v1/responses", 404, "POST /v1/chat/completions"),
        ("GET", "/v1/responses/resp_1", 404, "POST /v1/chat/completions"),
        ("POST", "/v1/completions", 404, "as a message to POST /v1/chat/completions"),
        ("POST", "/v1/messages", 404, "Anthropic"),
        ("GET", "/api/tags", 404, "Ollama"),
        ("POST", "/v1/files", 404, "stores no files"),
        ("POST", "/v1/batches", 404, "no batches"),
        ("POST", "/v1/fine_tuning/jobs", 404, "trains no models"),
        ("POST", "/v1/threads", 404, "each request must contain its own"),
        ("POST", "/healthz", 405, "use GET"),
        ("GET", "/no/such/thing", 404, "/v1"),
        ("GET", "/%0d%0aEvil:%201", 404, "/v1"),
    ],
)
async def test_N4_a_wrong_address_or_method_is_told_precisely(
    open_: OpenHouse, method: str, path: str, status: int, word: str
) -> None:
    house = await open_()
    answer = await house.request(method, path, data="{}" if method == "POST" else None)
    check_refused(house, answer, status)
    assert word in answer.error["message"]
    code = {405: "method_not_allowed", 404: "not_found"}[status]
    assert answer.error["code"] in (code, "unsupported_endpoint")
    if status == 405:
        assert answer.headers["Allow"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"42",
        b"true",
        b"{",
        b'{"model": "auto",}',
        b"\xff\xfe",
        b'{"model": "auto\xff"}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"NaN",
        gzip.compress(b"{}", mtime=0),
        b"model=auto&messages=x",
    ],
    ids=lambda body: body[:12].hex(),
)
async def test_N4_a_body_that_is_no_JSON_object_is_400(open_: OpenHouse, body: bytes) -> None:
    house = await open_()
    answer = await house.request("POST", CHAT, data=body)
    check_refused(house, answer, 400)
    assert answer.error["code"] == "invalid_json"


DEEP: dict[str, Any] = {"type": "object"}
for _ in range(200):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


@BOTH
@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 1}, "model"),
        ({"model": ""}, "model"),
        ({"model": "m" * 5000}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [None]}, "messages[0]"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0]"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [USER, {"role": "user", "content": [5]}]}, "messages[1].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": 1}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {"include_usage": "x"}}, "stream_options.include_usage"),
        ({"stop": 5}, "stop"),
        ({"stop": [5]}, "stop[0]"),
        ({"stop": ["x"] * 100}, "stop"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"reasoning_effort": "hard"}, "reasoning_effort"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:40],
)
async def test_N4_a_bad_type_at_any_depth_is_400_with_its_path(
    open_: OpenHouse, more: dict[str, Any], param: str, stream: bool
) -> None:
    house = await open_()
    body = {**ask(), "stream": stream, **more}
    answer = await house.request("POST", CHAT, json=body)
    check_refused(house, answer, 400)
    assert str(answer.error["param"]).startswith(param.partition("[")[0])
    assert answer.error["param"] == param or param in answer.error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "odd"}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": DEEP}}},
        {"messages": [{"role": "user", "content": "a\u0000b"}]},
        {"messages": [{"role": "user", "content": "x", "tool_calls": {}}]},
        {"stop": "\u0000"},
        {"metadata": {"a": [1, {"b": None}]}, "logit_bias": {"1": -100}, "user": 5},
        {"messages": [{"role": "user", "content": "x"}] * 4097},
    ],
)
async def test_N4_an_odd_body_is_never_a_mistake_of_OLP(
    open_: OpenHouse, body: dict[str, Any]
) -> None:
    house = await open_(claude=says("ok"))
    answer = await house.chat({**ask(), **body})
    assert answer.status in (200, 400, 502)
    assert house.logged("unexpected") == []


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        (b"Content-Encoding: gzip\r\nContent-Length: 5\r\n", b"12345"),
        (b"Content-Encoding: deflate\r\nContent-Length: 5\r\n", b"12345"),
        (b"Transfer-Encoding: chunked\r\n", b"zz\r\nxx\r\n"),
        (b"Content-Length: nine\r\n", b"{}"),
        (b"Content-Length: -1\r\n", b"{}"),
        (b"Bad Header\r\n", b""),
    ],
    ids=["gzip", "deflate", "chunks", "length", "negative", "header"],
)
async def test_N4_bad_HTTP_is_400(open_: OpenHouse, headers: bytes, data: bytes) -> None:
    house = await open_(claude=says("never"))
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
    got = await raw(house, head + headers + b"\r\n" + data)
    assert got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), got[:200]
    assert house.plan.calls() == []


async def test_N4_a_line_that_is_no_HTTP_at_all(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"))
    got = await raw(house, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    assert got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert (await house.chat()).text == "ok"


# --- N5: what clients probe --------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer anything"},
        {"x-api-key": "anything"},
        {"Authorization": "Basic eDp5"},
    ],
    ids=["none", "bearer", "x-api-key", "basic"],
)
async def test_N5_without_keys_any_key_will_do(open_: OpenHouse, headers: dict[str, str]) -> None:
    house = await open_(claude=says("ok"))
    assert (await house.chat(None, headers)).text == "ok"
    assert "anything" not in json.dumps(house.plan.calls()[0].env)


@pytest.mark.parametrize("path", ["/", "/v1/models", "/healthz", "/health"])
async def test_N5_HEAD_is_answered_without_a_body(open_: OpenHouse, path: str) -> None:
    house = await open_()
    answer = await house.request("HEAD", path)
    assert (answer.status, answer.raw) == (200, b"")
    assert answer.headers["X-OLP-Request-Id"]


async def test_N5_HEAD_where_only_POST_is_possible_is_405(open_: OpenHouse) -> None:
    house = await open_()
    answer = await house.request("HEAD", CHAT)
    assert (answer.status, answer.raw) == (405, b"")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", "GET, HEAD, OPTIONS"),
        ("/v1/models", "GET, HEAD, OPTIONS"),
        ("/v1/models/auto", "GET, HEAD, OPTIONS"),
        (CHAT, "OPTIONS, POST"),
        ("/olp/quota/clear", "OPTIONS, POST"),
    ],
)
async def test_N5_OPTIONS_tells_the_methods_of_an_address(
    open_: OpenHouse, path: str, allowed: str
) -> None:
    house = await open_()
    answer = await house.request("OPTIONS", path)
    assert (answer.status, answer.raw) == (204, b"")
    assert answer.headers["Allow"] == allowed
    assert "Access-Control-Allow-Origin" not in answer.headers


PAGE = "http://nas.lan:3000"
PREFLIGHT = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@BOTH
async def test_N5_a_configured_origin_may_call(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=says("ok"), server={"cors_origins": [PAGE]})
    before = await house.request("OPTIONS", CHAT, headers=PREFLIGHT)
    assert before.status == 204
    assert before.headers["Access-Control-Allow-Origin"] == PAGE
    assert "POST" in before.headers["Access-Control-Allow-Methods"]
    assert "authorization" in before.headers["Access-Control-Allow-Headers"]
    body = {**ask(), "stream": stream}
    answer = await house.request("POST", CHAT, json=body, headers={"Origin": PAGE})
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert "X-OLP-Provider-Used" in answer.headers["Access-Control-Expose-Headers"]
    assert answer.headers["Vary"] == "Origin"


async def test_N5_an_error_reaches_the_page_too(open_: OpenHouse) -> None:
    house = await open_(claude=fails("rate"), server={"cors_origins": [PAGE]})
    answer = await house.chat(ask(model="claude/sonnet"), {"Origin": PAGE})
    assert answer.status == 429
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE


@pytest.mark.parametrize(
    "origin",
    [
        *(PAGE, "https://evil.example", "null", "http://localhost:4567", "file://", "FILE://"),
        *("file:///home", "content://x", "blob:http://x", "data:,x", "evil.example", "x", "://x"),
    ],
)
@pytest.mark.parametrize("method", ["OPTIONS", "POST", "GET"])
async def test_M4_a_page_that_nobody_configured_may_not(
    open_: OpenHouse, method: str, origin: str
) -> None:
    house = await open_(claude=says("never"), server={"cors_origins": ["http://other.lan"]})
    path = "/v1/models" if method == "GET" else CHAT
    headers = {**PREFLIGHT, "Origin": origin}
    data = json.dumps(ask()) if method == "POST" else None
    answer = await house.request(method, path, headers=headers, data=data)
    check_refused(house, answer, 403)
    assert answer.error["code"] == "origin_not_allowed"
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("origin", ["app://obsidian.md", "vscode-webview://0a-b", "tauri://x:1"])
async def test_N5_an_app_of_its_own_kind_may_call(open_: OpenHouse, origin: str) -> None:
    house = await open_(claude=says("ok"))
    answer = await house.request("POST", CHAT, json=ask(), headers={"Origin": origin})
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == origin


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:4567", 200),
        ("127.0.0.1:4567", 200),
        ("[::1]:4567", 200),
        ("192.168.1.7", 200),
        ("nas.local:4567", 200),
        ("my-nas", 200),
        ("evil.example", 403),
        ("evil.example:4567", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.1@evil.example", 403),
        ("evil.example#127.0.0.1", 403),
        ("[::1]evil.com", 403),
        ("[::1]:80evil.com", 403),
        ("[::1]:80@evil.com", 403),
        ("[evil.com]", 403),
        ("[127.0.0.1]", 200),
        ("127.0.0.1:80@evil.com", 403),
        ("127.0.0.1:evil.com", 403),
        ("localhost:80:80", 403),
        ("localhost/.evil.com", 403),
        ("localhost\t.evil.com", 403),
        ("ｌocalhost", 403),
        ("", 403),
    ],
)
async def test_M4_a_foreign_name_for_this_machine_is_refused(
    open_: OpenHouse, host: str, status: int
) -> None:
    house = await open_(server={"allowed_hosts": ["my-nas"]})
    for path in ("/v1/models", "/health"):
        answer = await house.request("GET", path, headers={"Host": host})
        assert answer.status == status, path
        if status == 403:
            check_refused(house, answer, 403)


# --- M5: limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
async def test_M5_a_body_over_the_limit_is_413(open_: OpenHouse, chunked: bool) -> None:
    house = await open_(server={"max_body_mb": 0.5})

    async def pieces() -> Any:
        for _ in range(20):
            yield b" " * 65_536

    data = pieces() if chunked else b" " * 1_200_000
    answer = await house.request("POST", CHAT, data=data)
    check_refused(house, answer, 413)


async def test_M5_a_small_body_that_unpacks_to_a_large_one_is_413(open_: OpenHouse) -> None:
    house = await open_(server={"max_body_mb": 0.5})
    data = gzip.compress(b" " * 10_000_000)
    answer = await house.request("POST", CHAT, data=data, headers={"Content-Encoding": "gzip"})
    check_refused(house, answer, 413)


async def test_M5_too_many_messages_are_400(open_: OpenHouse) -> None:
    house = await open_(server={"max_messages": 3})
    answer = await house.chat({"model": "auto", "messages": [USER] * 4})
    check_refused(house, answer, 400)
    assert answer.error["param"] == "messages"


async def test_M5_a_body_that_does_not_come_is_408(open_: OpenHouse) -> None:
    house = await open_(server={"body_timeout_s": 0.3})
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    data = f"{head}Content-Length: 100\r\n\r\n{{".encode()
    got = await raw(house, data, word=b"request_timeout")
    assert got.startswith(b"HTTP/1.1 408 ")


async def test_M5_one_caller_has_so_many_requests_and_no_more(
    open_: OpenHouse, go_on: GoOn
) -> None:
    slow = turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"])
    house = await open_(claude=slow, server={"max_requests": 2})
    first = [asyncio.ensure_future(house.chat(ask(f"q{n}"))) for n in range(2)]
    await until(lambda: len(house.plan.calls()) == 2, "two run")
    answer = await house.chat(ask("one too many"))
    assert (answer.status, answer.error["code"]) == (429, "too_many_requests")
    assert int(answer.headers["Retry-After"]) > 0
    go_on.now()
    assert [done.text for done in await asyncio.gather(*first)] == ["ok", "ok"]
    assert (await house.chat(ask("now"))).text == "ok"


async def test_M5_a_caller_who_left_is_not_counted(open_: OpenHouse) -> None:
    house = await open_(claude=[hangs(), hangs(), says("ok")], server={"max_requests": 2})
    first = [asyncio.ensure_future(house.chat(ask(f"q{n}"))) for n in range(2)]
    await until(lambda: len(house.plan.calls()) == 2, "two run")
    for task in first:
        task.cancel()
    await until(lambda: not house.active, "both are gone")
    assert (await house.chat(ask("now"))).text == "ok"


async def test_M8_healthz_is_open_and_tells_nothing(open_: OpenHouse) -> None:
    house = await open_()
    answer = await house.request("GET", "/healthz", headers={"Host": "evil.example"})
    assert (answer.status, answer.body) == (200, {"status": "alive"})


async def test_M8_health_comes_from_finished_requests(open_: OpenHouse) -> None:
    house = await open_(claude=fails("rate"), codex=says("ok"))
    before = (await house.request("GET", "/health")).body["providers"]
    assert {report["state"] for report in before.values()} == {"unknown"}
    await house.chat()
    await house.settled()
    after = (await house.request("GET", "/health")).body["providers"]
    assert after["claude"]["state"] == "failing"
    assert after["claude"]["last_failure"]["code"] == "RATE_LIMITED"
    assert (after["codex"]["state"], after["vibe"]["state"]) == ("ok", "unknown")
