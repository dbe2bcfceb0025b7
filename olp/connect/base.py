"""What a client of OLP is, for somebody who wants to connect it: snippets, notes, and its file.

Nothing here opens a file: a client's own configuration comes in as text and goes out as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

PLACEHOLDER = "YOUR_KEY"
"""Stands where a key belongs that nobody but its owner knows."""

ANY_KEY = "olp"
"""Stands where a client wants a key and OLP wants none."""

Format = Literal["json", "yaml", "env", "sh", "python", "javascript", "values"]
"""How a snippet is to be read. `values` are lines of `field: value`, to be typed into a form."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client is to go. `base` is the address with `/v1`."""

    base: str
    key: str
    model: str = "auto"


@dataclass(frozen=True, slots=True)
class Snippet:
    """One piece of configuration, and in a few words where it goes."""

    where: str
    format: Format
    text: str


class CannotMerge(Exception):
    """A file that could be damaged by changing it; the message says what is in the way."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A client's own file. `paths` are candidates by `sys.platform`, of which the first that
    exists counts, else the first; `~` and `%APPDATA%` are still in them. `merge` gives the text
    with OLP in it; it raises CannotMerge rather than guess."""

    paths: Mapping[str, tuple[str, ...]]
    merge: Callable[[str, Target], str]
    holds_key: bool = True

    def candidates(self, platform: str) -> tuple[str, ...]:
        """Where it may be on this system."""
        return self.paths.get(platform, self.paths["linux"])


@dataclass(frozen=True, slots=True)
class Client:
    """One client. `notes` are what a person must know beside the snippets; `warning` says that
    something will not work, `cannot` that nothing will, and why."""

    name: str
    title: str
    snippets: Callable[[Target], tuple[Snippet, ...]]
    notes: tuple[str, ...] = ()
    warning: str = ""
    cannot: str = ""
    file: ClientFile | None = None


def values(**fields: str) -> str:
    """Lines of `field: value`; an underscore in a name is a blank."""
    return "".join(f"{name.replace('_', ' ')}: {value}\n" for name, value in fields.items())
