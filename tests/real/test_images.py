"""Images and files on the real CLIs: in a message, in what was said before, and in a result."""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients import CLIENTS, Client

from .agent import (
    TOOL_CLIS,
    WEATHER,
    Agent,
    asked,
    call_marker,
    calls_of,
    conversation,
    last_turns,
    results_in,
)
from .conftest import Clis
from .house import House, configuration, serving
from .test_answers import JSON_SCHEMA, MODELS, WORDS
from .vendors.client import Vendors, turns

every = pytest.mark.parametrize("cli", TOOL_CLIS)
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1"
    b">>endobj 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF\n"
)
PDF_DATA = base64.b64encode(PDF).decode()


def png(width: int, height: int, *, noise: bool = False) -> str:
    """An image in base64, of one colour or of none in particular."""
    dice = random.Random(width * height)
    rows = [dice.randbytes(width * 3) if noise else b"\x20\x80\xc0" * width for _ in range(height)]
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
    data = b"\x89PNG\r\n\x1a\n"
    for kind, chunk in ((b"IHDR", head), (b"IDAT", body), (b"IEND", b"")):
        mark = zlib.crc32(kind + chunk)
        data += struct.pack(">I", len(chunk)) + kind + chunk + struct.pack(">I", mark)
    return base64.b64encode(data).decode()


SMALL, OTHER = png(3, 2), png(5, 5)


def image(data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def pdf() -> dict[str, Any]:
    file = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF_DATA}"}
    return {"type": "file", "file": file}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def size(data: str) -> int:
    return len(base64.b64decode(data))


def told(*images: str) -> str:
    """What the mock says of images that it sees."""
    return "; ".join(f"image image/png {size(data)} bytes" for data in images)


@every
@pytest.mark.parametrize(
    ("tools", "stream"), [((), False), ((WEATHER,), True)], ids=["alone", "with tools"]
)
def test_an_image_reaches_the_vendor_unchanged(
    tooled: House, vendors: Vendors, cli: str, tools: tuple[Any, ...], stream: bool
) -> None:
    agent = Agent(tooled, cli, tools, {"stream": stream})
    answer = agent.say([words("what is this? [[SEE]]"), image(SMALL), image(OTHER)])
    assert (answer.status, answer.text) == (200, told(SMALL, OTHER))
    [sent] = asked(vendors, cli)
    assert sent.body.count(SMALL) == sent.body.count(OTHER) == 1
    assert conversation(agent.say("and? [[OK]]")) == "live"
    assert SMALL in asked(vendors, cli)[-1].body


@every
@pytest.mark.parametrize(("width", "height"), [(1, 1), (400, 380), (1990, 1100)])
def test_an_image_of_any_size_reaches_the_vendor_unchanged(
    tooled: House, vendors: Vendors, cli: str, width: int, height: int
) -> None:
    data = png(width, height, noise=width == 400)
    answer = Agent(tooled, cli).say([words("[[SEE]]"), image(data)])
    assert answer.text == told(data)
    assert data in asked(vendors, cli)[-1].body


@every
@pytest.mark.parametrize(("width", "height"), [(640, 480), (2600, 1400)])
def test_a_large_image_reaches_the_vendor(
    tooled: House, vendors: Vendors, cli: str, width: int, height: int
) -> None:
    """Claude Code itself makes one smaller that has more than 2000 pixels to a side, or more than
    500 kB or so."""
    data = png(width, height, noise=width == 640)
    answer = Agent(tooled, cli).say([words("[[SEE]]"), image(data)])
    assert answer.text.startswith("image image/") and answer.text.count("image/") == 1
    assert answer.text == told(data) or cli == "claude"


@every
def test_images_stand_where_they_stood(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli, ())
    agent.say([words("first"), image(SMALL), words("second"), image(OTHER), words("[[OK]]")])
    body = asked(vendors, cli)[-1].body
    places = [body.index(piece) for piece in ("first", SMALL, "second", OTHER, "[[OK]]")]
    assert places == sorted(places)


@every
def test_an_image_of_before_reaches_the_vendor(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli, ())
    agent.messages = [
        {"role": "user", "content": [words("look"), image(SMALL)]},
        {"role": "assistant", "content": "I see."},
    ]
    answer = agent.say([words("[[SEE]] and this"), image(OTHER)])
    assert (answer.text, conversation(answer)) == (told(OTHER), "replayed")
    [sent] = asked(vendors, cli)
    assert SMALL in sent.body and OTHER in sent.body
    kinds = [turn[0] for turn in turns(sent)]
    assert kinds in (["user", "assistant", "user"], ["user", "assistant", "user", "user"])


@every
def test_an_image_alone_is_a_message(tooled: House, vendors: Vendors, cli: str) -> None:
    assert Agent(tooled, cli, ()).say([image(SMALL)]).text == WORDS
    assert SMALL in asked(vendors, cli)[-1].body


@every
@both
def test_an_image_and_a_schema(tooled: House, vendors: Vendors, cli: str, stream: bool) -> None:
    agent = Agent(tooled, cli, (), {"stream": stream, "response_format": JSON_SCHEMA})
    answer = agent.say([image(SMALL), words('[[JSON:{"answer": 42}]]')])
    assert json.loads(answer.text) == {"answer": 42}
    assert SMALL in asked(vendors, cli)[0].body


@every
def test_an_image_in_a_result(tooled: House, vendors: Vendors, cli: str) -> None:
    agent = Agent(tooled, cli)
    order = call_marker("weather", {"city": "Bern"})
    [call] = calls_of(agent.say(f"camera {order}"))
    answer = agent.give([words("as it looks:"), image(SMALL)])
    assert (answer.status, answer.finish) == (200, "stop")
    assert results_in(last_turns(vendors, cli)) == {call.id: f"as it looks:\n[{told(SMALL)}]"}
    assert SMALL in asked(vendors, cli)[-1].body
    assert calls_of(answer) == []
    assert conversation(agent.say("on [[OK]]")) == "live"


WITH_IMAGES = [client for client in CLIENTS if client.name in ("cline", "open-webui")]


@every
@pytest.mark.parametrize("client", WITH_IMAGES, ids=lambda client: client.name)
def test_programs_that_send_images(
    tooled: House, vendors: Vendors, cli: str, client: Client
) -> None:
    url = f"data:image/png;base64,{SMALL}"
    answer = tooled.post(client.first(MODELS[cli], "[[SEE]]", [url]))
    assert (answer.status, answer.text) == (200, told(SMALL))
    assert SMALL in asked(vendors, cli)[-1].body


# --- files -------------------------------------------------------------------------------------


@both
def test_a_pdf_reaches_claude(tooled: House, vendors: Vendors, stream: bool) -> None:
    agent = Agent(tooled, "claude", (), {"stream": stream})
    answer = agent.say([words("[[SEE]]"), pdf()])
    assert answer.text == f"file application/pdf {len(PDF)} bytes"
    assert PDF_DATA in asked(vendors, "claude")[-1].body
    assert conversation(agent.say("and? [[OK]]")) == "live"


@both
def test_a_hop_that_reads_no_files_is_passed_over(
    tooled: House, vendors: Vendors, stream: bool
) -> None:
    agent = Agent(tooled, "claude", (), {"stream": stream}, model="files")
    answer = agent.say([words("[[SEE]]"), pdf()])
    assert answer.headers["X-OLP-Provider-Used"] == "claude"
    assert answer.headers["X-OLP-Fallback-Hops"] == "1"
    [record] = answer.detail
    assert (record["hop"], record["provider"], record["code"]) == (0, "codex", "INCAPABLE")
    assert asked(vendors, "codex") == []


def test_a_file_that_nobody_can_read_is_refused(tooled: House, vendors: Vendors) -> None:
    answer = Agent(tooled, "codex", ()).say([words("[[SEE]]"), pdf()])
    assert answer.status == 400
    error = answer.json["error"]
    assert (error["code"], error["param"]) == ("unsupported_parameter", "messages")
    assert asked(vendors, "codex") == []


@every
def test_a_file_of_text_is_text(tooled: House, vendors: Vendors, cli: str) -> None:
    data = base64.b64encode("Grüße aus TEXT-MARK".encode()).decode()
    file = {"filename": "notes.txt", "file_data": f"data:text/plain;base64,{data}"}
    answer = Agent(tooled, cli, ()).say([{"type": "file", "file": file}, words("[[OK]]")])
    assert answer.status == 200
    [turn] = last_turns(vendors, cli)
    assert "notes.txt" in turn[1] and "Grüße aus TEXT-MARK" in turn[1]


# --- one process a request ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed_house(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """Its codex is started for each request, and so can neither be offered tools nor see."""
    found = {name: clis.need(name) for name in ("claude", "codex")}
    config = configuration(found, vendor_process)
    config["chains"]["mixed"] = ["codex/gpt-5.5", "claude/sonnet"]
    config["providers"]["codex"]["transport"] = "oneshot"
    with serving(config, tmp_path_factory.mktemp("mixed")) as house:
        yield house


@both
@pytest.mark.parametrize("what", ["tools", "image"])
def test_a_hop_without_a_session_is_passed_over(
    mixed_house: House, vendors: Vendors, stream: bool, what: str
) -> None:
    tools = (WEATHER,) if what == "tools" else ()
    agent = Agent(mixed_house, "claude", tools, {"stream": stream}, model="mixed")
    answer = agent.say("hi [[OK]]" if tools else [words("[[OK]]"), image(SMALL)])
    assert (answer.status, answer.text) == (200, WORDS)
    assert answer.headers["X-OLP-Provider-Used"] == "claude"
    [record] = answer.detail
    assert (record["hop"], record["provider"], record["code"]) == (0, "codex", "INCAPABLE")
    assert asked(vendors, "codex") == []


def test_alone_it_refuses_and_names_the_parameter(mixed_house: House, vendors: Vendors) -> None:
    answer = Agent(mixed_house, "codex").say("hi [[OK]]")
    assert (answer.status, answer.json["error"]["param"]) == (400, "tools")
    seen = Agent(mixed_house, "codex", ()).say([words("[[OK]]"), image(SMALL)])
    assert (seen.status, seen.json["error"]["param"]) == (400, "messages")
