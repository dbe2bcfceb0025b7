"""Removal of what a CLI left: whatever it is, without recursion and without an error."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from olp.runtime.process.removal import empty, remove


def nest(folder: Path, depth: int) -> None:
    """Folders in folders in `folder`, far deeper than a path may be long, and a file at the end."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Path]:
    """Everything that makes a removal difficult; pytest itself could not remove it."""
    left = tmp_path / "left"
    left.mkdir()
    (tmp_path / "outside").mkdir(mode=0o750)
    (tmp_path / "outside" / "precious").write_text("stay")
    nest(left, 3000)
    (left / "link").symlink_to(tmp_path / "outside")
    (left / "loop").symlink_to("loop")
    os.mkfifo(left / "pipe")
    os.mkdir(os.fsencode(left) + b"/\xff\xfe")  # noqa: PTH102
    locked = left / "locked" / "inner"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    (locked / "link").symlink_to(tmp_path / "outside")
    locked.chmod(0)
    (left / "locked").chmod(0o500)
    yield left
    assert remove(left)


def stays(tmp_path: Path) -> bool:
    """Whether what the links point to is as it was."""
    outside = tmp_path / "outside"
    untouched = (outside / "precious").read_text() == "stay"
    return untouched and outside.stat().st_mode & 0o777 == 0o750


def test_M6_everything_is_removed_and_nothing_else(left: Path, tmp_path: Path) -> None:
    assert empty(left)
    assert list(left.iterdir()) == []
    assert remove(left) and not left.exists()
    assert stays(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_M6_folders_without_rights_are_removed_by_a_user_without_rights(
    left: Path, tmp_path: Path
) -> None:
    for folder, folders, files in os.walk(tmp_path):
        for name in (*folders, *files):
            os.chown(Path(folder, name), 4321, 4321, follow_symlinks=False)
        if len(folder) > 1000:
            break  # nobody needs to own what is deeper: the folder above is enough
    tmp_path.chmod(0o711)
    for above in tmp_path.parents:
        if above.name.startswith("pytest-"):
            above.chmod(0o711)
    pid = os.fork()
    if pid == 0:
        os.setgid(4321)
        os.setuid(4321)
        os._exit(0 if empty(left / "locked") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert stays(tmp_path)


def test_M6_what_is_not_there_is_removed_already(tmp_path: Path) -> None:
    assert empty(tmp_path / "none") and remove(tmp_path / "none")


def test_M6_a_file_or_link_is_removed_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    assert not empty(tmp_path / "file") and not empty(tmp_path / "link")
    assert remove(tmp_path / "file") and remove(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_M6_what_cannot_be_removed_is_told_and_raises_nothing(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refused)
        assert not empty(left) and not remove(left)
    assert remove(left)


def test_M6_what_is_written_to_meanwhile_is_no_error(tmp_path: Path) -> None:
    folder, over = tmp_path / "busy", threading.Event()
    folder.mkdir()

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                time.sleep(0.001)
                (folder / str(number)).mkdir()
                (folder / str(number) / "file").write_text("x")
            except OSError:
                continue

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            empty(folder)
    finally:
        over.set()
        writer.join(10)
    assert remove(folder)


def test_M6_no_depth_is_too_deep(tmp_path: Path) -> None:
    nest(tmp_path, 5 * sys.getrecursionlimit())
    assert empty(tmp_path)
