"""M2, M5, M6, M8: a real server process against hostile clients, hostile models and broken CLIs.

After each of them the next client gets its answer.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Serve
from tests.fakes.plan import Action, Plan, Turn, fails, says, turn
from tests.hostile.test_connections import at
from tests.pictures import png
from tests.support import CHAT, PATIENCE_S, Served, ask

MODELS = {"claude": "claude/sonnet", "codex": "codex/gpt-5.5", "vibe": "vibe/mistral-medium-3.5"}


def post(url: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Status and JSON of one chat completion."""
    request = urllib.request.Request(url + CHAT, json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def read(url: str, path: str) -> bytes:
    with urllib.request.urlopen(url + path, timeout=PATIENCE_S) as response:
        assert response.status == 200
        return bytes(response.read())


def said(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def well(served: Served, url: str, model: str = MODELS["claude"]) -> None:
    """Everything that a client and the owner look at works, and nothing was a mistake of OLP's."""
    status, answer = post(url, ask("are you well?", model=model))
    assert (status, said(answer)) == (200, "well"), answer
    assert json.loads(read(url, "/health"))["status"] == "ok"
    assert b"olp_requests_total" in read(url, "/metrics")
    assert json.loads(read(url, "/olp/usage"))
    assert served.process.poll() is None
    mistakes = {line["event"] for line in served.log if line["level"] == "error"}
    assert mistakes <= {"fallback_chain_exhausted"}, served.err


# --- clients -------------------------------------------------------------------------------------

BODY = json.dumps(ask("hi", model=MODELS["claude"])).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
POST, LOCAL = b"POST /v1/chat/completions HTTP/1.1\r\n", b"Host: localhost\r\n"
GET = b"GET /v1/models HTTP/1.1\r\n"

REFUSED: dict[str, tuple[bytes, int]] = {
    "no host": (POST + LENGTH + b"\r\n" + BODY, 400),
    "a host behind an address": (GET + b"Host: [::1]evil.com\r\n\r\n", 403),
    "a host behind a user": (GET + b"Host: 127.0.0.1:80@evil.com\r\n\r\n", 403),
    "a page on the disk": (GET + LOCAL + b"Origin: file://\r\n\r\n", 403),
    "an unknown encoding": (POST + LOCAL + b"Content-Encoding: rot13\r\n" + LENGTH + b"\r\n", 415),
    "what is not expected": (POST + LOCAL + b"Expect: x\r\n" + LENGTH + b"\r\n", 417),
    "an unknown method": (b"BREW /v1/models HTTP/1.1\r\n" + LOCAL + b"\r\n", 501),
    "the wrong method": (b"DELETE /v1/models HTTP/1.1\r\n" + LOCAL + b"\r\n", 405),
    "too many headers": (GET + LOCAL + b"".join(b"X-%d: y\r\n" % n for n in range(5000)), 431),
    "a long header": (GET + LOCAL + b"X: " + b"y" * 100_000 + b"\r\n\r\n", 431),
    "raw bytes in the path": (b"GET /v1/\xff\xfe HTTP/1.1\r\n" + LOCAL + b"\r\n", 400),
    "a terabyte": (POST + LOCAL + b"Content-Length: 1000000000000\r\n\r\n", 413),
    "nested JSON": (
        POST + LOCAL + b"Content-Length: 200000\r\n\r\n" + b"[" * 100_000 + b"]" * 100_000,
        400,
    ),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
}


def raw(url: str, data: bytes, *, half: bool = False) -> http.client.HTTPResponse:
    """What comes back for these bytes."""
    client = socket.create_connection(at(url), timeout=5)
    client.sendall(data)
    if half:
        client.shutdown(socket.SHUT_WR)
    response = http.client.HTTPResponse(client)
    response.begin()
    return response


def test_M5_what_is_no_request_is_refused_in_the_apis_own_shape(serve: Serve, plan: Plan) -> None:
    plan.set(claude=says("well"))
    served = serve()
    url = served.url()
    for name, (data, status) in REFUSED.items():
        response = raw(url, data)
        error = json.loads(response.read())["error"]
        assert (name, response.status) == (name, status), error
        assert {*error} == {"message", "type", "param", "code"} and error["message"], name
        assert response.headers["Server"] == "olp", name
    assert "Allow" in raw(url, REFUSED["the wrong method"][0]).headers
    assert plan.calls() == []
    half_closed = raw(url, POST + LOCAL + LENGTH + b"\r\n" + BODY, half=True)
    assert said(json.loads(half_closed.read())) == "well"
    well(served, url)


def test_M5_what_a_client_repeats_does_not_fill_the_log(serve: Serve, plan: Plan) -> None:
    plan.set(claude=says("well"))
    served = serve()
    url = served.url()
    for _ in range(300):
        with socket.create_connection(at(url), timeout=5) as client:
            client.sendall(b"NONSENSE\r\n\r\n")
            client.recv(100)
    well(served, url)
    assert len(served.log) < 60 and "%s" not in served.err


def test_M5_image_bombs_cost_nothing(serve: Serve, plan: Plan) -> None:
    plan.set(claude=says("well"))
    served = serve()
    url = served.url()
    for width, height, count in ((60_000, 60_000, 1), (6_000, 6_000, 20)):
        data = base64.b64encode(png(width, height)).decode()
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        body = ask("x", model=MODELS["codex"])
        status, answer = post(
            url, {**body, "messages": [{"role": "user", "content": [part] * count}]}
        )
        assert status == 400 and "pixels" in answer["error"]["message"], answer
    assert plan.calls() == []
    well(served, url)


def test_M5_a_second_server_over_the_same_folder_is_refused(serve: Serve, plan: Plan) -> None:
    plan.set(claude=says("well"))
    served = serve()
    url = served.url()
    well(served, url)
    other = serve()
    assert other.wait() != 0 and "a server runs over the folder" in other.err


@pytest.mark.parametrize("cli", MODELS)
def test_D3_a_client_that_waits_its_turn_is_never_sent_away(
    serve: Serve, plan: Plan, cli: str
) -> None:
    plan.set(**{cli: says("well")})
    served = serve(providers={cli: {"max_concurrent": 1}}, routing={"queue_s": 0})
    url = served.url()
    assert [post(url, ask(f"{n}", model=MODELS[cli]))[0] for n in range(20)] == [200] * 20


# --- models and CLIs -----------------------------------------------------------------------------


def lines(*values: Any) -> list[Action]:
    return [["json", value] for value in values]


def limit(**info: Any) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", **info}}


def result(**more: Any) -> dict[str, Any]:
    told = {"type": "result", "subtype": "success", "is_error": False, "result": "odd"}
    return {**told, "usage": {"input_tokens": 1, "output_tokens": 1}, **more}


ODD: tuple[Any, ...] = ("soon", -1, 10**400, True, None, [], {}, "1e400", 0.5, 2**70)
"""Where a number is expected."""

BROKEN: dict[str, list[Action]] = {
    "times": lines(*(limit(resetsAt=odd, rateLimitType="five_hour") for odd in ODD)),
    "shares": lines(*(limit(utilization=odd, rateLimitType="seven_day") for odd in ODD)),
    "counts": [*lines(*(result(usage={"input_tokens": odd, "output_tokens": odd}) for odd in ODD))],
    "costs": lines(*(result(total_cost_usd=odd) for odd in (*ODD, "free"))),
    "infinite": [["raw", '{"type": "result", "usage": {"input_tokens": 1e400}}\n']],
    "no number": [["raw", '{"type": "result", "usage": {"input_tokens": NaN}}\n']],
    "models": lines(
        *(
            {"type": "stream_event", "event": {"type": "message_start", "message": {"model": odd}}}
            for odd in ODD
        )
    ),
    "nested": [["raw", "[" * 100_000 + "\n"]],
    "no JSON": [["raw", "\x00\x01 not JSON\n"], ["hex", "fffefd0a"]],
    "other types": lines(
        {"type": 5}, {"type": None}, [], 7, "x", {"event": 5, "type": "stream_event"}
    ),
    "a line without end": [["raw", "x" * 3_000_000]],
}


@pytest.mark.parametrize("name", BROKEN)
def test_M8_whatever_a_broken_cli_says_costs_its_own_answer_alone(
    serve: Serve, plan: Plan, name: str
) -> None:
    broken: Turn = turn(["init"], ["start"], *BROKEN[name], ["say", "odd"], ["end"], when="break")
    plan.set(claude=[broken, says("well")])
    served = serve()
    url = served.url()
    for _ in range(2):
        status, _ = post(url, ask("break", model=MODELS["claude"]))
        assert status in (200, 502, 504)
        well(served, url)
    end = time.monotonic() + PATIENCE_S
    while json.loads(read(url, "/olp/usage"))["total"]["requests"] < 4:
        assert time.monotonic() < end, "a row is lost"
        time.sleep(0.05)


TOOLS: dict[str, list[Action]] = {
    "its own": [["tool", "Bash"]],
    "the vendor's": lines(
        {
            "type": "stream_event",
            "event": {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search"},
            },
        }
    ),
    "one that no event shows": lines(
        {
            "type": "assistant",
            "message": {"content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
        }
    ),
    "a block of a kind unknown": lines(
        {
            "type": "stream_event",
            "event": {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "quantum_tool_use", "id": "q", "name": "x"},
            },
        }
    ),
}


@pytest.mark.parametrize("name", TOOLS)
def test_M2_a_tool_of_the_clis_own_is_never_answered(serve: Serve, plan: Plan, name: str) -> None:
    """And a prompt that brings one about opens no circuit for the others."""
    wild: Turn = turn(["init"], ["start"], *TOOLS[name], ["say", "done"], ["end"], when="wild")
    plan.set(claude=[wild, says("well")])
    served = serve()
    url = served.url()
    for _ in range(6):
        status, answer = post(url, ask("wild", model=MODELS["claude"]))
        assert status == 502 and "done" not in json.dumps(answer), answer
    well(served, url)


SECRETS = (
    "http://user:hunter2@vendor.example/x",
    "https://vendor.example/?key=hunter2",
    "sessionid=hunter2hunter2hunter2",
    "日本sk-ant-hunter2hunter2hunter2hunter2",
)


def test_M3_secrets_in_a_clis_words_reach_neither_client_nor_log(serve: Serve, plan: Plan) -> None:
    told = " and ".join(SECRETS)
    plan.set(claude=fails("unknown", text=told), codex=fails("unknown", text=told))
    served = serve()
    url = served.url()
    for model in (MODELS["claude"], MODELS["codex"]):
        status, answer = post(url, ask("x", model=model))
        assert status >= 400 and "hunter2" not in json.dumps(answer, ensure_ascii=False)
    assert "hunter2" not in served.err
    assert "hunter2" not in read(url, "/health").decode()


# --- what a killed server and its CLIs leave -----------------------------------------------------


def test_M6_what_a_killed_server_left_does_not_stop_the_next_start(
    serve: Serve, plan: Plan, tmp_path: Path
) -> None:
    """Thousands of nested folders in a private folder, and files in the working directory."""
    plan.set(claude=says("well"))
    first = serve()
    url = first.url()
    well(first, url)
    (run,) = (tmp_path / "state" / "runs").iterdir()
    work = Path(plan.calls()[-1].start["cwd"])
    first.signal(signal.SIGKILL)
    first.wait()
    folder = tmp_path / "state" / "private" / f"{run.name}-left"
    folder.mkdir(parents=True)
    inner = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=inner)
        outer, inner = inner, os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)
    work.mkdir(exist_ok=True)
    (work / "CLAUDE.md").write_text("obey")
    (work / "deep").mkdir()
    again = serve()
    url = again.url()
    well(again, url)
    assert not folder.exists()
    assert plan.calls()[-1].start["listing"] == []
