"""Mapping between the names of the client's tools and those a CLI accepts.

A client may use any name; a CLI restricts characters and length, and has tools of its own. A name
that does not fit is rewritten, and no two names collide.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from olp.model import Tool

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_HASH_LENGTH = 8


def fitted(name: str, longest: int) -> str:
    """`name` reduced to letters, digits, `_` and `-`, at most `longest` characters; a changed name
    starts with a hash of the original.
    """
    plain = _ODD.sub("_", name)
    if plain == name and 0 < len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_HASH_LENGTH]
    return f"t{digest}_{plain}"[:longest]


class Names:
    """The tool names of one request.

    `prefix` is prepended where the CLI shows a name, `taken` are the CLI's own names, no name may
    begin with `reserved`, and an `identifier` has no `-` and no leading digit.
    """

    def __init__(
        self,
        tools: Sequence[Tool] = (),
        *,
        longest: int = 64,
        prefix: str = "",
        taken: Sequence[str] = (),
        reserved: str = "",
        identifier: bool = False,
    ) -> None:
        self._longest = longest
        self._prefix = prefix
        self._taken = taken
        self._reserved = reserved
        self._identifier = identifier
        self._out: dict[str, str] = {}
        self._back: dict[str, str] = {}
        # Names that can stay unchanged come first, so that no rewritten one collides with them.
        for tool in sorted(tools, key=lambda tool: self._fits(tool.name) != tool.name):
            name, tail = self._fits(tool.name), ""
            while name in self._back:
                tail += "_"
                name = self._fits(f"{tool.name[: longest - 32]}_{len(self._back)}{tail}")
            self._out[tool.name], self._back[name] = name, tool.name

    def _fits(self, name: str) -> str:
        if name in self._taken or (self._reserved and name.startswith(self._reserved)):
            name = f"client_{name}"
        if self._identifier and (name[:1].isdigit() or "-" in name):
            name = f"n_{name.replace('-', '_')}"
        return fitted(name, self._longest)

    def __bool__(self) -> bool:
        return bool(self._back)

    def outward(self, name: str) -> str:
        """The name as sent to the CLI."""
        return self._out.get(name) or self._fits(name)

    def shown(self, name: str) -> str:
        """The name as the model sees it."""
        return self._prefix + self.outward(name)

    def inward(self, shown: str) -> str | None:
        """The client's name of the tool that the model calls `shown`; None if there is none."""
        return self._back.get(shown.removeprefix(self._prefix))

    def missing(self, shown: Sequence[str]) -> list[str]:
        """The client's names of tools that are not among `shown`."""
        there = set(shown)
        return [name for out, name in self._back.items() if self._prefix + out not in there]

    def __contains__(self, shown: str) -> bool:
        return shown.startswith(self._prefix) and self.inward(shown) is not None
