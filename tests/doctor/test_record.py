"""What the doctor says of the record."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from olp.doctor.finding import Finding
from olp.doctor.record import check_record
from olp.runtime.usage import schema as tables
from tests.runtime.usage_entries import filled, old_file, row


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the record is; a lock is not waited for."""
    monkeypatch.setattr(tables, "LOCK_WAIT_S", 0.05)
    return tmp_path / "olp.db"


def looked_at(file: Path) -> Finding:
    before = file.read_bytes() if file.is_file() else b""
    finding = asyncio.run(check_record(file.parent))
    assert (file.read_bytes() if file.is_file() else b"") == before, "nothing was changed"
    assert finding.name == "record"
    return finding


def test_no_record_yet(file: Path) -> None:
    finding = looked_at(file)
    assert finding.ok and "will be made" in finding.what and not file.exists()


def test_a_sound_record(file: Path) -> None:
    filled(file, [row(), row()])
    finding = looked_at(file)
    assert finding.ok and "holds 2 requests since 2026-11-20" in finding.what


def test_a_record_from_before_the_book(file: Path) -> None:
    old_file(file)
    finding = looked_at(file)
    assert finding.ok and "holds 0 requests" in finding.what


def test_a_damaged_record(file: Path) -> None:
    filled(file, [row(id=f"r{n}") for n in range(3000)])
    with file.open("r+b") as damaged:
        damaged.seek(40_000)
        damaged.write(b"damage!" * 9000)
    finding = looked_at(file)
    assert finding.ok is False and "is damaged" in finding.what
    assert f"mv {file}*" in finding.fix
    file.write_bytes(b"this is no database" * 1000)
    assert looked_at(file).ok is False


def test_a_record_of_a_newer_OLP(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    finding = looked_at(file)
    assert finding.ok is False and "newer OLP" in finding.what and "install" in finding.fix


def test_a_record_that_another_program_holds(file: Path) -> None:
    filled(file, [row()])
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        finding = looked_at(file)
    assert finding.ok is False and "locked" in finding.what and "end the program" in finding.fix


def test_a_disk_that_is_nearly_full(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 10**6))
    finding = looked_at(file)
    assert finding.ok is False and "only 1 MB" in finding.what and finding.fix
