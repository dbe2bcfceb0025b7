"""Keys for the tests of a running house."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from olp.core.keys import keyfile
from olp.core.keys.key import Key, digest_of
from olp.runtime.access.keyring import Keyring, new_id, new_token
from tests.support import House

COLD: dict[str, Any] = {"workers": {"max_processes": 0}}
"""No process is started ahead of a request: each spawn is a request's."""


def make_key(state: Path, name: str, **limits: Any) -> dict[str, str]:
    """Make a key as `olp keys add` does; the headers that send it."""
    token = new_token()
    key = Key(id=new_id(), name=name, digest=digest_of(token), created_at=time.time(), **limits)
    Keyring(state).change(lambda keys: keyfile.added(keys, key))
    return {"Authorization": f"Bearer {token}"}


def key_of(house: House, name: str, **limits: Any) -> dict[str, str]:
    """The same, for a running house."""
    return make_key(house.place.state, name, **limits)


def token_in(headers: dict[str, str]) -> str:
    """The token that `headers` send."""
    return headers["Authorization"].removeprefix("Bearer ")
