"""The client programs for the tests: `python -m tests.real.programs.install` installs them.

They live in `$OLP_TEST_CLIENTS`, else `~/.cache/olp-test-clients`. Some want a newer Node.js than
many machines have, so one is among them.
"""

from __future__ import annotations

import sys

from ..shelf import Npm, Pip, Shelf

SHELF = Shelf(
    folder="olp-test-clients",
    variable="OLP_TEST_CLIENTS",
    module="tests.real.programs.install",
    packages={
        "node": Npm("node", tag="24"),
        "aider": Pip("aider-chat", (12, 11, 10)),
        "cline": Npm("cline"),
        "continue": Npm("@continuedev/cli", "cn"),
        "opencode": Npm("opencode-ai"),
        "llm": Pip("llm", (13, 12, 11, 14)),
        "pi": Npm("@earendil-works/pi-coding-agent"),
        "qwen-code": Npm("@qwen-code/qwen-code", "qwen"),
    },
)

if __name__ == "__main__":
    sys.exit(SHELF.main())
