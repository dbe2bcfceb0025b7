"""The book: rows and sums, files of every age, what cannot be written, and a million requests."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from olp.config import RecordConfig
from olp.core.keys.key_usage import DayUsage
from olp.core.keys.time_range import TimeRange, time_range
from olp.runtime.usage import schema as tables
from olp.runtime.usage import store_writer as writer
from olp.runtime.usage.entries import RequestInFlight
from olp.runtime.usage.report import Totals, UsageReport
from olp.runtime.usage.store import UsageStore
from tests.conftest import OpenHouse
from tests.fakes.plan import dies, fails, hangs, says, turn
from tests.runtime.test_engine_usage import no_room
from tests.runtime.usage_entries import ROW, at, filled, million, old_file, peek, row
from tests.support import BOTH, GoOn, House, ask, soon, until

NOW = datetime(2026, 11, 30, 15, 30)
ALL = TimeRange()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the record is."""
    return tmp_path / "olp.db"


# --- spans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "begins"),
    [
        ("all", None),
        ("today", "2026-11-30T00:00"),
        ("yesterday", "2026-11-29T00:00"),
        ("1d", "2026-11-30T00:00"),
        ("7d", "2026-11-24T00:00"),
        ("2w", "2026-11-17T00:00"),
        ("90m", "2026-11-30T14:00"),
        ("12h", "2026-11-30T03:30"),
        ("2026-11-01", "2026-11-01T00:00"),
        ("2026-11-01T18:05", "2026-11-01T18:05"),
        ("2026-11-01 18:05:07", "2026-11-01T18:05:07"),
    ],
)
def test_a_span_begins_where_a_person_means(since: str, begins: str | None) -> None:
    expected = None if begins is None else datetime.fromisoformat(begins)
    assert time_range(since, None, NOW) == TimeRange(expected, None)


def test_the_last_day_of_a_span_belongs_to_it() -> None:
    assert time_range("2026-11-01", "2026-11-02", NOW).until == datetime(2026, 11, 3)
    assert time_range("2d", "today", NOW) == TimeRange(
        datetime(2026, 11, 29), datetime(2026, 12, 1)
    )
    assert time_range(None, "2026-11-02T08:00", NOW).until == datetime(2026, 11, 2, 8)


@pytest.mark.parametrize("text", ["", "x", "7", "7y", "2026-13-01", "9999999w", "-1d", "1e5d"])
def test_what_is_no_time_is_said(text: str) -> None:
    if not text:
        assert time_range(text, None, NOW) == TimeRange()
        return
    with pytest.raises(ValueError, match="is no time"):
        time_range(text, None, NOW)
    with pytest.raises(ValueError, match="is not before"):
        time_range("2026-11-02", "2026-11-01", NOW)


# --- rows and sums -------------------------------------------------------------------------------


def test_the_sums_are_those_of_the_rows(file: Path) -> None:
    rows = [
        row("2026-11-20T10:00"),
        row("2026-11-20T11:00", person="b2", provider="codex", model="gpt", hops=1, cost=None),
        row("2026-11-21T10:00", outcome="failed", status=429, first_ms=None, cost=None),
        row("2026-11-21T11:00", outcome="refused", provider="", model="", status=429),
        row("2026-11-21T12:00", outcome="left", estimated=1, background="title"),
    ]
    report = UsageReport(filled(file, rows))
    people = report.usage("person", ALL)
    assert list(people) == ["A1", "B2"]
    a1 = people["A1"]
    assert (a1.requests, a1.answered, a1.refused, a1.gone, a1.background) == (4, 1, 1, 1, 1)
    assert (a1.input, a1.output, a1.cached, a1.cache_written, a1.reasoning) == (40, 20, 8, 4, 12)
    assert (a1.cost, a1.costed, a1.began, a1.first_ms, a1.estimated) == (0.75, 3, 3, 300, 1)
    assert a1.told()["failed"] == 1 and a1.told()["cost_estimate_usd"] == 0.75
    assert people["B2"].fallbacks == 1 and people["B2"].told()["cost_estimate_usd"] is None
    assert list(report.usage("day", ALL)) == ["2026-11-20", "2026-11-21"]
    assert set(report.usage("model", ALL)) == {"claude/sonnet", "codex/gpt", "none"}
    assert {n: s.requests for n, s in report.usage("provider", ALL, ["a1"]).items()} == {
        "claude": 3,
        "none": 1,
    }
    assert report.usage("person", ALL, []) == {}


def test_the_sums_of_the_trigger_are_those_of_the_rows(file: Path) -> None:
    million(file, 500, days=3)
    with closing(tables.opened_to_write(file)) as db:
        made = db.execute("SELECT * FROM sums").fetchall()
        db.execute("DELETE FROM sums")
        db.execute("CREATE TEMP TABLE copy AS SELECT * FROM requests")
        db.execute("DELETE FROM requests")
        db.execute("INSERT INTO requests SELECT * FROM copy")
        again = db.execute("SELECT * FROM sums").fetchall()
    assert len(made) > 100
    assert [[pytest.approx(value) for value in line] for line in made] == [list(r) for r in again]


def test_parts_of_days_and_whole_days_add_up(file: Path) -> None:
    times = ["20T00:00", "20T23:59", "21T00:00", "21T06:00", "21T18:00", "22T00:00", "22T09:00"]
    report = UsageReport(filled(file, [row(f"2026-11-{time}") for time in times]))
    bounds = [None, *(datetime.fromisoformat(f"2026-11-{day}") for day in times)]
    for since in bounds:
        for before in bounds:
            if since and before and since >= before:
                continue
            expected = sum(
                (since is None or at(f"2026-11-{t}") >= since.timestamp())
                and (before is None or at(f"2026-11-{t}") < before.timestamp())
                for t in times
            )
            when = TimeRange(since, before)
            found = sum(s.requests for s in report.usage("day", when).values())
            assert found == expected, when
            assert len(report.requests(when)) == expected, when


def test_a_name_that_changed_is_changed_for_the_past_too(file: Path) -> None:
    store = filled(file, [row(person="a1"), row(person="b2")])
    store.open()
    store.ended(row(person="a1"), "Anna")
    store.close()
    assert {n: s.requests for n, s in UsageReport(store).usage("person", ALL).items()} == {
        "Anna": 2,
        "B2": 1,
    }
    both = UsageReport(store, {"a1": "Eva", "b2": "Eva"})
    assert {n: s.requests for n, s in both.usage("person", ALL).items()} == {"Eva": 3}
    assert sorted(both.ids("eva")) == ["a1", "b2"] and both.ids("nobody") == []
    assert [r["name"] for r in both.requests(limit=2)] == ["Eva", "Eva"]


def test_the_newest_requests_come_in_their_order(file: Path) -> None:
    rows = [row(id=f"r{n}", person="ab"[n % 2], outcome="failed" if n == 3 else "answered")
            for n in range(6)]  # fmt: skip
    report = UsageReport(filled(file, rows))
    assert [r["id"] for r in report.requests(limit=2)] == ["r4", "r5"]
    assert [r["id"] for r in report.requests(persons=["a"])] == ["r0", "r2", "r4"]
    assert [r["id"] for r in report.requests(in_vain=True)] == ["r3"]
    last = report.last_number()
    assert report.requests(after=last) == []
    assert [r["id"] for r in report.requests(after=last - 1)] == ["r5"]
    assert set(report.requests(limit=1)[0]) == {*ROW.__slots__, "number", "name"}


def test_no_record_is_no_use_and_no_trouble(file: Path) -> None:
    report = UsageReport(UsageStore(file))
    assert report.usage("person", ALL) == {} and report.requests() == []
    assert report.last_number() == 0 and report.problem is None
    assert not file.exists()


# --- files of every age --------------------------------------------------------------------------


@pytest.mark.parametrize("people", [False, True], ids=["before the keys", "with keys"])
def test_an_old_file_is_brought_up_and_keeps_what_it_knew(file: Path, people: bool) -> None:
    old_file(file, people=people)
    report = UsageReport(UsageStore(file))  # a command may come before the server
    assert report.usage("person", ALL) == {} and report.problem is None
    store = filled(file, [row()])
    assert store.counts("2026-11-29") == {"claude": 12}
    assert store.trace("old") == {"request_id": "old"}
    if people:
        assert store.people("2026-11-29")["a1"].tokens == 3400
    assert UsageReport(store).usage("person", ALL)["A1"].requests == 1
    assert peek(file, "PRAGMA user_version") == [(tables.VERSION,)]
    assert peek(file, "PRAGMA integrity_check") == [("ok",)]


def test_an_old_file_has_the_shape_of_a_new_one_afterwards(tmp_path: Path) -> None:
    old_file(tmp_path / "old.db", people=False)
    filled(tmp_path / "old.db", [])
    filled(tmp_path / "new.db", [])
    shape = "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
    assert peek(tmp_path / "old.db", shape) == peek(tmp_path / "new.db", shape)


def test_a_step_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(file)
    before = peek(file, "SELECT * FROM sqlite_master")
    monkeypatch.setattr(tables, "STEPS", (*tables.STEPS[:1], ("CREATE TABLE x (y)", "NONSENSE")))
    with pytest.raises(sqlite3.OperationalError, match="NONSENSE"):
        tables.opened_to_write(file)
    assert peek(file, "SELECT * FROM sqlite_master") == before
    assert peek(file, "PRAGMA user_version") == [(0,)]


def test_a_file_from_a_newer_OLP_is_left_as_it_is(file: Path) -> None:
    filled(file, [row()])
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("ALTER TABLE requests RENAME TO asked")
        db.execute(f"PRAGMA user_version = {tables.VERSION + 1}")
        db.execute("PRAGMA journal_mode = DELETE")
    before = file.read_bytes()
    store = UsageStore(file)
    store.open()
    store.ended(row(), "A")
    store.count("2026-11-30", "claude")
    store.count_person("2026-11-30", "a1", DayUsage(1, 0, 0))
    store.written().result(5)  # nobody waits for what cannot be written
    store.close()
    assert store.problem is not None and "newer OLP" in store.problem
    assert UsageStore(file).counts("2026-11-29") == {}
    report = UsageReport(UsageStore(file))
    assert report.usage("person", ALL) == {} and "newer OLP" in str(report.problem)
    assert file.read_bytes() == before


# --- what cannot be written now ------------------------------------------------------------------


def test_what_cannot_be_written_now_is_written_later(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LOCK_WAIT_S", 0.05)
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    store = filled(file, [row(id="before")])
    threads = threading.active_count()
    store.open()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for number in range(3):
            store.ended(row(id=f"r{number}"), "A1")
        store.count_person("2026-11-30", "a1", DayUsage(1, 5, 0))
        store.written().result(5)
        assert store.problem is not None and "locked" in store.problem
        assert threading.active_count() <= threads + 2
        other.execute("ROLLBACK")
    end = time.monotonic() + 10
    while store.problem is not None and time.monotonic() < end:
        time.sleep(0.01)
    store.close()
    assert [r["id"] for r in UsageReport(store).requests()] == ["before", "r0", "r1", "r2"]
    assert store.people("2026-11-30")["a1"].tokens == 5, "once, and not twice"
    assert store.lost == 0


def test_what_waits_is_bounded_and_the_loss_is_told(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_HELD", 5)
    file.mkdir()
    store = UsageStore(file)
    store.open()
    for number in range(20):
        store.ended(row(id=f"r{number}"), "A1")
    store.close()
    assert store.problem is not None
    assert store.lost >= 15


def test_a_bad_entry_costs_itself_alone(file: Path) -> None:
    store = UsageStore(file)
    store.open()
    store.ended(row(id="r0"), "A1")
    store.ended(row(id="bad", outcome=None), "A1")
    store.ended(row(id="r1"), "A1")
    store.close()
    assert [r["id"] for r in UsageReport(store).requests()] == ["r0", "r1"]
    assert store.lost == 1


@pytest.mark.parametrize("value", [{"input": 2**70}, {"asked": "half a \ud83d"}, {"asked": ["x"]}])
def test_a_value_that_no_file_can_hold_costs_its_entry_alone(
    file: Path, value: dict[str, Any]
) -> None:
    store = UsageStore(file)
    store.open()
    store.ended(row(id="r0"), "A1")
    store.ended(row(id="bad", **value), "A1")
    store.written().result(5)
    store.ended(row(id="r1"), "A1")
    store.written().result(5)
    store.close()
    assert [r["id"] for r in UsageReport(store).requests()] == ["r0", "r1"]
    assert store.lost == 1


def test_what_was_written_is_not_written_again_although_the_last_word_fails(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: UsageStore, db: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("full")

    monkeypatch.setattr(UsageStore, "_last", fails)
    store = UsageStore(file)
    for _ in range(2):
        store.open()
        store.count("2026-11-30", "claude")
        store.close()
        assert store.problem == "full"
    assert store.counts("2026-11-30") == {"claude": 2}


def test_a_file_that_is_put_in_order_is_used_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    file.write_bytes(b"this is no database" * 1000)
    store = UsageStore(file)
    store.open()
    store.ended(row(), "A1")
    end = time.monotonic() + 10
    while store.problem is None and time.monotonic() < end:
        time.sleep(0.01)
    assert "not a database" in str(store.problem)
    file.rename(file.with_name("broken"))
    while store.problem is not None and time.monotonic() < end:
        time.sleep(0.01)
    store.close()
    assert len(UsageReport(store).requests()) == 1
    assert file.stat().st_mode & 0o777 == 0o600


# --- a server that was killed --------------------------------------------------------------------


def under_way(name: str, run: str) -> RequestInFlight:
    return RequestInFlight(
        name, run, at("2026-11-30T10:00"), "2026-11-30", "a1", "x", 1, "", "auto"
    )


def test_what_a_killed_server_was_answering_is_interrupted(file: Path) -> None:
    killed = UsageStore(file, "killed")
    killed.open()
    killed.begun(under_way("lost", "killed"))
    killed.begun(under_way("ended", "killed"))
    killed.ended(row(id="ended"), "A1")
    killed.begun(under_way("of another", "alive"))
    killed.count_person("2026-11-30", "a1", DayUsage(1, 0, 0))
    killed.written().result(5)
    again = UsageStore(file, "again", lambda run: run == "alive")
    again.open()
    again.begun(under_way("mine", "again"))
    again.close()
    found = {r["id"]: r["outcome"] for r in UsageReport(again).requests()}
    assert found == {"ended": "answered", "lost": "interrupted", "mine": "interrupted"}
    assert peek(file, "SELECT id FROM under_way") == [("of another",)]
    assert UsageReport(again).usage("person", ALL)["A1"].requests == 3
    killed.close()


# --- bounds --------------------------------------------------------------------------------------


def test_what_is_too_old_is_forgotten(file: Path) -> None:
    store = filled(file, [row("2026-11-20T12:00", id="old"), row("2026-11-21T00:00", id="new")])
    store.bounds = RecordConfig(keep_days=10)
    store.open()
    store.close()
    assert [r["id"] for r in UsageReport(store).requests()] == ["new"]
    assert list(UsageReport(store).usage("day", ALL)) == ["2026-11-21"]


def test_what_is_too_much_goes_and_its_sums_stay(file: Path) -> None:
    million(file, 60_000, days=300)
    with closing(tables.opened_to_write(file)) as db:
        db.execute("UPDATE requests SET outcome = 'refused' WHERE number > 58000")
    size = file.stat().st_size
    assert size > 10 * 1024 * 1024
    store = UsageStore(file, wall=lambda: at("2026-11-30T12:00"))
    store.bounds = RecordConfig(max_mb=10)
    store.open()
    store.close()
    assert store.problem is None
    kept = peek(file, "SELECT count(*), sum(outcome = 'refused'), max(number) FROM requests")[0]
    assert 0 < kept[0] < 58_000 and kept[1] == 0 and kept[2] == 58_000
    assert sum(s.requests for s in UsageReport(store).usage("person", ALL).values()) == 60_000
    used = peek(file, "SELECT (SELECT page_count FROM pragma_page_count) - "
                      "(SELECT freelist_count FROM pragma_freelist_count)")[0][0]  # fmt: skip
    assert used * 4096 <= 10 * 1024 * 1024


def test_a_file_that_is_mostly_empty_shrinks(file: Path) -> None:
    million(file, 40_000, days=300)
    size = file.stat().st_size
    store = UsageStore(file, wall=lambda: at("2026-11-30T12:00"))
    store.bounds = RecordConfig(keep_days=10)
    store.open()
    store.close()
    assert file.stat().st_size < size / 4


# --- a million -----------------------------------------------------------------------------------

MACHINE = 2.0
"""How much slower than a usual machine one may be at which this is tested. What else it does at the
time is not counted: the time is the processor's."""


@pytest.mark.timeout(120)
def test_a_million_requests_are_summed_up_in_less_than_a_second(file: Path) -> None:
    million(file)
    report = UsageReport(UsageStore(file))
    spans = [
        ALL,
        time_range("7d", None, NOW),
        TimeRange(datetime(2026, 3, 1, 7, 30), datetime(2026, 9, 1, 9)),
    ]
    for by in ("person", "provider", "model", "day"):
        for when in spans:
            began = time.process_time()
            found = report.usage(by, when)
            spent = time.process_time() - began
            assert found and spent < 1.0 * MACHINE, (by, when, spent)
    total = Totals()
    for one in report.usage("person", ALL).values():
        total.add(one)
    assert total.requests == 1_000_000
    lists: list[Callable[[], object]] = [
        lambda: report.requests(limit=50),
        lambda: report.requests(limit=50, persons=["person3"]),
        lambda: report.requests(limit=5, in_vain=True),
        lambda: report.requests(time_range("2026-11-29", None, NOW)),
    ]
    for ask_for in lists:
        began = time.process_time()
        assert ask_for()
        assert time.process_time() - began < 1.0 * MACHINE


# --- at work -------------------------------------------------------------------------------------


def rows_of(house: House) -> list[dict[str, object]]:
    """The book of a running house."""
    return UsageReport(UsageStore(house.place.state / "olp.db")).requests()


async def booked(house: House, count: int) -> list[dict[str, object]]:
    """The book, as soon as it has so many requests."""
    await until(lambda: len(rows_of(house)) >= count, f"{count} requests are in the book")
    assert len(rows_of(house)) == count
    return rows_of(house)


@BOTH
async def test_L5_an_answer_is_one_line_without_a_word_of_it(
    open_: OpenHouse, stream: bool
) -> None:
    house = await open_(claude=says("SECRET ", "answer"))
    answer = await house.ask(stream, ask("SECRET question"))
    [line] = await booked(house, 1)
    assert line["id"] == answer.headers["X-OLP-Request-Id"]
    expected = {
        "name": "owner",
        "dialect": "openai-chat",
        "stream": int(stream),
        "asked": "auto",
        "provider": "claude",
        "model": answer.headers["X-OLP-Model-Used"],
        "hops": 0,
        "codes": "",
        "outcome": "answered",
        "status": 200,
        "code": "",
        "cache": "bypass",
    }
    assert {name: line[name] for name in expected} == expected
    assert (line["input"], line["output"]) == (12, 7) or line["output"]
    assert 0 < int(str(line["first_ms"])) <= int(str(line["total_ms"]))
    assert int(str(line["bytes_in"])) > 40 and int(str(line["bytes_out"])) > 100
    await house.settled()
    for path in house.place.state.glob("olp.db*"):
        assert b"SECRET" not in path.read_bytes()


async def test_L5_hops_that_failed_are_in_the_line(open_: OpenHouse) -> None:
    house = await open_(claude=fails("quota"), codex=dies(), vibe=says("ok"))
    assert (await house.chat()).text == "ok"
    [line] = await booked(house, 1)
    assert (line["provider"], line["hops"], line["outcome"]) == ("vibe", 2, "answered")
    assert line["codes"] == "claude/sonnet=QUOTA_EXHAUSTED codex/gpt-5.5=SPAWN_FAILED"


@BOTH
async def test_L5_a_chain_in_vain_is_one_line(open_: OpenHouse, stream: bool) -> None:
    house = await open_(claude=fails("quota"), codex=fails("rate"), vibe=dies())
    assert (await house.ask(stream)).status == 429
    [line] = await booked(house, 1)
    assert (line["outcome"], line["status"], line["code"]) == ("failed", 429, "QUOTA_EXHAUSTED")
    assert (line["provider"], line["hops"], line["output"]) == ("claude", 3, 0)
    assert str(line["codes"]).count("=") == 3


async def test_L5_how_an_answer_broke_off_is_in_the_line(open_: OpenHouse) -> None:
    house = await open_(claude=[dies(after=["one "]), fails("rate", after=["one "])])
    await house.stream(ask("a"))
    await house.stream(ask("b"))
    first, second = await booked(house, 2)
    assert (first["outcome"], first["codes"]) == ("truncated", "claude/sonnet=SPAWN_FAILED")
    assert (second["outcome"], second["code"]) == ("broke_off", "RATE_LIMITED")
    assert second["codes"] == "claude/sonnet=RATE_LIMITED" and second["estimated"] == 1


@pytest.mark.parametrize("begun", [False, True], ids=["before", "after its first word"])
async def test_L5_a_client_that_leaves_is_a_line(open_: OpenHouse, begun: bool) -> None:
    house = await open_(claude=hangs(after=["one "] if begun else [], started=True))
    if begun:
        async with house.opened() as response:
            await soon(response.content.readuntil(b"one "))
    else:
        asking = asyncio.ensure_future(house.chat())
        await until(lambda: house.plan.spawns(), "the CLI runs")
        asking.cancel()
    [line] = await booked(house, 1)
    assert (line["outcome"], line["provider"], line["codes"]) == ("left", "claude", "")
    assert (line["status"], line["estimated"]) == ((200, 1) if begun else (None, 0))
    assert bool(line["output"]) == begun


async def test_L5_identical_requests_are_a_line_each_and_one_of_them_has_the_tokens(
    open_: OpenHouse, go_on: GoOn
) -> None:
    house = await open_(claude=turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"]))
    asking = [asyncio.ensure_future(house.stream()) for _ in range(4)]
    await until(lambda: len(house.service.request_log.live()) == 4, "all are in the air")
    leaving = asking.pop(0)
    leaving.cancel()
    await until(lambda: len(house.service.request_log.live()) == 3, "one has left")
    go_on.now()
    assert [(await one).text for one in asking] == ["ok"] * 3
    lines = await booked(house, 4)
    assert house.plan.spawns() == {"claude": 1}
    assert sorted(str(line["cache"]) for line in lines) == ["bypass", "shared", "shared", "shared"]
    assert [line["outcome"] for line in lines].count("left") == 1
    assert len([line for line in lines if line["output"]]) == 1


async def test_L5_a_kept_answer_costs_nothing(open_: OpenHouse) -> None:
    house = await open_(claude=says("ok"), cache={"ttl_s": 60})
    await house.chat()
    await house.settled()
    assert (await house.chat()).headers["X-OLP-Cache"] == "hit"
    first, second = await booked(house, 2)
    assert first["cache"] == "miss" and first["output"]
    assert second["cache"] == "hit" and second["output"] == 0 and second["cost"] is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"no json", "invalid_json"),
        (b'{"model":"auto","messages":[{"role":"user","content":"x"}],"n":2}', None),
        (b'{"model":"nope","messages":[{"role":"user","content":"x"}]}', "model_not_found"),
        (b'{"model":"SECRET word!","messages":[{"role":"user","content":"x"}]}', None),
    ],
)
async def test_L5_what_is_refused_is_a_line_too(
    open_: OpenHouse, body: bytes, code: str | None
) -> None:
    house = await open_()
    answer = await house.request("POST", "/v1/chat/completions", data=body)
    [line] = await booked(house, 1)
    assert (line["outcome"], line["status"]) == ("refused", answer.status)
    assert line["code"] == (code or answer.error["code"] or "invalid_request")
    assert "SECRET" not in str(line)
    assert (line["provider"], line["hops"], line["output"]) == ("", 0, 0)


async def test_L5_a_stop_of_the_server_is_in_the_book(open_: OpenHouse, tmp_path: Path) -> None:
    house = await open_(claude=hangs(after=["one "]))
    asking = asyncio.ensure_future(house.stream())
    await until(lambda: any(v["answering"] for v in house.service.request_log.live()), "it answers")
    await house.server.close()
    assert (await asking).error["code"] == "server_stopping"
    [line] = rows_of(house)
    assert (line["outcome"], line["code"]) == ("interrupted", "server_stopping")
    assert peek(house.place.state / "olp.db", "SELECT count(*) FROM under_way") == [(0,)]


async def test_L5_a_record_of_a_newer_OLP_costs_no_answer_and_is_told(
    open_: OpenHouse, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    with closing(sqlite3.connect(tmp_path / "state" / "olp.db")) as db:
        db.execute("PRAGMA user_version = 99")
    house = await open_(claude=says("ok"))
    assert (await house.chat()).text == "ok"
    assert "newer OLP" in house.service.health()["record"]


async def test_L5_a_full_disk_leaves_no_gap_in_the_book(
    open_: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    house = await open_(claude=says("ok"), workers={"max_processes": 0}, cache={"ttl_s": 60})
    await house.chat(ask("kept"))
    await booked(house, 1)
    with no_room():
        for _ in range(3):  # from the cache, since no process can write its record either
            assert (await house.chat(ask("kept"))).text == "ok"
        await until(lambda: house.service.health()["record"] != "ok", "health says so")
    lines = await booked(house, 4)
    assert [line["cache"] for line in lines] == ["miss", "hit", "hit", "hit"]
    assert house.service.health()["record_lost"] == 0


async def test_the_requests_in_the_air_are_told(open_: OpenHouse, go_on: GoOn) -> None:
    house = await open_(claude=turn(["init"], ["start"], go_on.wait, ["say", "ok"], ["end"]))
    asking = asyncio.ensure_future(house.chat())
    await until(lambda: house.plan.spawns(), "the CLI runs")
    [live] = (await house.request("GET", "/health")).body["live"]
    assert (live["person"], live["asked"], live["answering"]) == ("owner", "auto", False)
    assert (live["provider"], live["model"]) == ("claude", "sonnet") and live["seconds"] >= 0
    go_on.now()
    await asking
    assert (await house.request("GET", "/health")).body["live"] == []
