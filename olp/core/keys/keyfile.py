"""Serialises keys and applies changes to them. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from olp.core.keys.key import Key, check_name, named
from olp.errors import OLPError

VERSION = 1

Keys = tuple[Key, ...]


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    keys: Keys


class _Version(Struct):
    version: int


def read(data: bytes) -> Keys:
    """Parse `data`. Raises ValueError."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise ValueError(f"it is of version {version}, and this OLP reads version {VERSION}")
        keys = msgspec.json.decode(data, type=_File).keys
    except (msgspec.DecodeError, RecursionError) as error:
        # msgspec's messages have the path, but never a value.
        raise ValueError(str(error)) from None
    _check_distinct(keys)
    return keys


def _check_distinct(keys: Keys) -> None:
    for what, values in (
        ("id", [key.id for key in keys]),
        ("token", [key.digest for key in keys]),
        ("name", [key.name.casefold() for key in keys if not key.revoked]),
    ):
        if len(set(values)) != len(values):
            raise ValueError(f"two keys in it have the same {what}")


def written(keys: Sequence[Key]) -> bytes:
    """Serialise `keys` for `read`."""
    return msgspec.json.format(msgspec.json.encode(_File(VERSION, tuple(keys))), indent=2) + b"\n"


def added(keys: Keys, key: Key) -> Keys:
    """Add a key. Raises OLPError if its name is taken; names of revoked keys are free."""
    _check_free(keys, key.name)
    return (*keys, key)


def revoked(keys: Keys, name: str, wall: float) -> Keys:
    """Revoke the key `name`; it stays in the file, so that its user gets a clear error."""
    return _replaced(keys, structs.replace(named(keys, name), revoked_at=wall))


def rotated(keys: Keys, name: str, digest: str) -> Keys:
    """Replace the token of `name`."""
    return _replaced(keys, structs.replace(named(keys, name), digest=digest))


def renamed(keys: Keys, name: str, new: str) -> Keys:
    """Rename a key."""
    key = named(keys, name)
    try:
        check_name(new)
    except ValueError as error:
        raise OLPError(str(error)) from None
    _check_free(tuple(other for other in keys if other.id != key.id), new)
    return _replaced(keys, structs.replace(key, name=new))


def _check_free(keys: Keys, name: str) -> None:
    if any(key.name.casefold() == name.casefold() and not key.revoked for key in keys):
        raise OLPError(
            f"there is a key of {name!r} already; take another name, or `olp keys rotate` for "
            "a new token, or `olp keys revoke` it first"
        )


def _replaced(keys: Keys, changed: Key) -> Keys:
    return tuple(changed if key.id == changed.id else key for key in keys)
