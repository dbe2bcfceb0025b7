"""How the commands find the servers of this user."""

from __future__ import annotations

import os
from pathlib import Path

from olp.runtime.access.local_server import LocalServer, LocalToken, local_servers


def test_M4_the_local_token_is_of_one_run_and_one_user(tmp_path: Path) -> None:
    assert local_servers(tmp_path) == [] == local_servers(tmp_path / "none")
    first = LocalToken(tmp_path, 4567, "http://127.0.0.1:4567")
    assert local_servers(tmp_path) == [LocalServer(4567, first.token, "http://127.0.0.1:4567", "")]
    assert (tmp_path / "local-4567.token").stat().st_mode & 0o777 == 0o600
    second = LocalToken(tmp_path, 4567, "http://127.0.0.1:4567")  # the run before was killed
    assert [s.token for s in local_servers(tmp_path)] == [second.token] != [first.token]
    second.close()
    second.close()
    assert local_servers(tmp_path) == []


def test_the_newest_server_comes_first(tmp_path: Path) -> None:
    for port, at in ((4567, 100), (4600, 300), (4700, 200)):
        LocalToken(tmp_path, port, f"https://127.0.0.1:{port}", "/etc/olp/cert.pem")
        os.utime(tmp_path / f"local-{port}.token", (at, at))
    assert [server.port for server in local_servers(tmp_path)] == [4600, 4700, 4567]
    assert local_servers(tmp_path)[0].cert == "/etc/olp/cert.pem"


def test_what_is_no_such_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "local-1.token").write_text("olp_of-an-earlier-version")
    (tmp_path / "local-2.token").write_bytes(b"\xff")
    (tmp_path / "local-3.token").write_text("[]")
    (tmp_path / "local-x.token").write_text("{}")
    (tmp_path / "local-4.token").mkdir()
    assert local_servers(tmp_path) == []
