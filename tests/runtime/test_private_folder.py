"""The private folder of one launch."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from olp.model import PRIVATE_DIR, Launch
from olp.runtime.process import private_folder as private
from olp.runtime.process.private_folder import PrivateFolder
from olp.runtime.process.removal import remove
from tests.runtime.test_removal import nest


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Where folders are made."""
    path = tmp_path / "private"
    path.mkdir()
    return path


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """A user's login file, an hour old."""
    path = tmp_path / "home" / ".codex" / "auth.json"
    path.parent.mkdir(parents=True)
    path.write_text("old")
    path.chmod(0o600)
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))
    return path


def linked(base: Path, login: Path) -> PrivateFolder:
    """A folder with a link to `login`."""
    return PrivateFolder(base, "run-", Launch(("x",), {}, links={"home/auth.json": str(login)}))


def replace(folder: PrivateFolder, text: str, age_s: float = 0.0) -> None:
    """What a careful CLI does with a new token: a new file, renamed over the link."""
    path = folder.path / "home" / "auth.json"
    fresh = path.with_name("new")
    fresh.write_text(text)
    at = time.time() - age_s
    os.utime(fresh, (at, at))
    fresh.replace(path)


def mode(path: Path) -> int:
    """The permission bits."""
    return path.stat().st_mode & 0o777


def test_M1_everything_in_it_is_the_users_alone(base: Path) -> None:
    old = os.umask(0)
    try:
        files = {"system.md": b"be brief", "home/deep/config.toml": b"x = 1"}
        folder = PrivateFolder(base, "run-", Launch(("x",), {}, files=files))
    finally:
        os.umask(old)
    for path in [folder.path, *folder.path.rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert (folder.path / "system.md").read_bytes() == b"be brief"
    assert folder.path.name.startswith("run-")
    folder.close()
    assert list(base.iterdir()) == []


def test_M1_its_path_stands_in_arguments_and_environment(base: Path) -> None:
    launch = Launch(
        ("x", f"--file={PRIVATE_DIR}/a", "plain"), {"HOME": PRIVATE_DIR, "B": f"{PRIVATE_DIR}/b"}
    )
    folder = PrivateFolder(base, "run-", launch)
    assert folder.argv() == ["x", f"--file={folder.path}/a", "plain"]
    assert folder.env() == {"HOME": str(folder.path), "B": f"{folder.path}/b"}
    folder.close()


def test_M1_a_login_is_a_link(base: Path, login: Path) -> None:
    folder = linked(base, login)
    link = folder.path / "home" / "auth.json"
    assert link.is_symlink()
    assert link.read_text() == "old"
    link.write_text("written through")
    folder.close()
    assert login.read_text() == "written through"
    assert mode(login) == 0o600


def test_M1_a_login_that_is_not_there_is_no_link(base: Path, tmp_path: Path) -> None:
    missing = tmp_path / "home" / "auth.json"
    folder = linked(base, missing)
    assert not (folder.path / "home" / "auth.json").is_symlink()
    folder.close()
    assert not missing.exists()


def test_M1_a_login_that_was_replaced_is_carried_back(base: Path, login: Path) -> None:
    folder = linked(base, login)
    replace(folder, "new")
    folder.close()
    assert login.read_text() == "new"
    assert mode(login) == 0o600
    assert os.listdir(login.parent) == ["auth.json"]  # noqa: PTH208


def test_M1_a_first_login_is_carried_back_too(base: Path, tmp_path: Path) -> None:
    target = tmp_path / "home" / ".codex" / "auth.json"
    folder = linked(base, target)
    replace(folder, "first")
    folder.close()
    assert target.read_text() == "first"
    assert (mode(target), mode(target.parent)) == (0o600, 0o700)


def test_M1_a_login_that_the_user_renewed_meanwhile_stays(base: Path, login: Path) -> None:
    folder = linked(base, login)
    replace(folder, "stale", age_s=60)
    login.write_text("the user's newest")
    folder.close()
    assert login.read_text() == "the user's newest"


def test_M1_of_two_new_logins_the_newest_wins_whoever_ends_first(base: Path, login: Path) -> None:
    for first_is_newer in (False, True):
        first, second = linked(base, login), linked(base, login)
        replace(first, "first", age_s=0 if first_is_newer else 20)
        replace(second, "second", age_s=20 if first_is_newer else 0)
        os.utime(login, (1, 1))
        first.close()
        second.close()
        assert login.read_text() == ("first" if first_is_newer else "second")


def test_M1_many_new_logins_at_once_leave_one_whole_file(base: Path, login: Path) -> None:
    folders = [linked(base, login) for _ in range(12)]
    for age, folder in enumerate(folders):
        replace(folder, f"token {age} " * 20_000, age_s=age)
    together = threading.Barrier(len(folders))

    def close(folder: PrivateFolder) -> None:
        together.wait(10)
        folder.close()

    threads = [threading.Thread(target=close, args=[folder]) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert login.read_text() == "token 0 " * 20_000
    assert os.listdir(login.parent) == ["auth.json"]  # noqa: PTH208
    assert list(base.iterdir()) == []


def test_M1_a_login_that_is_itself_a_link_stays_one(
    base: Path, login: Path, tmp_path: Path
) -> None:
    real = tmp_path / "dotfiles" / "auth.json"
    real.parent.mkdir()
    login.rename(real)
    login.symlink_to(real)
    folder = linked(base, login)
    replace(folder, "new")
    folder.close()
    assert login.is_symlink()
    assert real.read_text() == "new"


def test_M6_only_what_was_asked_for_is_collected(base: Path) -> None:
    folder = PrivateFolder(base, "run-", Launch(("x",), {}, collect=("out/a", "out/none")))
    (folder.path / "out").mkdir()
    (folder.path / "out" / "a").write_bytes(b"report")
    assert folder.collect() == {"out/a": b"report"}
    folder.close()


def test_M6_a_folder_that_cannot_be_filled_is_not_left(base: Path) -> None:
    files = {"a": b"a file", "a/b": b"in a file"}
    with pytest.raises(OSError, match="a"):
        PrivateFolder(base, "run-", Launch(("x",), {}, files=files))
    assert list(base.iterdir()) == []


def test_M6_what_the_cli_left_is_removed_whatever_it_is(base: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("stay")
    folder = PrivateFolder(base, "run-", Launch(("x",), {}))
    (folder.path / "link").symlink_to(outside)
    (folder.path / "deep" / "er").mkdir(parents=True)
    (folder.path / "deep" / "er" / "file").write_text("x")
    os.mkfifo(folder.path / "pipe")
    folder.close()
    assert list(base.iterdir()) == []
    assert (outside / "precious").read_text() == "stay"


def test_M6_a_folder_that_is_still_written_to_is_removed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a killed group the leader is waited for, and the others die a moment later."""
    folder = PrivateFolder(tmp_path, "run-", Launch(("x",), {}))
    real, tries = remove, list[Path]()

    def removed(path: Path) -> bool:
        tries.append(path)
        # until then somebody puts something there while it goes on
        return len(tries) > 2 and real(path)

    monkeypatch.setattr(private, "remove", removed)
    folder.close()
    assert len(tries) == 3 and not folder.path.exists()


def test_M6_a_folder_of_any_depth_is_removed(base: Path) -> None:
    folder = PrivateFolder(base, "run-", Launch(("x",), {}))
    nest(folder.path, 3000)
    folder.close()
    assert list(base.iterdir()) == []


def test_M1_what_is_no_login_is_not_carried_back(base: Path, login: Path) -> None:
    folder = linked(base, login)
    replace(folder, "x" * (private.LOGIN_LIMIT + 1))
    folder.close()
    assert login.read_text() == "old"
    folder = linked(base, login)
    (folder.path / "home" / "auth.json").unlink()
    (folder.path / "home" / "auth.json").mkdir()
    folder.close()
    assert login.read_text() == "old" and list(base.iterdir()) == []
