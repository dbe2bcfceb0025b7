"""The folders of a run, and the sweep after a run that could not clean up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from olp.errors import StartError
from olp.runtime.process.removal import remove
from olp.runtime.process.run_folder import RunFolder, marked
from olp.runtime.process.worker import RUN_VARIABLE
from tests.runtime.test_removal import nest
from tests.support import runs

SLEEP = [sys.executable, "-SEc", "print('up', flush=True); import time; time.sleep(60)"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that is not there yet."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path / "state"


class Marked:
    """Processes that carry a run's id, as CLIs do."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, run_id: str, *, session: bool = True) -> int:
        """One more, running when this returns."""
        env = {RUN_VARIABLE: run_id, "PATH": "/usr/bin"}
        child = subprocess.Popen(SLEEP, env=env, stdout=subprocess.PIPE, start_new_session=session)
        assert child.stdout is not None
        child.stdout.readline()
        self.started.append(child)
        return child.pid

    def close(self) -> None:
        """End them all."""
        for child in self.started:
            child.kill()
            child.communicate(timeout=10)


@pytest.fixture
def processes() -> Iterator[Marked]:
    """Starts marked processes."""
    made = Marked()
    yield made
    made.close()


def ended(*pids: int) -> None:
    """The processes run no more, a moment from now at the latest."""
    deadline = time.monotonic() + 2
    while any(map(runs, pids)):
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.01)


def abandoned(state: Path) -> RunFolder:
    """A run that ended without a word: its lock is gone, its file and folders are not."""
    place = RunFolder(state)
    place.open()
    assert place._lock is not None
    os.close(place._lock)
    place._lock = None
    (place.private / f"{place.run_id}-abc").mkdir()
    return place


def test_M1_the_folders_are_the_users_alone(state: Path) -> None:
    place = RunFolder(state)
    assert place.open() == 0
    for folder in (place.state, place.work, place.private):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(place.work.iterdir()) == []
    place.close()
    place.close()


def test_M1_the_folder_above_is_the_users_alone_too(state: Path) -> None:
    place = RunFolder(state / "demo", within=state)
    place.open()
    assert state.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in state.iterdir()] == ["demo"]
    place.close()


def test_M1_private_folders_are_in_memory_where_the_system_offers_it(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    place = RunFolder(state)
    place.open()
    assert tmp_path / "olp" in place.private.parents or place.private == tmp_path / "olp"
    place.close()


def test_M6_a_clean_end_leaves_nothing(state: Path, processes: Marked) -> None:
    place = RunFolder(state)
    place.open()
    pid = processes.start(place.run_id)
    (place.private / f"{place.run_id}-abc").mkdir()
    place.close()
    ended(pid)
    assert list(place.private.iterdir()) == []
    assert list((state / "runs").iterdir()) == []


def test_M6_the_next_start_sweeps_a_run_that_is_over(state: Path, processes: Marked) -> None:
    dead = abandoned(state)
    pids = [processes.start(dead.run_id), processes.start(dead.run_id, session=False)]
    place = RunFolder(state)
    assert place.open() == 2
    ended(*pids)
    assert list(place.private.iterdir()) == []
    assert [file.name for file in (state / "runs").iterdir()] == [place.run_id]
    place.close()


def test_M6_a_run_that_lives_is_not_touched(state: Path, processes: Marked) -> None:
    living = RunFolder(state)
    living.open()
    dead = abandoned(state)
    theirs = processes.start(living.run_id)
    orphan = processes.start(dead.run_id)
    other = processes.start("somebody-else")
    folder = living.private / f"{living.run_id}-abc"
    folder.mkdir()
    place = RunFolder(state)
    place.open()
    place.close()
    assert runs(theirs)
    assert runs(other)
    assert folder.exists()
    ended(orphan)
    living.close()
    ended(theirs)


def test_M6_a_mark_is_the_whole_word(processes: Marked) -> None:
    pid = processes.start("abcdef")
    assert pid in list(marked("abcdef"))
    assert pid not in list(marked("abcde"))
    assert pid not in list(marked("bcdef"))


def test_M6_many_may_start_at_the_same_time(state: Path) -> None:
    places = [RunFolder(state) for _ in range(16)]
    together = threading.Barrier(len(places))
    errors: list[BaseException] = []

    def run(place: RunFolder) -> None:
        together.wait(10)
        try:
            for _ in range(5):
                place.open()
                place.close()
            place.open()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[place]) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert errors == []
    assert {file.name for file in (state / "runs").iterdir()} == {p.run_id for p in places}
    for place in places:
        place.close()


def test_M5_one_server_at_a_time_serves_over_a_folder(state: Path) -> None:
    first, second = RunFolder(state), RunFolder(state)
    for place in (first, second):
        place.open()
    first.serve()
    with pytest.raises(StartError, match="a server runs over the folder") as caught:
        second.serve()
    assert "state_dir" in str(caught.value) and "\n" not in str(caught.value)
    first.close()
    second.serve()
    second.close()
    again = RunFolder(state)
    again.open()
    again.serve()
    again.close()


def test_a_folder_that_cannot_be_made_is_told_in_one_line(state: Path) -> None:
    state.write_text("a file")
    with pytest.raises(StartError, match="cannot use the folder") as caught:
        RunFolder(state).open()
    assert "\n" not in str(caught.value)


def test_M1_the_working_directory_is_emptied_at_start(state: Path) -> None:
    place = RunFolder(state)
    (place.work / "deep").mkdir(parents=True)
    (place.work / "CLAUDE.md").write_text("x")
    place.open()
    assert list(place.work.iterdir()) == []
    place.close()


async def test_M1_the_working_directory_is_emptied_between_requests(state: Path) -> None:
    place = RunFolder(state)
    place.open()
    await place.tidy()
    (place.work / "deep").mkdir()
    (place.work / "notes.md").write_text("x")
    await place.tidy()
    assert list(place.work.iterdir()) == []
    place.work.rmdir()
    await place.tidy()
    assert place.work.is_dir(), "it is made anew where something has cleared /tmp"
    place.close()
    assert not place.work.exists()


def test_M1_the_working_directory_tells_nothing_and_is_always_the_same(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude Code tells its model the path, and the vendor keeps a prompt that is the same."""
    work = RunFolder(state).work
    assert re.fullmatch(r"/tmp/olp-empty-[0-9a-f]{8}", str(work))
    assert work == RunFolder(state).work != RunFolder(tmp_path / "other").work
    work.symlink_to(tmp_path)
    assert RunFolder(state).work == state / "work" / work.name, "nothing of somebody else's is used"
    work.unlink()


def test_M1_the_end_of_one_server_takes_nothing_from_another(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers of one user, each with its state folder, share the system's runtime folder."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    one, other = RunFolder(state), RunFolder(tmp_path / "other")
    one.open()
    other.open()
    one.close()
    assert other.work.is_dir() and other.private.is_dir()
    other.close()


def test_M1_what_cannot_be_removed_stops_the_start_with_one_line(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = RunFolder(state)
    place.work.mkdir()
    (place.work / "CLAUDE.md").write_text("x")

    def refused(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(StartError, match="OLP cannot remove what is in it"):
        place.open()
    monkeypatch.undo()
    remove(place.work)


def test_M6_a_private_folder_of_any_depth_is_swept(state: Path) -> None:
    dead = abandoned(state)
    nest(dead.private / f"{dead.run_id}-abc", 3000)
    place = RunFolder(state)
    place.open()
    assert list(place.private.iterdir()) == []
    place.close()
