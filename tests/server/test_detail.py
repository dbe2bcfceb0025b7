"""X-OLP-Fallback-Detail: exact keys, short enough, and safe to put in a header."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.events import ErrorCode, HopRecord, TriggerType
from olp.server.detail import MESSAGE_LIMIT, VALUE_LIMIT, detail_value

KEYS = ["hop", "provider", "model", "code", "error_message", "trigger_type"]


def record(message: str = "no", hop: int = 0, model: str = "sonnet") -> HopRecord:
    return HopRecord(hop, "claude", model, "OVERLOADED", message, TriggerType.HARD)


def parsed(*records: HopRecord) -> list[dict[str, Any]]:
    value = json.loads(detail_value(records))
    assert isinstance(value, list)
    return value


_records = st.lists(
    st.builds(
        HopRecord,
        st.integers(0, 2),
        st.text(max_size=12),
        st.text(max_size=130),
        st.sampled_from([trouble.value for trouble in ErrorCode]),
        st.text(st.characters(), max_size=400),
        st.sampled_from(TriggerType),
    ),
    max_size=6,
)


def test_I2_a_record_has_exactly_these_keys() -> None:
    value = parsed(record("no"), record("nor this", hop=1))
    assert [list(item) for item in value] == [KEYS, KEYS]
    assert value[0] == {
        "hop": 0,
        "provider": "claude",
        "model": "sonnet",
        "code": "OVERLOADED",
        "error_message": "no",
        "trigger_type": "hard",
    }


@pytest.mark.parametrize("trigger", list(TriggerType))
def test_I3_the_trigger_type_is_one_of_five_words(trigger: TriggerType) -> None:
    item = HopRecord(1, "vibe", "m", "UNKNOWN", "x", trigger)
    assert parsed(item)[0]["trigger_type"] == trigger.value
    assert parsed(item)[0]["code"] == "UNKNOWN"


@pytest.mark.parametrize(("length", "cut"), [(0, 0), (199, 0), (200, 0), (201, 1), (5000, 1)])
@pytest.mark.parametrize("char", ["x", "ü", "👋"])
def test_I4_a_message_is_200_characters_with_the_mark_of_the_cut(
    length: int, cut: int, char: str
) -> None:
    message = parsed(record(char * length))[0]["error_message"]
    if cut:
        assert message == char * 199 + "\u2026"
        assert len(message) == MESSAGE_LIMIT == 200
    else:
        assert message == char * length


def test_I5_the_value_is_ascii_with_surrogate_pairs_above_the_bmp() -> None:
    value = detail_value([record("Grüße \u2026 👋")])
    assert value.isascii()
    assert r"Gr\u00fc\u00dfe \u2026 \ud83d\udc4b" in value


@pytest.mark.parametrize("char", ["\n", "\r", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\ud800"])
def test_I5_no_control_character_can_get_into_the_header(char: str) -> None:
    value = detail_value([record(f"a{char}b")])
    assert value.isascii() and value.isprintable()


def test_I5_records_that_do_not_fit_are_dropped_from_the_tail_and_counted() -> None:
    records = [record("👋" * 200, hop=index) for index in range(3)]
    value = detail_value(records)
    assert len(value) <= VALUE_LIMIT == 4096
    items = json.loads(value)
    assert items[-1] == {"truncated": True, "omitted_hops": 3 - (len(items) - 1)}
    assert [item["hop"] for item in items[:-1]] == list(range(len(items) - 1))
    assert len(items) > 1, "what fits is kept"


def test_I5_the_mark_itself_is_inside_the_limit() -> None:
    """Every length around the limit, so that one of them fits only without the mark."""
    for size in range(3000, 3400):
        value = detail_value([record("x" * 200, model="m" * size), record("y" * 200, hop=1)])
        assert len(value) <= VALUE_LIMIT
        json.loads(value)
    for size in range(3800, 4000):
        assert len(detail_value([record(model="m" * size), record(), record()])) <= VALUE_LIMIT


def test_I5_one_record_that_is_too_long_leaves_only_the_mark() -> None:
    assert parsed(record(model="m" * 5000)) == [{"truncated": True, "omitted_hops": 1}]


def test_I2_no_record_is_an_empty_array() -> None:
    assert detail_value([]) == "[]"


@given(_records)
def test_I5_whatever_the_records_the_value_is_a_valid_header(records: list[HopRecord]) -> None:
    value = detail_value(records)
    assert len(value.encode("ascii")) <= VALUE_LIMIT
    assert value.isprintable()
    items = json.loads(value)
    kept = items[:-1] if items and "truncated" in items[-1] else items
    omitted = items[-1]["omitted_hops"] if kept is not items else 0
    assert len(kept) + omitted == len(records)
    for item, source in zip(kept, records, strict=False):
        assert list(item) == KEYS
        assert len(item["error_message"]) <= MESSAGE_LIMIT
        assert source.error_message.startswith(item["error_message"].removesuffix("\u2026"))
