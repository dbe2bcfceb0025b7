"""Names of the client's tools, as a CLI takes them, and back again.

A client may use any name; a CLI takes some letters and not too many of them, and has tools of its
own. A name that does not fit is written another way, and no two become one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from olp.model import Tool

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_MARK = 8


def fitted(name: str, longest: int) -> str:
    """`name` with letters, digits, `_` and `-` alone, at most `longest` of them: as it is, or with
    a mark of the whole."""
    plain = _ODD.sub("_", name)
    if plain == name and 0 < len(name) <= longest:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_MARK]
    return f"t{mark}_{plain}"[:longest]


class Names:
    """Those of one request's tools. `prefix` stands before each where the CLI shows it, `taken` are
    its own, none may begin with `reserved`, and an `identifier` has no `-` and does not begin with
    a digit."""

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
        # Those that can stay as they are come first, so that no other one takes their place.
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
        """The name that the CLI is told."""
        return self._out.get(name) or self._fits(name)

    def shown(self, name: str) -> str:
        """The name that the model knows it by."""
        return self._prefix + self.outward(name)

    def inward(self, shown: str) -> str | None:
        """The client's own name of what the model calls `shown`; None if it offered none such."""
        return self._back.get(shown.removeprefix(self._prefix))

    def missing(self, shown: Sequence[str]) -> list[str]:
        """The client's own names of tools that are not among those `shown`."""
        there = set(shown)
        return [name for out, name in self._back.items() if self._prefix + out not in there]

    def __contains__(self, shown: str) -> bool:
        return shown.startswith(self._prefix) and self.inward(shown) is not None
