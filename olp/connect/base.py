"""The description of a client: snippets, notes, and its configuration files.

Nothing here opens a file: a client's own configuration is passed in and returned as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

PLACEHOLDER = "YOUR_KEY"
"""In place of a key, which is only known to its owner."""

ANY_KEY = "olp"
"""The key for clients that require one although OLP does not."""

Format = Literal["json", "yaml", "env", "sh", "python", "javascript", "values"]
"""The syntax of a snippet. `values` are lines of `field: value`, to be typed into a form."""


CONTEXT_TOKENS = 200_000
"""Assumed context window in tokens, if the server does not report it: the smallest of the models
that `auto` usually contains.
"""

OUTPUT_TOKENS = 32_000
"""Tokens of the longest answer that a client asks for, and reserves in the context."""

PATIENCE_S = 600
"""Seconds that a client should wait for an answer, where its own default is shorter: a chain may
take nine minutes (`deadline_s`) until it tries its last hop.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """The server and model that a client is to use.

    `base` is the URL with `/v1`, `context` the context window of `model` in tokens, `sees` whether
    it accepts images.
    """

    base: str
    key: str
    model: str = "auto"
    context: int = CONTEXT_TOKENS
    sees: bool = True

    @property
    def inputs(self) -> list[str]:
        """The input modalities, as most clients name them."""
        return ["text", "image"] if self.sees else ["text"]

    @property
    def output(self) -> int:
        """The longest answer in tokens, at most a quarter of the context."""
        return min(OUTPUT_TOKENS, self.context // 4)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of configuration, and a short description of where it goes."""

    where: str
    format: Format
    text: str


class CannotMerge(Exception):
    """Raised for a file that cannot be changed safely; the message says why."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A client's own file.

    `folders` are candidates by `sys.platform`: the first one applies whose `$NAME` prefix, if any,
    is a set variable. `names` are file names: the first that exists is used, else the first.
    `merge` returns the text with OLP added, or raises CannotMerge.
    """

    folders: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    merge: Callable[[str, Target], str]
    holds_key: bool = True

    def folder(self, platform: str, environ: Mapping[str, str]) -> str:
        """The folder on this platform; may start with `~`."""
        for folder in self.folders.get(platform, self.folders["linux"]):
            head, slash, rest = folder.partition("/")
            if not head.startswith("$"):
                return folder
            if given := environ.get(head[1:]):
                return given + slash + rest
        raise AssertionError("the last candidate needs no variable")


@dataclass(frozen=True, slots=True)
class Client:
    """One client program."""

    name: str

    title: str

    snippets: Callable[[Target], tuple[Snippet, ...]]

    notes: tuple[str, ...] = ()
    """What a user must know besides the snippets."""

    warning: str = ""
    """What will not work, if anything."""

    cannot: str = ""
    """Why the client cannot be used at all, if so."""

    files: tuple[ClientFile, ...] = ()

    also: tuple[str, ...] = ()
    """Other names of the client."""


def values(**fields: str) -> str:
    """Lines of `field: value`; underscores in names become spaces."""
    return "".join(f"{name.replace('_', ' ')}: {value}\n" for name, value in fields.items())
