"""`olp backup` and `olp restore`: nothing is lost, nothing is overwritten."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import stat
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from olp.runtime.process.run_folder import RunFolder
from tests.cli.conftest import Olp
from tests.cli.inside import inside


@pytest.fixture
def olp(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Olp:
    """The command line, in this process."""
    return inside(home, tmp_path / "bin", monkeypatch)


@pytest.fixture
def config(home: Path) -> Path:
    """A configuration in its usual place, and a state with a bit of everything."""
    file = home / ".config" / "olp" / "olp.toml"
    file.parent.mkdir(parents=True)
    state = home / "state"
    file.write_text(f'[server]\nstate_dir = "{state}"\nport = 4600\n')
    for folder in ("runs", "private", "work", "kept/abc", "logins/claude"):
        (state / folder).mkdir(parents=True)
    for name in ("runs/1", "private/prompt", "kept/abc/models.json", "local-4567.token"):
        (state / name).write_text("passing")
    (state / "keys.json").write_text('{"keys": []}')
    (state / "logins/claude/credentials.json").write_text("secret")
    (state / "link").symlink_to("/etc/passwd")
    return file


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as file:
        return [entry.name for entry in file]


def test_all_of_it_and_back(olp: Olp, home: Path, config: Path, tmp_path: Path) -> None:
    state, archive = home / "state", tmp_path / "olp.tar.gz"
    with closing(sqlite3.connect(state / "olp.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (42)")
        db.commit()
        # The row is in the -wal file alone: a copy of olp.db would not have it.
        ran = olp("backup", str(archive))
    assert ran.code == 0, ran.err
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert names(archive) == [
        "olp-backup.json",
        "olp.toml",
        "state/keys.json",
        "state/olp.db",
        "state/logins/claude/credentials.json",
    ]
    original = config.read_text()
    config.write_text("[server]\nport = 1\n")
    (state / "keys.json").write_text("damaged")
    ran = olp("restore", str(archive))
    assert ran.code == 0, ran.err
    assert config.read_text() == original
    assert (state / "keys.json").read_text() == '{"keys": []}'
    with closing(sqlite3.connect(state / "olp.db")) as db:
        assert db.execute("SELECT x FROM t").fetchall() == [(42,)]
    for path in (state, state / "logins" / "claude"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "logins/claude/credentials.json").stat().st_mode) == 0o600
    (aside,) = home.glob("state.before-restore-*")
    assert (aside / "keys.json").read_text() == "damaged"
    (old,) = config.parent.glob("olp.toml.before-restore-*")
    assert old.read_text() == "[server]\nport = 1\n"
    assert str(aside) in ran.out and str(old) in ran.out


def test_a_running_server_refuses_to_be_replaced(
    olp: Olp, home: Path, config: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "olp.tar.gz"
    place = RunFolder(home / "state")
    (home / "state" / "work").rmdir()
    place.open()
    try:
        assert olp("backup", str(archive)).code == 0, "a backup does not mind"
        ran = olp("restore", str(archive))
    finally:
        place.close()
    assert ran.code == 2 and "a server runs on" in ran.err
    assert not list(home.glob("state.before-*"))
    assert olp("restore", str(archive)).code == 0


def test_a_backup_is_never_overwritten(olp: Olp, config: Path, tmp_path: Path) -> None:
    archive = tmp_path / "olp.tar.gz"
    archive.write_text("precious")
    ran = olp("backup", str(archive))
    assert (ran.code, ran.err) == (2, f"olp: {archive} is there already\n")
    assert archive.read_text() == "precious"
    assert olp("backup", str(tmp_path / "none" / "x.tar.gz")).code == 2


def test_nothing_to_back_up_is_a_backup_too(olp: Olp, home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "olp.tar.gz"
    assert olp("backup", str(archive)).code == 0
    ran = olp("restore", str(archive))
    assert ran.code == 0 and "Previous files" not in ran.out


def forged(path: Path, *entries: tuple[str, str], form: int = 1, kind: bytes = b"0") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        head = {"form": form, "version": "9.9", "files": len(entries)}
        about = ("olp-backup.json", json.dumps(head))
        for number, (name, text) in enumerate((about, *entries)):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            if number and kind != b"0":
                entry.type, entry.size, entry.linkname = kind, 0, "/etc/passwd"
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize(
    "name", ["/etc/olp", "state/../../x", "../x", "other", "state", "state/a/../../../x"]
)
def test_an_archive_that_reaches_out_of_its_place(
    olp: Olp, home: Path, tmp_path: Path, name: str
) -> None:
    ran = olp("restore", str(forged(tmp_path / "a.tar.gz", ("state/ok", "x"), (name, "evil"))))
    assert ran.code == 2 and "holds what no backup of OLP holds" in ran.err
    assert os.listdir(home) == [] or not list(home.rglob("ok"))  # noqa: PTH208


def test_an_archive_with_links(olp: Olp, home: Path, tmp_path: Path) -> None:
    source = forged(tmp_path / "a.tar.gz", ("state/link", ""), kind=tarfile.SYMTYPE)
    ran = olp("restore", str(source))
    assert ran.code == 2 and "holds what no backup of OLP holds: 'state/link'" in ran.err


def test_what_is_no_backup(olp: Olp, config: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    assert olp("restore", str(text)).code == 2
    assert olp("restore", str(tmp_path / "missing")).err.count("cannot be read") == 1
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(text, "hello")
    assert "is no backup of OLP" in olp("restore", str(tmp_path / "other.tar.gz")).err
    newer = forged(tmp_path / "newer.tar.gz", form=2)
    assert "was made by OLP 9.9, a newer one" in olp("restore", str(newer)).err
    whole = tmp_path / "whole.tar.gz"
    assert olp("backup", str(whole)).code == 0
    data, before = whole.read_bytes(), config.read_text()
    for length in (len(data) - 1, len(data) - 20, len(data) // 2, 30):
        whole.write_bytes(data[:length])
        assert olp("restore", str(whole)).code == 2, length
    assert config.read_text() == before and not list(config.parent.glob("*before*"))


def test_a_configuration_that_does_not_fit_here_stops_it(olp: Olp, tmp_path: Path) -> None:
    source = forged(tmp_path / "a.tar.gz", ("olp.toml", "[server]\nprot = 1\n"))
    ran = olp("restore", str(source))
    assert ran.code == 2 and "unknown key 'prot'" in ran.err
