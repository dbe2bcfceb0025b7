"""`olp keys`, as a person uses it: processes, an empty home, and what they print."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from olp.core.keys.key import TOKEN, digest_of, find
from olp.core.keys.key_usage import DayUsage
from olp.runtime.access.keyring import FILE, Keyring
from olp.runtime.usage.store import UsageStore
from tests.cli.conftest import Olp
from tests.fakes import install


@pytest.fixture(autouse=True)
def clis(tmp_path: Path) -> None:
    """claude, codex and vibe on PATH."""
    install(tmp_path / "bin")


@pytest.fixture
def state(home: Path) -> Path:
    """Where OLP keeps things in that home."""
    return home / ".local" / "state" / "olp"


def test_the_first_key_switches_keys_on_and_says_so(olp: Olp, state: Path) -> None:
    none = olp("keys", "list")
    assert none.code == 0 and "There are no keys" in none.out
    assert not state.exists(), "looking makes nothing"
    first, second = olp("keys", "add", "Anna", "--owner"), olp("keys", "add", "Ben")
    assert (first.code, second.code) == (0, 0)
    assert "Keys are on now" in first.out and "Keys are on now" not in second.out
    assert first.out.startswith("Anna (owner; no limits)")
    [token] = TOKEN.findall(first.out)
    assert first.out.count(token) == 1
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / FILE).stat().st_mode) == 0o600
    assert token not in (state / FILE).read_text()
    key = find(Keyring(state).look().keys, token)
    assert key is not None and (key.name, key.owner) == ("Anna", True)


def test_every_limit_can_be_given_and_is_shown(olp: Olp, state: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("  Be kind.\n")
    made = olp(
        *("keys", "add", "Zoë", "--chains", "auto, claude/sonnet,auto", "--daily-requests", "50"),
        *("--daily-tokens", "100000", "--concurrent", "2", "--system-prompt", str(prompt)),
        *("--hours", "22:00-06:00", "--expires", "30d", "--json"),
    )
    assert made.code == 0, made.err
    told = made.json
    token = told.pop("token")
    assert TOKEN.fullmatch(token) and told["switched_keys_on"] is True
    shown = olp("keys", "show", "zoë", "--json").json
    assert shown["requests_today"] == shown["tokens_today"] == shown["background_today"] == 0
    for field, value in {
        "name": "Zoë",
        "owner": False,
        "state": "active",
        "chains": ["auto", "claude/sonnet"],
        "daily_requests": 50,
        "daily_tokens": 100_000,
        "concurrent": 2,
        "system_prompt": "Be kind.",
        "hours": "22:00-06:00",
        "revoked_at": None,
    }.items():
        assert told[field] == shown[field] == value, field
    for text in (made.out, json.dumps(shown), olp("keys", "show", "Zoë").out):
        assert "digest" not in text and digest_of(token) not in text
    assert token not in olp("keys", "show", "Zoë").out + olp("keys", "list").out
    line = olp("keys", "list").out.splitlines()[1]
    assert re.match(
        r"Zoë +member +active +0 +0 +chains auto claude/sonnet, daily requests 50, daily tokens "
        r"100,000, concurrent 2, hours 22:00-06:00, until 20\d\d-\d\d-\d\d \d\d:\d\d, a system",
        line,
    ), line


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["Anna"], "there is a key of 'Anna' already"),
        (["ANNA"], "there is a key of 'ANNA' already"),
        (["a/b"], "cannot be a name"),
        ([""], "cannot be a name"),
        (["x", "--chains", "claud/sonnet"], "there is no chain or model 'claud/sonnet'"),
        (["x", "--chains", "auto,kidz"], "there is no chain or model 'kidz'; the chains are: auto"),
        (["x", "--hours", "7-21"], "is not of the form 07:00-21:00"),
        (["x", "--hours", "09:00-09:00"], "begins when it ends"),
        (["x", "--expires", "2020-01-31"], "over already, so the key would never work"),
        (["x", "--expires", "0d"], "over already"),
        (["x", "--expires", "soon"], "is no time; write 30d"),
        (["x", "--daily-requests", "0"], "--daily-requests"),
        (["x", "--daily-tokens", "-5"], "--daily-tokens"),
        (["x", "--concurrent", "many"], "--concurrent"),
        (["x", "--system-prompt", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["x", "--system-prompt", "/dev/null"], "is empty or has more than 100,000"),
    ],
)
def test_what_cannot_be_is_told_and_changes_nothing(
    olp: Olp, state: Path, arguments: list[str], why: str
) -> None:
    olp("keys", "add", "Anna")
    before = (state / FILE).read_bytes()
    ran = olp("keys", "add", *arguments)
    assert ran.code == 2 and why in ran.err, ran.err
    assert ran.out == ""
    assert (state / FILE).read_bytes() == before


def test_rotate_rename_revoke(olp: Olp, state: Path) -> None:
    first = olp("keys", "add", "anna", "--daily-requests", "5", "--json").json
    second = olp("keys", "rotate", "Anna", "--json").json
    assert second["token"] != first["token"] and second["id"] == first["id"]
    assert second["daily_requests"] == 5 and second["switched_keys_on"] is False
    keys = Keyring(state).look().keys
    assert find(keys, first["token"]) is None and find(keys, second["token"]) is not None
    assert olp("keys", "rename", "anna", "Anne").out == "renamed anna to Anne\n"
    assert olp("keys", "rename", "Anne", "Änne", "--json").json["id"] == first["id"]
    assert "keys are still required, and no valid key is left" in olp("keys", "revoke", "Änne").out
    key = find(Keyring(state).look().keys, second["token"])
    assert key is not None and key.revoked
    for command in (["rotate", "Änne"], ["revoke", "Änne"], ["show", "Änne"]):
        ran = olp("keys", *command)
        assert ran.code == 2 and "is revoked; `olp keys add` makes a new one" in ran.err
    again = olp("keys", "add", "Änne", "--json").json
    assert again["id"] != first["id"] and again["switched_keys_on"] is False
    states = [key["state"] for key in olp("keys", "list", "--json").json]
    assert states == ["revoked", "active"]
    assert olp("keys", "revoke", "Änne", "--json").json["state"] == "revoked"


@pytest.mark.parametrize("command", [["show"], ["rotate"], ["revoke"], ["rename", "-"]])
def test_an_unknown_name_is_told(olp: Olp, command: list[str]) -> None:
    olp("keys", "add", "Anna")
    name = [command[0], "Bob", *(["Carl"] if command[0] == "rename" else [])]
    ran = olp("keys", *name)
    assert ran.code == 2 and ran.err == "olp: there is no key of 'Bob'; there are: Anna\n"


@pytest.mark.parametrize("content", ["", "{", '{"version": 7, "keys": []}'])
def test_a_file_that_cannot_be_read_is_told_and_left_alone(
    olp: Olp, state: Path, content: str
) -> None:
    olp("keys", "add", "Anna")
    (state / FILE).write_text(content)
    for command in (["list"], ["show", "Anna"]):
        ran = olp("keys", *command)
        assert ran.code == 2 and f"{state / FILE}: it cannot be used: " in ran.err
        assert "until this is fixed the server rejects every request" in ran.err
    for command in (["add", "Ben"], ["revoke", "Anna"], ["rotate", "Anna"]):
        ran = olp("keys", *command)
        assert ran.code == 2 and "nothing was changed" in ran.err
    assert (state / FILE).read_text() == content


def test_what_was_used_today_is_listed(olp: Olp, state: Path) -> None:
    from datetime import datetime

    made = olp("keys", "add", "Anna", "--json").json
    record = UsageStore(state / "olp.db")
    record.open()
    day = datetime.now().strftime("%Y-%m-%d")
    record.count_person(day, made["id"], DayUsage(1234, 5_000_000, 17))
    record.written().result(10)
    record.close()
    told = olp("keys", "show", "Anna", "--json").json
    used = [told[f"{name}_today"] for name in ("requests", "tokens", "background")]
    assert used == [1234, 5_000_000, 17]
    assert "1,234" in olp("keys", "list").out and "5,000,000" in olp("keys", "list").out


def test_the_folder_of_the_configuration_is_used(olp: Olp, tmp_path: Path) -> None:
    config = tmp_path / "olp.toml"
    config.write_text(f"[server]\nstate_dir = {json.dumps(str(tmp_path / 'elsewhere'))}\n")
    olp("keys", "add", "Anna", "--config", str(config))
    assert [key.name for key in Keyring(tmp_path / "elsewhere").look().keys] == ["Anna"]
    assert "There are no keys" in olp("keys", "list").out
    chains = tmp_path / "chains.toml"
    chains.write_text('[chains]\nkids = ["claude/haiku"]\n')
    assert olp("keys", "add", "Ben", "--chains", "kids", "--config", str(chains)).code == 0
