"""A public API is one file: a toy one, found in `olp.dialects`, is served beside the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

import olp.dialects
from olp.dialects import all_dialects, dialect_at
from tests.conftest import OpenHouse
from tests.fakes.plan import fails, says
from tests.server.people import key_of
from tests.support import House

TOY = '''
"""Lines of text: the model on the first, the question on the others."""

from __future__ import annotations

from dataclasses import dataclass

from olp.dialects.base import Bounds, Route, Serves
from olp.errors import RequestError
from olp.events import Answering, Done, Failed, Text
from olp.model import Message, Request, Role


@dataclass(frozen=True, slots=True)
class Order:
    request: Request


class Encoder:
    media_type = "text/plain"
    keep_alive = b""

    def event(self, output):
        match output:
            case Answering(model=model):
                return f"{model}: ".encode()
            case Text(text):
                return text.encode()
            case Failed(code):
                return f" BROKEN {code}".encode()
            case Done():
                return b" END"
        return b""

    def error(self, error):
        return f" BROKEN {error.message}".encode()


class Toy:
    name = "toy"
    rank = 9
    base = ("toy_base", "/toy")
    routes = (
        Route("POST", "/toy/{stream:ask|tell}", Serves.ANSWER),
        Route("GET", "/toy/models", Serves.MODELS),
        Route("GET", "/toy/models/{id:.+}", Serves.MODEL),
        Route("POST", "/toy/count", Serves.LOCAL, lambda path, body: {"bytes": len(body)}),
    )

    def owns(self, path):
        return path.startswith("/toy")

    def absent(self, path):
        return "the toy does not sing" if path == "/toy/song" else None

    def model_in(self, body):
        return body.decode().partition("\\n")[0]

    def decode(self, body, bounds: Bounds, variables):
        model, _, text = body.decode().partition("\\n")
        if not text:
            raise RequestError("say something")
        messages = (Message(Role.USER, text),)
        return Order(Request(model, messages, stream=variables["stream"] == "tell"))

    def encoder(self, order, *, id, created):
        return Encoder()

    def whole(self, order, outputs, *, id, created):
        return b"".join(map(Encoder().event, outputs))

    def refused(self, end):
        return f"NO: {end.failed.code}".encode()

    def error(self, error):
        return f"NO: {error.message}".encode()

    def models(self, entries):
        return [entry.id for entry in entries]

    def model(self, entry):
        return entry.id


DIALECT = Toy()
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "dialects"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY, "utf-8")
    monkeypatch.setattr(olp.dialects, "__path__", [*olp.dialects.__path__, str(folder)])
    yield
    sys.modules.pop("olp.dialects.toy", None)
    vars(olp.dialects).pop("toy", None)


async def asked(house: House, path: str, body: str = "", method: str = "POST") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, house.url + path, data=body.encode()) as response,
    ):
        return response.status, await response.text()


async def test_a_toy_dialect_is_served_whole_and_streamed(toy: None, open_: OpenHouse) -> None:
    house = await open_(claude=says("hello"))
    for path in ("/toy/ask", "/toy/tell"):
        status, text = await asked(house, path, "claude/sonnet\nhi")
        assert status == 200 and text.startswith("claude") and text.endswith(": hello END")
    assert (await house.chat()).text == "hello", "and the other API as before"
    assert await dialects_in_log(house) == {"toy", "openai-chat"}


async def dialects_in_log(house: House) -> set[str]:
    await house.settled()
    return {row[0] for row in house.service.lasting.store.read("SELECT dialect FROM requests")}


async def test_every_error_on_its_paths_is_in_its_words(toy: None, open_: OpenHouse) -> None:
    house = await open_(claude=fails("quota"))
    assert await asked(house, "/toy/ask", "nothing") == (400, "NO: say something")
    assert (await asked(house, "/toy/ask", "no-such-model\nhi"))[1].startswith("NO: ")
    assert await asked(house, "/toy/ask", "claude/sonnet\nhi") == (429, "NO: QUOTA_EXHAUSTED")
    assert (await asked(house, "/toy/nowhere"))[1].startswith("NO: there is nothing at")
    assert await asked(house, "/toy/song") == (404, "NO: the toy does not sing.")
    assert (await asked(house, "/toy/ask", method="GET"))[1].startswith("NO: GET is not possible")
    assert (await asked(house, "/v1/nowhere"))[1].startswith('{"error"')
    key_of(house, "anna")
    assert (await asked(house, "/toy/ask", "claude/sonnet\nhi"))[0] == 401
    assert (await asked(house, "/toy/ask", "claude/sonnet\nhi"))[1].startswith("NO: ")


async def test_its_models_and_what_it_answers_by_itself(toy: None, open_: OpenHouse) -> None:
    house = await open_(claude=says("hello"))
    status, text = await asked(house, "/toy/models", method="GET")
    assert status == 200 and '"auto"' in text
    assert await asked(house, "/toy/models/auto", method="GET") == (200, '"auto"')
    assert await asked(house, "/toy/count", "12345") == (200, '{"bytes":5}')
    root = (await asked(house, "/", method="GET"))[1]
    assert '"openai_base":"/v1"' in root and '"toy_base":"/toy"' in root
    assert house.plan.spawns() == {}


def test_the_first_one_words_what_nobody_owns(toy: None) -> None:
    names = [dialect.name for dialect in all_dialects()]
    assert (names[0], names[-1]) == ("openai-chat", "toy")
    assert dialect_at("/toy/x", all_dialects()).name == "toy"
    assert dialect_at("/elsewhere", all_dialects()).name == "openai-chat"
