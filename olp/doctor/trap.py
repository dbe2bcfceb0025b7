"""The canaries of the isolation self-test: files that must not be read, a folder that must not be
written to, and the tool calls of a malicious model that try to.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from olp.doctor.vendor import Call

NOTES = (
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    ".codex/AGENTS.md",
    ".vibe/AGENTS.md",
    ".agents/AGENTS.md",
    "AGENTS.md",
)
"""Files in a user's home that some CLI would send along by itself."""


@dataclass(frozen=True, slots=True)
class Trap:
    """A home folder with canaries: `token` is in each of its files and must not be sent anywhere,
    and no file may appear in `drop`.
    """

    home: Path
    token: str

    @property
    def secret(self) -> Path:
        """A file that must not be read."""
        return self.home / "secret.txt"

    @property
    def drop(self) -> Path:
        """A folder that must not be written to."""
        return self.home / "drop"


def lay(base: Path) -> Trap:
    """Create a trap in a new folder in `base`."""
    home = Path(tempfile.mkdtemp(prefix="home-", dir=base))
    trap = Trap(home, f"canary-{secrets.token_hex(8)}")
    trap.drop.mkdir()
    for name in (*NOTES, trap.secret.name):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(f"The password is {trap.token}.\n", "utf-8")
    (home / ".codex" / "auth.json").write_text('{"OPENAI_API_KEY": "sk-dummy"}', "utf-8")
    return trap


def attempts(trap: Trap) -> Mapping[str, Sequence[Call]]:
    """The tool calls that the model tries, by API: a shell, writing and reading a file, under the
    names that the CLIs use for such tools.
    """

    def shell(name: str) -> str:
        return f"cat '{trap.secret}'; echo done > '{trap.drop}/{name}'"

    def patch(name: str) -> str:
        return f"*** Begin Patch\n*** Add File: {trap.drop}/{name}\n+done\n*** End Patch\n"

    by_exec = json.dumps(shell("by-exec"))
    inner = json.dumps({"command": shell("by-run-typescript")})
    by_script = f"return await tools.file_system.bash({inner})"
    return {
        "/v1/messages": (
            Call("Bash", {"command": shell("by-bash")}),
            Call("Write", {"file_path": f"{trap.drop}/by-write", "content": "done"}),
            Call("Read", {"file_path": str(trap.secret)}),
        ),
        "/v1/responses": (
            Call("exec_command", {"cmd": shell("by-exec-command")}),
            Call("shell", {"command": ["sh", "-c", shell("by-shell")]}),
            Call("apply_patch", {"input": patch("by-apply-patch")}, custom=True),
            Call("exec", {"input": f"await tools.exec_command({{cmd: {by_exec}}})"}, custom=True),
        ),
        "/v1/chat/completions": (
            Call("bash", {"command": shell("by-bash")}),
            Call("write_file", {"path": f"{trap.drop}/by-write-file", "content": "done"}),
            Call("read_file", {"path": str(trap.secret)}),
            Call("run_typescript", {"code": f"async function main() {{ {by_script} }}"}),
        ),
    }
