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


CONTEXT_TOKENS = 200_000
"""What a client takes a model's context for where the server does not say: the smallest of the
models that `auto` is usually made of."""

OUTPUT_TOKENS = 32_000
"""The longest answer that a client asks for; it keeps as much of the context free."""

PATIENCE_S = 600
"""Seconds that a client waits for an answer, where its own default is shorter: a chain may take
nine minutes (`deadline_s`) until its last hop is asked."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client is to go. `base` is the address with `/v1`; `context` is how many tokens
    `model` takes, `sees` whether it takes images."""

    base: str
    key: str
    model: str = "auto"
    context: int = CONTEXT_TOKENS
    sees: bool = True

    @property
    def inputs(self) -> list[str]:
        """What the model takes, in the words of most clients."""
        return ["text", "image"] if self.sees else ["text"]

    @property
    def output(self) -> int:
        """The longest answer in tokens: no more than a quarter of a small context."""
        return min(OUTPUT_TOKENS, self.context // 4)


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
    """A client's own file. `folders` are candidates by `sys.platform`: one that begins with
    `$NAME` counts where that variable is set, and the first that counts is it. In there the first
    of `names` that exists, else the first. `merge` gives the text with OLP in it; it raises
    CannotMerge rather than guess."""

    folders: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    merge: Callable[[str, Target], str]
    holds_key: bool = True

    def folder(self, platform: str, environ: Mapping[str, str]) -> str:
        """Where it is on this system; `~` may still be in it."""
        for folder in self.folders.get(platform, self.folders["linux"]):
            head, slash, rest = folder.partition("/")
            if not head.startswith("$"):
                return folder
            if given := environ.get(head[1:]):
                return given + slash + rest
        raise AssertionError("the last candidate needs no variable")


@dataclass(frozen=True, slots=True)
class Client:
    """One client. `notes` are what a person must know beside the snippets; `warning` says that
    something will not work, `cannot` that nothing will, and why. `also` are other names for it."""

    name: str
    title: str
    snippets: Callable[[Target], tuple[Snippet, ...]]
    notes: tuple[str, ...] = ()
    warning: str = ""
    cannot: str = ""
    files: tuple[ClientFile, ...] = ()
    also: tuple[str, ...] = ()


def values(**fields: str) -> str:
    """Lines of `field: value`; an underscore in a name is a blank."""
    return "".join(f"{name.replace('_', ' ')}: {value}\n" for name, value in fields.items())
