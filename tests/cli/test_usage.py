"""`olp usage`, `olp logs`, `olp status` and `olp top`: the book and the running server, shown."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from olp.cli import status, why
from olp.runtime.access.local_server import LocalToken
from olp.runtime.usage.entries import RequestRow
from olp.runtime.usage.schema import VERSION
from olp.runtime.usage.store import UsageStore
from tests.cli.conftest import Olp
from tests.cli.inside import inside
from tests.runtime.usage_entries import old_file, row

PATIENCE_S = 20.0
TODAY = datetime.now()


def ago(days: int, hour: int = 12) -> str:
    """A time of day so many days ago."""
    return (TODAY - timedelta(days=days)).strftime(f"%Y-%m-%dT{hour:02}:00")


ROWS = [
    row(ago(20), id="r0", person="a1", input=1_000_000, output=2_000),
    row(ago(3), id="r1", person="a1", input=20_000, output=300, estimated=1),
    row(ago(2), id="r2", person="b2", provider="codex", model="gpt", cost=None),
    row(ago(1), id="r3", person="b2", outcome="failed", status=429, code="QUOTA_EXHAUSTED",
        codes="claude/sonnet=QUOTA_EXHAUSTED", first_ms=None, cost=None, input=0, output=0),
    row(ago(0, 0), id="r4", person="c3", outcome="refused", status=429, provider="", model="",
        code="insufficient_quota", first_ms=None, cost=None, input=0, output=0),
]  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of what OLP keeps."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def config(tmp_path: Path, state: Path) -> Path:
    """A configuration with that folder."""
    file = tmp_path / "olp.toml"
    file.write_text(f'[server]\nport = 1\nstate_dir = "{state}"\n')
    return file


def write(state: Path, *rows: RequestRow) -> None:
    """Put these in the book; `a1` is Anna, and so on."""
    names = {"a1": "Anna", "b2": "Ben", "c3": "Cleo"}
    record = UsageStore(state / "olp.db")
    record.open()
    for one in rows:
        record.ended(one, names[one.person])
    record.close()
    assert record.problem is None


@pytest.fixture
def run(
    home: Path, tmp_path: Path, config: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> Olp:
    """`olp ARGUMENTS` in a house whose book has some requests."""
    write(state, *ROWS)
    monkeypatch.setenv("OLP_CONFIG", str(config))
    command = inside(home, tmp_path / "bin", monkeypatch)
    return lambda *arguments: command(*arguments, OLP_CONFIG=str(config))


# --- usage ---------------------------------------------------------------------------------------


def groups(told: Mapping[str, Any]) -> dict[str, int]:
    return {group["name"]: group["requests"] for group in told["groups"]}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), {"Anna": 1, "Ben": 2, "Cleo": 1}),
        (("--since", "all"), {"Anna": 2, "Ben": 2, "Cleo": 1}),
        (("--by", "provider"), {"claude": 2, "codex": 1, "none": 1}),
        (("--by", "model", "--since", "all"), {"claude/sonnet": 3, "codex/gpt": 1, "none": 1}),
        (("--by", "day"), {ago(3)[:10]: 1, ago(2)[:10]: 1, ago(1)[:10]: 1, ago(0)[:10]: 1}),
        (("--by", "day", "--until", ago(2)[:10]), {ago(3)[:10]: 1, ago(2)[:10]: 1}),
        (("--since", ago(2, 13), "--until", "yesterday"), {"Ben": 1}),
        (("--person", "anna", "--since", "all"), {"Anna": 2}),
        (("--since", ago(1)[:10], "--until", ago(1)[:10]), {"Ben": 1}),
    ],
)
def test_usage_as_JSON(run: Olp, arguments: tuple[str, ...], expected: dict[str, int]) -> None:
    told = run("usage", "--json", *arguments).json
    assert groups(told) == expected
    assert told["total"]["requests"] == sum(expected.values())


def test_usage_in_JSON_says_what_is_an_estimate(run: Olp) -> None:
    told = run("usage", "--json", "--since", "all").json
    anna = next(group for group in told["groups"] if group["name"] == "Anna")
    assert anna["cost_estimate_usd"] == 0.5 and anna["requests_with_cost"] == 2
    assert anna["estimated"] == 1 and anna["input"] == 1_020_000
    ben = next(group for group in told["groups"] if group["name"] == "Ben")
    assert ben["cost_estimate_usd"] is None and ben["failed"] == 1 and ben["refused"] == 0
    assert set(told) == {"by", "since", "until", "groups", "total"}


def test_usage_as_CSV(run: Olp, state: Path) -> None:
    ran = run("usage", "--csv", "--since", "all")
    lines = list(csv.DictReader(io.StringIO(ran.out)))
    assert {line["name"]: line["requests"] for line in lines} == {
        "Anna": "2",
        "Ben": "2",
        "Cleo": "1",
    }
    assert lines[0]["cost_estimate_usd"] == "0.5" and lines[1]["cost_estimate_usd"] == ""
    record = UsageStore(state / "olp.db")
    record.open()
    record.ended(row(ago(0), person="x"), "=cmd()")
    record.close()
    assert "\n'=cmd()," in run("usage", "--csv").out


def test_usage_on_a_screen(run: Olp) -> None:
    ran = run("usage", "--since", "all")
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line}
    assert "since the beginning" in ran.out
    assert "█" * 20 in lines["Anna"] and "█" * 10 + " " in lines["Cleo"]
    assert "~1.0 M" in lines["Anna"] and "≈ $0.50" in lines["Anna"]
    assert lines["total"].split()[1] == "5"
    assert "≈ cost is an estimate" in ran.out and "~ the tokens of 1 request are an" in ran.out


def test_no_use_is_said(home: Path, tmp_path: Path, olp: Olp, config: Path) -> None:
    ran = olp("usage", "--config", str(config))
    assert ran.code == 0 and "Nothing was asked" in ran.out
    assert olp("usage", "--csv", "--config", str(config)).out.count("\n") == 1
    assert olp("logs", "--config", str(config)).out == ""
    assert olp("usage", "--json", "--config", str(config)).json["groups"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("usage", "--since", "soon"), ("'soon' is no time", "7d")),
        (("usage", "--since", "2026-11-02", "--until", "2026-11-01"), ("is not before",)),
        (("usage", "--person", "nobody"), ("no person 'nobody'", "Anna, Ben, Cleo")),
        (("usage", "--json", "--csv"), ("exclude",)),
        (("usage", "--by", "cost"), ("person", "provider")),
        (("logs", "--person", "nobody"), ("no person 'nobody'",)),
        (("logs", "--since", "soon"), ("'soon' is no time",)),
    ],
)
def test_what_cannot_be_understood_is_said(
    run: Olp, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    ran = run(*arguments)
    assert ran.code == 2 and ran.out == ""
    for word in words:
        assert word in ran.err


def test_a_record_of_a_newer_OLP_is_one_line(run: Olp, state: Path) -> None:
    with closing(sqlite3.connect(state / "olp.db")) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    for command in ("usage", "logs"):
        ran = run(command)
        assert ran.code == 2 and "newer OLP" in ran.err and ran.err.count("\n") == 1


def test_a_record_from_before_the_book_has_no_use(olp: Olp, config: Path, state: Path) -> None:
    old_file(state / "olp.db")
    assert "Nothing was asked" in olp("usage", "--config", str(config)).out


def test_the_terminal_library_is_loaded_for_the_screen_alone(olp: Olp, config: Path) -> None:
    for arguments in (("usage", "--json"), ("logs",), ("usage", "--csv")):
        code = (
            "import sys; from olp.cli.main import cli\n"
            f"try: cli({[*arguments, '--config', str(config)]!r})\n"
            "except SystemExit: pass\n"
            "assert 'rich' not in sys.modules and 'prometheus_client' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


# --- logs ----------------------------------------------------------------------------------------


def test_logs_are_one_line_each(run: Olp) -> None:
    lines = run("logs").out.splitlines()
    assert [line.split()[-1] for line in lines] == ["r0", "r1", "r2", "r3", "r4"]
    assert "Anna" in lines[1] and "auto > claude/sonnet" in lines[1] and "~20000 in" in lines[1]
    assert "failed QUOTA_EXHAUSTED (429)" in lines[3]
    assert "after claude/sonnet=QUOTA_EXHAUSTED" in lines[3]
    assert "refused insufficient_quota (429)" in lines[4] and "auto > -" in lines[4]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--person", "ben"), ["r2", "r3"]),
        (("-n", "2"), ["r3", "r4"]),
        (("-n", "0"), []),
        (("--failed",), ["r3"]),
        (("--since", "3d"), ["r2", "r3", "r4"]),
        (("--since", ago(3, 13)), ["r2", "r3", "r4"]),
    ],
)
def test_logs_of_some(run: Olp, arguments: tuple[str, ...], expected: list[str]) -> None:
    lines = run("logs", "--json", *arguments).out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == expected


def test_why_of_what_has_no_story_is_its_line(run: Olp) -> None:
    assert run("why", "r4").out.rstrip().endswith("r4")
    assert run("why", "r3", "--json").json["code"] == "QUOTA_EXHAUSTED"
    assert "no such request is recorded" in run("why", "nobody").err


def test_logs_follow_what_ends(run: Olp, state: Path, config: Path, home: Path) -> None:
    command = [sys.executable, "-m", "olp", "logs", "--follow", "--config", str(config)]
    with subprocess.Popen(
        [*command, "--person", "anna", "-n", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline().strip().endswith("r1")
            write(state, row(id="r5", person="b2"), row(id="r6", person="a1"))
            assert process.stdout.readline().strip().endswith("r6")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
            assert (process.stdout.read(), process.stderr.read()) == ("", "")
        finally:
            process.kill()


# --- status and top ------------------------------------------------------------------------------

HEALTH: dict[str, Any] = {
    "version": "1",
    "url": "http://127.0.0.1:4600",
    "status": "ok",
    "uptime_s": 93_784,
    "record": "ok",
    "live": [
        {"person": "Anna", "asked": "auto", "provider": "claude", "model": "sonnet",
         "answering": True, "background": None, "seconds": 12.3},
        {"person": "Ben", "asked": "auto", "provider": None, "model": None,
         "answering": False, "background": "title", "seconds": 0.1},
    ],
    "providers": {
        "claude": {
            "state": "ok", "success_rate": 0.98, "attempts": 50, "queued": 2,
            "slots": {"active": 1, "max": 4},
            "last_failure": {"age_s": 3700, "code": "OVERLOADED"},
            "open_circuits": [{"model": "opus", "next_try_s": 9}],
            "quota": {"requests_today": 7, "windows": [], "holds": []},
        }
    },
    "chains": {"auto": ["claude/sonnet"]},
    "last_failures": [],
}  # fmt: skip


def test_the_screen_has_it_all() -> None:
    text = "\n".join(status.screen(HEALTH))
    assert text.startswith("OLP 1 at http://127.0.0.1:4600: ok, up 1 d 2 h, 2 in flight")
    assert "98% of the last 50 attempts answered, 1 of 4 slots in use, 2 queued" in text
    assert "last failure 1 h 1 min ago: OVERLOADED" in text and "circuit open for opus" in text
    assert "Anna         auto > claude/sonnet, answering (12 s)" in text
    assert "Ben          auto > no hop yet, asked (0 s, title)" in text
    assert "Nothing went wrong lately." in text and "cannot be written" not in text
    ill = status.screen({**HEALTH, "record": "disk full", "live": []})
    assert "the usage database cannot be written: disk full" in ill
    assert "Nothing is being answered." in ill


def used(state: str, code: str = "QUOTA_EXHAUSTED", **quota: Any) -> str:
    """How the screen tells a provider in that state."""
    provider = HEALTH["providers"]["claude"] | {
        "state": state,
        "last_failure": {"age_s": 3, "code": code},
        "quota": {"requests_today": 1, "windows": [], "holds": [], **quota},
    }
    text = "\n".join(status.screen({**HEALTH, "providers": {"claude": provider}}))
    return text.partition("claude   ")[2].partition(", ")[0]


@pytest.mark.parametrize("state", ["used_up", "failing"])
def test_a_plan_that_is_used_up_is_not_called_failing(state: str) -> None:
    evening = datetime.now().replace(hour=21, minute=37, second=0)
    hold = {"model": None, "next_probe_s": 9, "resets_at": evening.timestamp(), "reason": "x"}
    opus = {**hold, "model": "opus", "resets_at": evening.timestamp() + 86_400 * 30}
    window = {"name": "five_hour", "model": None, "used_percent": 100.0, "age_s": 1,
              "resets_at": evening.timestamp(), "source": "answer", "fresh": True}  # fmt: skip
    assert used(state, holds=[hold, opus]) == "used up until 21:37"
    assert used(state, windows=[window]) == "used up until 21:37"
    later = {**hold, "resets_at": (evening + timedelta(days=2)).timestamp()}
    assert used(state, holds=[later]) == f"used up until {evening + timedelta(days=2):%a} 21:37"
    assert used(state) == "used up"


def test_a_provider_that_fails_is_called_failing() -> None:
    assert used("failing", "SPAWN_FAILED") == "failing"


@pytest.mark.parametrize("command", ["status", "top"])
def test_without_a_server_it_says_so(run: Olp, command: str) -> None:
    ran = run(command)
    assert ran.code == 2 and "no OLP answers at" in ran.err


@pytest.fixture
def demo(tmp_path: Path, home: Path, state: Path) -> Any:
    """A demo server in a process of its own; a function that runs a command beside it."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    env |= {"OLP_SERVER_STATE_DIR": str(state), "LANG": "C.UTF-8", "TERM": "xterm"}
    serve = [sys.executable, "-m", "olp", "serve", "--demo", "--port", "0"]
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(serve, env=env, stdout=subprocess.DEVNULL, stderr=err)
    try:
        end = time.monotonic() + PATIENCE_S
        while '"serving"' not in (text := (tmp_path / "err").read_text()):
            assert time.monotonic() < end and process.poll() is None, text
            time.sleep(0.05)
        line = next(line for line in text.splitlines() if '"serving"' in line)
        yield json.loads(line)["url"], env
    finally:
        process.kill()
        process.wait()


def test_status_and_top_of_a_running_server(demo: tuple[str, dict[str, str]]) -> None:
    url, env = demo
    body = '{"model":"%s","messages":[{"role":"user","content":"hi"}]}'
    curl = ["curl", "-s", "-o", "/dev/null", f"{url}/v1/chat/completions", "-d"]
    subprocess.run([*curl, body % "demo/overloaded"], check=True, timeout=60)
    with subprocess.Popen([*curl, body % "demo/slow"]) as asking:
        try:
            _check_screens(env)
        finally:
            asking.kill()


def run_olp(env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """`olp ARGUMENTS` as a process."""
    command = [sys.executable, "-m", "olp", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def _check_screens(env: dict[str, str]) -> None:
    def olp(*arguments: str) -> str:
        done = run_olp(env, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    end = time.monotonic() + PATIENCE_S
    while not (told := json.loads(olp("status", "--json")))["live"]:
        assert time.monotonic() < end
    [live] = told["live"]
    assert (live["person"], live["asked"]) == ("owner", "demo/slow")
    [failure] = told["last_failures"]
    assert (failure["outcome"], failure["code"]) == ("failed", "OVERLOADED")
    for command in ("status", "top"):
        text = olp(command)
        assert "owner        demo/slow > demo/slow" in text
        assert "Last failures" in text and "failed OVERLOADED (503)" in text
        assert "auto     demo/chat" in text
    _check_top_in_a_terminal(env)


def _check_top_in_a_terminal(env: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "olp", "top"]
    process = subprocess.Popen(
        command, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    seen = b""
    try:
        end = time.monotonic() + PATIENCE_S
        while seen.count(b"Last failures") < 2:  # it was drawn again
            assert time.monotonic() < end, seen
            seen += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        _drain(ours, lambda: process.poll() is not None)
        assert process.wait(PATIENCE_S) == 0
        assert b"Traceback" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _drain(descriptor: int, over: Callable[[], bool]) -> None:
    os.set_blocking(descriptor, False)
    end = time.monotonic() + PATIENCE_S
    while not over() and time.monotonic() < end:
        try:
            os.read(descriptor, 65536)
        except OSError:
            time.sleep(0.02)


ASK = '{"model":"auto","messages":[{"role":"user","content":"hi"}]}'


def test_a_server_is_found_by_its_state_folder_and_while_the_file_is_broken(
    demo: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """It listens on a port that no configuration names, and the file on disk has mistakes."""
    url, env = demo
    curl = ["curl", "-s", "-o", "/dev/null", f"{url}/v1/chat/completions", "-d", ASK]
    subprocess.run(curl, check=True, timeout=60)
    broken = tmp_path / "broken.toml"
    broken.write_text("[server]\nport = many\nannounce = True\n")
    env = env | {"OLP_CONFIG": str(broken)}
    for arguments in (["status"], ["top"], ["quota"], ["quota", "clear"]):
        ran = run_olp(env, *arguments)
        assert ran.returncode == 0, ran.stderr
        assert "there are 3 mistakes in the configuration" in ran.stderr
    assert f"at {url}: ok" in run_olp(env, "status").stdout
    for arguments, word in ((["usage"], "owner"), (["logs"], "demo/"), (["why"], "demo/")):
        ran = run_olp(env, *arguments)
        assert ran.returncode == 0 and word in ran.stdout, ran.stderr
        assert "this is the book of the demo" in ran.stderr
    assert "answered by demo/" in run_olp(env, "why").stdout
    assert run_olp(env, "serve").returncode == 2


def test_a_server_is_named_by_port_or_address(demo: tuple[str, dict[str, str]]) -> None:
    url, env = demo
    port = url.rpartition(":")[2]
    for named in (["--port", port], ["--url", url], ["--url", f"localhost:{port}/v1/"]):
        assert run_olp(env, "status", *named).returncode == 0, named
    for named in (["--port", "1"], ["--url", "http://127.0.0.1:1"]):
        ran = run_olp(env, "status", *named)
        assert ran.returncode == 2 and "no OLP answers at http://127.0.0.1:1" in ran.stderr
    ran = run_olp(env, "status", "--port", port, "--url", url)
    assert ran.returncode == 2 and "exclude each other" in ran.stderr


def test_the_demo_writes_nothing_into_the_owners_book(
    demo: tuple[str, dict[str, str]], state: Path
) -> None:
    url, env = demo
    curl = ["curl", "-s", "-o", "/dev/null", f"{url}/v1/chat/completions", "-d", ASK]
    subprocess.run(curl, check=True, timeout=60)
    assert run_olp(env, "usage", "--json").stdout.count('"requests": 1') >= 1
    assert (state / "demo" / "olp.db").exists()
    assert not (state / "olp.db").exists()


def test_a_killed_servers_file_hides_no_other(tmp_path: Path, state: Path, run: Olp) -> None:
    LocalToken(state, 9, "http://127.0.0.1:9")
    assert "no OLP answers at http://127.0.0.1:9" in run("status").err


# --- why -----------------------------------------------------------------------------------------


def trace(**changed: Any) -> dict[str, Any]:
    """A story with one hop, as the record keeps it."""
    hop = {
        "hop": 0, "provider": "claude", "model": "sonnet", "code": None, "trigger_type": None,
        "status": None, "asked": True, "spawned_ms": 2, "first_output_ms": 40, "ended_ms": None,
        "bytes_written": 1200, "bytes_read": 3400, "exit_code": None, "waiting_process": True,
        **changed,
    }  # fmt: skip
    return {
        "request_id": "r1", "at": time.time(), "caller": "Anna", "asked": "auto",
        "background": None, "outcome": "answered (stop)", "total_ms": 90, "first_content_ms": 60,
        "answered_by": {"provider": "claude", "model": "claude-sonnet-5", "hop": 0, "cache": "off"},
        "usage": {"input": 1, "output": 2}, "hops": [hop],
    }  # fmt: skip


def test_why_tells_the_last_request_where_none_is_named(run: Olp, state: Path) -> None:
    assert "no request is recorded yet" in run("why").err
    record = UsageStore(state / "olp.db")
    record.open()
    record.keep(trace())
    record.close()
    told = run("why").out
    assert told == run("why", "--last").out == run("why", "r1").out
    assert run("why", "r1", "--last").code == 2


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "answered, asked at 2 ms, warm process, first output at 40 ms, "
             "1,200 bytes sent, 3,400 received"),
        ({"waiting_process": False, "ended_ms": 95, "exit_code": 0},
         "answered, started at 2 ms, first output at 40 ms, ended at 95 ms, "
         "1,200 bytes sent, 3,400 received, exit code 0"),
        ({"spawned_ms": None, "first_output_ms": None, "code": "CLI_NOT_FOUND",
          "trigger_type": "hard", "bytes_written": 0, "bytes_read": 0},
         "CLI_NOT_FOUND (hard), no output, 0 bytes sent, 0 received"),
    ],
)  # fmt: skip
def test_why_says_nothing_of_what_did_not_happen(changed: dict[str, Any], words: str) -> None:
    text = "\n".join(why.told(trace(**changed)))
    assert "None" not in text
    assert words in text


# --- one model in one row ------------------------------------------------------------------------


def test_a_model_is_one_row_whatever_a_chain_calls_it(run: Olp, state: Path) -> None:
    record = UsageStore(state / "olp.db")
    record.open()
    record.ended(row(id="n1", person="a1", model="claude-sonnet-5"), "Anna", "sonnet")
    record.close()
    told = groups(run("usage", "--by", "model", "--since", "all", "--json").json)
    assert told == {"claude/claude-sonnet-5": 4, "codex/gpt": 1, "none": 1}


# --- slips ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["statsu"], "there is no command 'statsu'; did you mean 'status'?"),
        (["keys", "lst"], "did you mean 'list'?"),
        (["config", "chekc"], "did you mean 'check'?"),
        (["zzzzz"], "known: serve, keys, doctor"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(run: Olp, arguments: list[str], words: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2 and words in ran.err


def test_quota_without_a_CLI_says_so(run: Olp) -> None:
    assert run("quota", "--cached").out.startswith("No CLI was found on PATH")
