"""GET /connect: one plain page, for whoever has a key and a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest

from olp.connect import all_clients
from olp.connect.base import Client, Snippet, Target
from olp.connect.page import page
from tests.conftest import OpenHouse
from tests.fakes.plan import says
from tests.server.people import key_of, token_in
from tests.support import House


class Reader(HTMLParser):
    """The tags of a page, their attributes, and the text of each <pre>."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.pres: list[str] = []
        self.style = ""
        self._in_pre = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "pre":
            self.pres.append("")
            self._in_pre = True

    def handle_endtag(self, tag: str) -> None:
        self._in_pre = False

    def handle_data(self, data: str) -> None:
        if self._in_pre:
            self.pres[-1] += data
        if self.tags[-1:] == ["style"]:
            self.style = self.style or data


async def shown(house: House, **headers: str) -> str:
    answer = await house.request("GET", "/connect", headers=headers)
    assert answer.status == 200, answer.raw
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    return answer.raw.decode()


async def test_it_shows_what_a_client_needs(open_: OpenHouse) -> None:
    house = await open_(chains={"auto": ["claude/sonnet"], "kids": ["claude/haiku"]})
    text = await shown(house)
    base = f"{house.url}/v1"
    assert f"<code>{base}</code>" in text
    assert "<code>auto</code>" in text and "<code>kids</code>" in text
    assert "none is needed" in text
    target = Target(base, "olp", sees=False)  # a CLI that is started for each answer sees none
    expected = [s.text for c in all_clients().values() for s in c.snippets(target)]
    assert Reader(text).pres == expected
    assert "public HTTPS address" in text, "Cursor says why"


async def test_it_tells_clients_what_the_model_takes(open_: OpenHouse) -> None:
    known = {"context": {"sonnet": 64_000}, "transport": "auto", "warm": 0}
    house = await open_(chains={"auto": ["claude/sonnet"]}, providers={"claude": known})
    target = Target(f"{house.url}/v1", "olp", context=64_000)
    expected = [s.text for c in all_clients().values() for s in c.snippets(target)]
    assert Reader(await shown(house)).pres == expected
    assert '"context": 64000' in "".join(expected)


async def test_the_address_is_the_one_that_the_caller_used(open_: OpenHouse) -> None:
    house = await open_()
    text = await shown(house, Host="nas.local:4567")
    assert "<code>http://nas.local:4567/v1</code>" in text


@pytest.mark.parametrize("host", ['a"onload=x', "a<b>", "a b", "a/b", "u@h", "a:99999999", "$(id)"])
async def test_an_address_that_is_none(open_: OpenHouse, host: str) -> None:
    house = await open_()
    headers = {"Host": host, **key_of(house, "anna")}
    answer = await house.request("GET", "/connect", headers=headers)
    assert answer.status == 400 and host.encode() not in answer.raw


async def test_no_script_no_form_nothing_from_elsewhere(open_: OpenHouse) -> None:
    house = await open_()
    answer = await house.request("GET", "/connect")
    text = answer.raw.decode()
    read = Reader(text)
    assert not {"script", "form", "input", "iframe", "img", "link", "a", "object"} & set(read.tags)
    assert read.attributes <= {"lang", "charset", "name", "content", "class"}
    policy = answer.headers["Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(read.style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert len(answer.raw) < 20_000


def test_everything_is_escaped() -> None:
    evil = "<script>alert('1')</script>\"&"
    client = Client(
        evil,
        evil,
        lambda target: (Snippet(evil, "sh", target.base + evil),),
        notes=(evil,),
        warning=evil,
        cannot=evil,
    )
    text = page(Target(evil, evil, evil), [evil], [client], name=evil)
    assert "<script" not in text
    assert unescape(text).count(evil) >= 8


async def test_with_keys_on_it_needs_one(open_: OpenHouse) -> None:
    house = await open_(claude=says("hi"), chains={"kids": ["claude/haiku"]})
    anna = key_of(house, "anna", chains=("kids",))
    answer = await house.request("GET", "/connect")
    assert (answer.status, answer.headers["Content-Type"]) == (401, "application/json")
    assert answer.headers["WWW-Authenticate"].startswith('Basic realm="OLP')
    text = await shown(house, **anna)
    assert "Hello anna." in text
    models = re.search(r"<dt>Models</dt><dd>(.*?)</dd>", text)
    assert models is not None and models[1] == "<code>kids</code>", "only what she may ask for"
    assert "YOUR_KEY" in text
    assert token_in(anna) not in text, "a key never comes back"
    assert '"name": "kids"' in "".join(Reader(text).pres), "and the snippets ask for it"


async def test_a_browsers_own_dialog_is_enough(open_: OpenHouse) -> None:
    house = await open_(claude=says("hi"))
    token = token_in(key_of(house, "anna"))

    def basic(text: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}

    assert "Hello anna." in await shown(house, **basic(f"whoever:{token}"))
    for wrong in ("anna:nope", token, f"{token}:", ""):
        answer = await house.request("GET", "/connect", headers=basic(wrong))
        assert answer.status == 401, wrong
    answer = await house.request("GET", "/connect", headers={"Authorization": "Basic %%%"})
    assert answer.status == 401
    for path in ("/v1/models", "/health", "/"):
        answer = await house.request("GET", path, headers=basic(f"anna:{token}"))
        assert answer.status == 401, "a browser would send it unasked"


async def test_other_methods_and_pages_of_others(open_: OpenHouse) -> None:
    house = await open_()
    assert (await house.request("POST", "/connect", data=json.dumps({}))).status == 405
    assert (await house.request("HEAD", "/connect")).status == 200
    origin = {"Origin": "http://evil.example"}
    assert (await house.request("GET", "/connect", headers=origin)).status == 403
