"""Errors and warnings about a configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass

SECRET = re.compile(r"key|token|secret|password|auth|credential|\benv\b|://[^/\s]*@", re.IGNORECASE)
"""Matches lines that may contain a secret, since messages end up in logs and bug reports."""

LONGEST = 100
"""The longest line, in characters, that a message quotes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or warning. `where` is `FILE:LINE`, or the name of a variable or flag."""

    message: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def shown(message: str, line: str) -> str:
    """`message` with the corrected line, unless that may contain a secret or is too long."""
    line = " ".join(line.split())
    return message if SECRET.search(line) or len(line) > LONGEST else f"{message}: {line}"
