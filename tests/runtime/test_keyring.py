"""The file of the keys: one step for everybody, whatever happens in its middle."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from olp.core.keys import keyfile
from olp.core.keys.key import Key, digest_of, find
from olp.errors import OLPError
from olp.runtime.access.keyring import FILE, Keyring, Ring, new_id, new_token


def added(keyring: Keyring, name: str, token: str | None = None) -> str:
    token = token or new_token()
    key = Key(id=new_id(), name=name, digest=digest_of(token), created_at=time.time())
    keyring.change(lambda keys: keyfile.added(keys, key))
    return token


def names(ring: Ring) -> list[str]:
    return [key.name for key in ring.keys]


def test_no_file_is_no_keys(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "nowhere").look()
    assert ring == Ring() and not ring.on


def test_M4_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        added(Keyring(tmp_path / "a" / "state"), "anna")
    finally:
        os.umask(old)
    state = tmp_path / "a" / "state"
    assert state.stat().st_mode & 0o777 == 0o700
    assert {f.name: f.stat().st_mode & 0o777 for f in state.iterdir()} == {
        FILE: 0o600,
        f"{FILE}.lock": 0o600,
    }


def test_a_change_is_seen_by_the_next_look(tmp_path: Path) -> None:
    server, command = Keyring(tmp_path), Keyring(tmp_path)
    assert not server.look().on
    for number in range(50):
        token = added(command, f"p{number}")
        assert find(server.look().keys, token) is not None
        command.change(lambda keys, n=number: keyfile.revoked(keys, f"p{n}", 1.0))  # type: ignore[misc]
        key = find(server.look().keys, token)
        assert key is not None and key.revoked
    assert server.look() is server.look(), "and it is not read again without need"


def test_a_clock_that_is_set_back_hides_no_change(tmp_path: Path) -> None:
    """Nor does a file that keeps its size and its time to the nanosecond."""
    server, command = Keyring(tmp_path), Keyring(tmp_path)
    token = added(command, "anna")
    os.utime(tmp_path / FILE, ns=(10**18, 10**18))
    assert find(server.look().keys, token)
    other = new_token()
    command.change(lambda keys: keyfile.rotated(keys, "anna", digest_of(other)))
    os.utime(tmp_path / FILE, ns=(10**18, 10**18))
    assert find(server.look().keys, token) is None
    assert find(server.look().keys, other)
    os.utime(tmp_path / FILE, ns=(0, 0))
    assert find(server.look().keys, other)


def _garbage(path: Path) -> None:
    path.write_bytes(b'{"version": 1, "keys": [')


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _newer(path: Path) -> None:
    path.write_text(json.dumps({"version": 9, "keys": []}))


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _for_all(path: Path) -> None:
    path.chmod(0o666)


HARMS = [_garbage, _empty, _newer, _folder, _loop, _huge, _for_all]


@pytest.mark.parametrize("harm", HARMS)
def test_what_cannot_be_read_never_counts_as_no_keys(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    running = Keyring(tmp_path)
    added(Keyring(tmp_path), "anna")
    assert names(running.look()) == ["anna"]
    harm(tmp_path / FILE)
    for keyring in (running, Keyring(tmp_path)):
        ring = keyring.look()
        assert ring.on and ring.problem and not ring.keys
        assert keyring.look() == ring


def looks(path: Path) -> tuple[int, ...]:
    """What a write would change; reading changes the time of access alone."""
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("harm", HARMS)
def test_what_cannot_be_read_is_never_written_over(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    added(Keyring(tmp_path), "anna")
    harm(tmp_path / FILE)
    before = looks(tmp_path / FILE)
    with pytest.raises(OLPError, match=r"nothing was changed"):
        added(Keyring(tmp_path), "ben")
    assert looks(tmp_path / FILE) == before
    assert sorted(os.listdir(tmp_path)) == [FILE, f"{FILE}.lock"]  # noqa: PTH208


def test_a_file_that_goes_away_under_a_running_server_closes_it(tmp_path: Path) -> None:
    running = Keyring(tmp_path)
    token = added(Keyring(tmp_path), "anna")
    assert running.look().on
    (tmp_path / FILE).rename(tmp_path / "aside")
    ring = running.look()
    assert ring.on and "is gone" in str(ring.problem)
    assert running.look() == ring
    (tmp_path / "aside").rename(tmp_path / FILE)
    assert find(running.look().keys, token)
    (tmp_path / FILE).unlink()
    assert running.look().on
    assert not Keyring(tmp_path).look().on, "a new start finds a house without keys"


def test_a_file_that_is_mended_opens_again(tmp_path: Path) -> None:
    running = Keyring(tmp_path)
    token = added(Keyring(tmp_path), "anna")
    good = (tmp_path / FILE).read_bytes()
    running.look()
    _garbage(tmp_path / FILE)
    assert running.look().problem
    (tmp_path / FILE).write_bytes(good)
    assert find(running.look().keys, token)
    (tmp_path / FILE).chmod(0o660)
    assert "chmod 600" in str(running.look().problem)
    (tmp_path / FILE).chmod(0o600)
    assert find(running.look().keys, token)


def test_a_change_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    added(keyring, "anna")
    before = (tmp_path / FILE).stat()
    with pytest.raises(OLPError, match="already"):
        added(keyring, "Anna")
    assert (tmp_path / FILE).stat() == before


def test_many_changes_at_one_time_are_all_made(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=lambda n=n: added(Keyring(tmp_path), f"p{n}")) for n in range(24)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert Keyring(tmp_path).look().problem is None
    assert sorted(names(Keyring(tmp_path).look())) == sorted(f"p{n}" for n in range(24))


_WRITER = """
import sys
from pathlib import Path
from tests.runtime.test_keyring import added
from olp.runtime.access.keyring import Keyring
keyring = Keyring(Path(sys.argv[1]))
print("ready", flush=True)
for n in range(10_000):
    added(keyring, f"{sys.argv[2]}-{n}")
"""


def test_a_crash_in_the_middle_of_a_change_loses_nothing(tmp_path: Path) -> None:
    """SIGKILL at any moment: every key that was there is there, and the next change works."""
    token = added(Keyring(tmp_path), "anna")
    last = 0
    for number in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), f"w{number}"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        time.sleep(0.03 + number * 0.011)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        ring = Keyring(tmp_path).look()
        assert ring.problem is None and find(ring.keys, token)
        assert len(ring.keys) >= last
        last = len(ring.keys)
    added(Keyring(tmp_path), "ben")
    assert sorted(os.listdir(tmp_path)) == [FILE, f"{FILE}.lock"]  # noqa: PTH208


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = Keyring(tmp_path)
    token = added(keyring, "anna")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OLPError, match="No space left"):
        added(keyring, "ben")
    monkeypatch.undo()
    assert names(Keyring(tmp_path).look()) == ["anna"]
    assert find(keyring.look().keys, token)
    assert sorted(os.listdir(tmp_path)) == [FILE, f"{FILE}.lock"]  # noqa: PTH208


def test_M4_a_change_that_nobody_could_read_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring(tmp_path)
    token = added(keyring, "anna")
    monkeypatch.setattr("olp.runtime.access.keyring.MAX_BYTES", 1024 * 1024)
    prompt = "\x01" * 100_000  # as JSON six times as long

    def long(keys: keyfile.Keys) -> keyfile.Keys:
        two = [Key(**base, name=name, system_prompt=prompt) for name in ("ben", "cleo")]  # type: ignore[arg-type]
        return (
            *keys,
            *(structs.replace(key, id=new_id(), digest=digest_of(key.name)) for key in two),
        )

    base = {"id": new_id(), "digest": "0" * 64, "created_at": 1.0}
    with pytest.raises(OLPError, match=r"nothing was changed.* larger than 1 MiB"):
        keyring.change(long)
    with pytest.raises(OLPError, match=r"nothing was changed.* the same token"):
        keyring.change(lambda keys: (*keys, structs.replace(keys[0], id=new_id(), name="ben")))
    with pytest.raises(OLPError, match=r"nothing was changed.* cannot be a name"):
        keyring.change(lambda keys: (forced(keys[0], name=" "),))
    for look in (keyring.look(), Keyring(tmp_path).look()):
        assert names(look) == ["anna"] and find(look.keys, token)
    assert sorted(os.listdir(tmp_path)) == [FILE, f"{FILE}.lock"]  # noqa: PTH208


def forced(key: Key, **fields: object) -> Key:
    """`key` with what its own checks would not allow."""
    other = copy.copy(key)
    for name, value in fields.items():
        structs.force_setattr(other, name, value)
    return other
