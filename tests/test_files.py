"""Files are replaced in one step, and changed by one at a time."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from olp import files


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    files.replace(path, b"old", mode=0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def no(new: Path) -> None:
        assert (new.read_bytes(), path.read_bytes()) == (b"new", b"old")
        raise ValueError

    with pytest.raises(ValueError):
        files.replace(path, b"new", check=no, durable=True)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path], "nothing of the other is left"
    assert files.replace(path, b"new") == path
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.replace(tmp_path / "no" / "f", b"x")
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError):
        files.replace(tmp_path / "f", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("folder", [True, False])
def test_one_at_a_time(tmp_path: Path, folder: bool) -> None:
    path = tmp_path if folder else tmp_path / "lock"
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with files.locked(path):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most == 1
