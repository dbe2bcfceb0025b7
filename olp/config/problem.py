"""What is wrong with a configuration, and what only looks wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

SECRET = re.compile(r"key|token|secret|password|auth|credential|\benv\b|://[^/\s]*@", re.IGNORECASE)
"""Lines that may hold a secret. What is told here ends up in logs and in bug reports."""

LONGEST = 100
"""Characters of a line that a message repeats."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` is `FILE:LINE`, or the name of a variable or a flag."""

    message: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def shown(message: str, line: str) -> str:
    """`message`, and the line as it should be, unless that could give something away."""
    line = " ".join(line.split())
    return message if SECRET.search(line) or len(line) > LONGEST else f"{message}: {line}"
