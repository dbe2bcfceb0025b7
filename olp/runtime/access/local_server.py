"""Discovery of this user's servers on this machine, for the `olp` commands.

Each running server writes a file, readable by its owner only, to its state folder: its URL, and a
token for this run. With it, `olp status` etc. need neither the port, a key nor a valid
configuration.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from olp.runtime.access.keyring import new_token


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that runs, or was killed. `url` has no path; `cert` is its certificate file, empty
    without TLS."""

    port: int
    token: str
    url: str
    cert: str


class LocalToken:
    """The file of a running server."""

    def __init__(self, state: Path, port: int, url: str, cert: str = "") -> None:
        self.token = new_token()
        self._path = _file(state, port)
        self._path.unlink(missing_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"token": self.token, "url": url, "cert": cert}, file)

    def close(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)


def local_servers(state: Path) -> list[LocalServer]:
    """All servers with a file in `state`, the newest first."""
    found: list[tuple[float, LocalServer]] = []
    for path in state.glob("local-*.token"):
        with contextlib.suppress(OSError, ValueError):
            found.append((path.stat().st_mtime, _read(path)))
    return [server for _, server in sorted(found, key=lambda item: -item[0])]


def _read(path: Path) -> LocalServer:
    port = re.fullmatch(r"local-(\d{1,5})\.token", path.name)
    told: Any = json.loads(path.read_text("utf-8"))
    if port is None or not isinstance(told, dict):
        raise ValueError(path.name)
    texts = (str(told.get(name) or "") for name in ("token", "url", "cert"))
    return LocalServer(int(port[1]), *texts)


def _file(state: Path, port: int) -> Path:
    return state / f"local-{port}.token"
