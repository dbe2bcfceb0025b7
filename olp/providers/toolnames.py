"""Names of the client's tools, as a CLI takes them, and back again.

A client may use any name; a CLI takes some letters and not too many of them. A name that does not
fit is written with a mark of the whole, so that no two become one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from olp.model import Tool

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_MARK = 8


def fitting(name: str, longest: int, taken: Sequence[str] = ()) -> str:
    """`name` with letters, digits, `_` and `-` alone, at most `longest` of them, and none of
    `taken`."""
    plain = _ODD.sub("_", name)
    if plain == name and len(name) <= longest and name not in taken:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_MARK]
    return f"{plain[: longest - _MARK - 1]}_{mark}"


class Names:
    """Those of one request's tools. `prefix` stands before each where the CLI shows it."""

    def __init__(
        self,
        tools: Sequence[Tool] = (),
        *,
        longest: int = 64,
        prefix: str = "",
        taken: Sequence[str] = (),
    ) -> None:
        self._longest = longest
        self._prefix = prefix
        self._taken = taken
        self._back = {self.outward(tool.name): tool.name for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._back)

    def outward(self, name: str) -> str:
        """The name that the CLI is told."""
        return fitting(name, self._longest, self._taken)

    def shown(self, name: str) -> str:
        """The name that the model knows it by."""
        return self._prefix + self.outward(name)

    def inward(self, shown: str) -> str | None:
        """The client's own name of what the model calls `shown`; None if it offered none such."""
        return self._back.get(shown.removeprefix(self._prefix))

    def __contains__(self, shown: str) -> bool:
        return shown.startswith(self._prefix) and self.inward(shown) is not None
