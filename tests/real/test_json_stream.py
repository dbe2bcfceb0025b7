"""R3: answers that were asked for as JSON stream on the real CLIs, and end in an error where their
end does not conform."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import jiter
import pytest

from .agent import WEATHER
from .house import House
from .test_answers import CLIS, JSON_SCHEMA, MODELS, VENDOR
from .vendors.client import Vendors

OBJECT = {"response_format": {"type": "json_object"}}
STRICT = {"response_format": JSON_SCHEMA}
FORCED = {"tools": [WEATHER], "tool_choice": {"type": "function", "function": WEATHER["function"]}}
TAIL_S = 1.0
"""For so long the vendor's answer goes on when all of the JSON is out."""


def streamed(house: House, model: str, prompt: str, more: Mapping[str, Any]) -> list[Any]:
    """The frames of a stream, each with the second in which it came."""
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "stream": True}
    request = urllib.request.Request(
        f"{house.url}/v1/chat/completions", json.dumps({**body, **more}).encode()
    )
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as response:
        return [
            (time.monotonic() - began, json.loads(line[6:]))
            for line in response
            if line.startswith(b"data: ") and line != b"data: [DONE]\n"
        ]


def pieces_of(frames: list[Any]) -> list[tuple[float, str]]:
    """The pieces of the JSON, as text or as the arguments of a call."""
    found = []
    for at, frame in frames:
        delta = frame["choices"][0]["delta"] if frame.get("choices") else {}
        calls = "".join(c["function"].get("arguments", "") for c in delta.get("tool_calls", ()))
        if text := delta.get("content") or calls:
            found.append((at, text))
    return found


@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize(
    ("more", "value", "finish"),
    [
        (OBJECT, {"answer": 42, "why": "because of the question"}, "stop"),
        (STRICT, {"answer": 4_200_000}, "stop"),
        (FORCED, {"city": "Bern an der Aare"}, "tool_calls"),
    ],
    ids=["object", "schema", "call"],
)
def test_R3_json_streams_as_it_comes(
    house: House, vendors: Vendors, cli: str, more: dict[str, Any], value: Any, finish: str
) -> None:
    text = json.dumps(value)
    frames = streamed(house, MODELS[cli], f"[[JSON:{text}]] [[TAIL:{TAIL_S}]]", more)
    pieces = pieces_of(frames)
    assert "".join(piece for _, piece in pieces) == text
    assert frames[-1][1]["choices"][0]["finish_reason"] == finish
    assert len(vendors.requests(VENDOR[cli])) == 1
    if cli == "codex" and _oneshot(house):
        return  # `codex exec` tells all of its text at its end
    assert len(pieces) > (1 if cli == "vibe" else 2), "vibe joins what comes close together"
    assert frames[-1][0] - pieces[0][0] > TAIL_S * 0.8, "long before the end"
    prefixes = ["".join(piece for _, piece in pieces[: n + 1]) for n in range(len(pieces))]
    seen = [
        jiter.from_json(prefix.encode(), partial_mode="trailing-strings") for prefix in prefixes
    ]
    assert seen[-1] == value
    assert all(earlier.keys() <= later.keys() for earlier, later in pairwise(seen)), "it grows"


@pytest.mark.parametrize("cli", CLIS)
def test_R3_a_mismatch_at_the_end_is_an_error(house: House, vendors: Vendors, cli: str) -> None:
    order = '[[JSON:{"answer": "forty-two"}]] [[TAIL:0.3]]'
    if cli == "codex" and _oneshot(house):
        answer = house.chat(order, MODELS[cli], stream=True, **STRICT)
        assert (answer.status, answer.json["error"]["code"]) == (502, "format_mismatch")
        return
    frames = streamed(house, MODELS[cli], order, STRICT)
    assert frames[-1][1]["error"]["code"] == "format_mismatch"
    assert not any(f["choices"][0]["finish_reason"] for _, f in frames if f.get("choices"))
    assert len(vendors.requests(VENDOR[cli])) == 1


def _oneshot(house: House) -> bool:
    return not any(one["waiting"]["ready"] for one in house.health()["providers"].values())
