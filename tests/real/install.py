"""The three real CLIs for the tests: `python -m tests.real.install` installs them and prints a
table, `locate()` only looks.

They live in `$OLP_TEST_CLIS`, else `~/.cache/olp-test-clis`. The native binaries inside the npm
packages do not care for the machine's Node. `OLP_TEST_CLAUDE_VERSION`, `OLP_TEST_CODEX_VERSION`
and `OLP_TEST_VIBE_VERSION` pin a release.
"""

from __future__ import annotations

import sys

from .shelf import Found, Missing, Npm, Pip, Shelf

__all__ = ["NAMES", "SHELF", "Found", "Missing", "locate"]

SHELF = Shelf(
    folder="olp-test-clis",
    variable="OLP_TEST_CLIS",
    module="tests.real.install",
    packages={
        "claude": Npm("@anthropic-ai/claude-code"),
        "codex": Npm("@openai/codex"),
        "vibe": Pip("mistral-vibe", (15, 14, 13, 12)),
    },
)
NAMES = tuple(SHELF.packages)


def locate() -> dict[str, Found | Missing]:
    """What is installed; starts nothing."""
    return SHELF.locate()


def main() -> int:
    """Install them; 0 if all are there."""
    SHELF.main()
    return int(any(isinstance(one, Missing) for one in locate().values()))


if __name__ == "__main__":
    sys.exit(main())
