"""The X-OLP headers as pure functions of what happened."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.events import Answering, ErrorCode, Failed, HopRecord, Refused, TriggerType
from olp.server import headers

RECORD = HopRecord(0, "claude", "sonnet", "OVERLOADED", "no", TriggerType.HARD)


def refused(**more: object) -> Refused:
    values: dict[str, object] = {
        "provider": "claude",
        "model": "sonnet",
        "hops": 3,
        "failed": Failed(ErrorCode.OVERLOADED, "no"),
        "status": 503,
        "advice": "wait",
        "records": (RECORD,),
        "exhausted": ("claude", "codex", "vibe"),
    }
    return Refused(**(values | more))  # type: ignore[arg-type]


def test_A2_a_clean_first_hop() -> None:
    given = headers.answered(Answering("claude", "claude-sonnet-5", 0), show_detail=True)
    assert given == {
        "X-OLP-Provider-Used": "claude",
        "X-OLP-Model-Used": "claude-sonnet-5",
        "X-OLP-Fallback-Hops": "0",
        "X-OLP-Cache": "miss",
    }


@pytest.mark.parametrize("cache", ["hit", "miss", "bypass"])
def test_H3_the_cache_header(cache: str) -> None:
    head = Answering("claude", "sonnet", 0, cache=cache)
    assert headers.answered(head, show_detail=True)["X-OLP-Cache"] == cache


@pytest.mark.parametrize(("model", "used"), [("sonnet", "sonnet"), ("", "unknown"), ("\r\n", "?")])
def test_I1_an_early_error_was_served_by_nobody(model: str, used: str) -> None:
    assert headers.early(model) == {
        "X-OLP-Provider-Used": "none",
        "X-OLP-Model-Used": used,
        "X-OLP-Fallback-Hops": "0",
        "X-OLP-Cache": "bypass",
    }


def test_I2_a_success_after_a_failure_carries_the_detail() -> None:
    head = Answering("codex", "gpt-5.5", 1, (RECORD,))
    detail = json.loads(headers.answered(head, show_detail=True)["X-OLP-Fallback-Detail"])
    assert detail[0]["code"] == "OVERLOADED"


def test_I2_a_refusal_without_any_record_carries_none() -> None:
    assert headers.DETAIL not in headers.refused(refused(records=()), show_detail=True)


def test_I6_who_may_not_see_the_detail_does_not_get_it() -> None:
    head = Answering("codex", "gpt-5.5", 1, (RECORD,))
    assert headers.DETAIL not in headers.answered(head, show_detail=False)
    hidden = headers.refused(refused(), show_detail=False)
    assert headers.DETAIL not in hidden
    assert hidden["X-OLP-Fallback-Exhausted"] == "claude,codex,vibe"


def test_A5_an_exhausted_chain() -> None:
    given = headers.refused(refused(), show_detail=True)
    assert given["X-OLP-Provider-Used"] == "claude"
    assert given["X-OLP-Model-Used"] == "sonnet"
    assert given["X-OLP-Fallback-Hops"] == "3"
    assert given["X-OLP-Fallback-Exhausted"] == "claude,codex,vibe"
    assert json.loads(given["X-OLP-Fallback-Detail"])[0]["hop"] == 0


def test_A5_a_chain_of_one_hop_has_no_exhausted_header() -> None:
    assert headers.EXHAUSTED not in headers.refused(refused(exhausted=()), show_detail=True)


def test_I9_an_exhausted_chain_is_not_to_be_retried() -> None:
    given = headers.refused(refused(retry_after=90), show_detail=True)
    assert given["x-should-retry"] == "false"
    assert given["Retry-After"] == "90"


def test_D3_a_saturated_chain_may_be_retried() -> None:
    given = headers.refused(refused(retry=True, retry_after=2), show_detail=True)
    assert "x-should-retry" not in given
    assert given["Retry-After"] == "2"


def test_K_no_retry_after_where_none_is_known() -> None:
    assert "Retry-After" not in headers.refused(refused(), show_detail=True)


def test_I8_ignored_parameters_are_listed() -> None:
    given = headers.ignored(("seed", "temperature", "top_p"))
    assert given == {"X-OLP-Ignored-Params": "seed,temperature,top_p"}
    assert headers.ignored(()) == {}


def test_I8_the_list_of_ignored_parameters_has_an_end() -> None:
    names = tuple(f"param_{index}" for index in range(10_000))
    assert len(headers.ignored(names)["X-OLP-Ignored-Params"]) <= 1024


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("a\r\nSet-Cookie: x", "a?Set-Cookie: x"),
        ("Grüße", "Gr?e"),
        ("  x  ", "x"),
        ("a\0b\x7fc", "a?b?c"),
        ("\ud800", "?"),
    ],
)
def test_I7_what_a_client_sent_is_sanitised(text: str, value: str) -> None:
    assert headers.safe(text) == value


@given(st.text(st.characters()), st.integers(1, 200))
def test_I7_whatever_it_sent(text: str, limit: int) -> None:
    value = headers.safe(text, limit)
    assert value.isascii() and value.isprintable()
    assert len(value) <= limit


@given(st.text(st.characters()))
def test_I5_no_header_can_be_broken_by_a_name(text: str) -> None:
    made = [
        headers.early(text),
        headers.answered(Answering("claude", text, 0), show_detail=True),
        headers.refused(refused(model=text), show_detail=True),
        dict(headers.ignored((text,))),
    ]
    for name, value in [pair for each in made for pair in each.items()]:
        assert value.isascii() and value.isprintable(), name


def test_I1_every_name_is_in_the_list_that_web_pages_may_read() -> None:
    named = [getattr(headers, name) for name in vars(headers) if name.isupper() and name != "ALL"]
    assert set(headers.ALL) == {name for name in named if str(name).lower().startswith("x-")}
