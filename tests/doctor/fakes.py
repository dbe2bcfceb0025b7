"""Fake CLIs that really talk to the vendor they are pointed at, and can be told to misbehave.

A mood is one word in the program itself and not in its environment, because the self-test gives a
CLI nothing of the owner's environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

_SCRIPT = """\
#!{python} -ISE
import sys
NAME, MOOD, VERSION, LOGIN = {name!r}, {mood!r}, {version!r}, {login!r}
if "--version" in sys.argv:
    print(NAME, VERSION) if VERSION else sys.exit("broken")
    sys.exit(0)
if "status" in sys.argv:
    sys.exit(0 if LOGIN else 1)
exec(open({play!r}, encoding="utf-8").read())
"""

VERSIONS = {"claude": "2.1.332", "codex": "0.171.0", "vibe": "3.0.2"}


def install(
    folder: Path, name: str, mood: str = "good", version: str | None = None, login: bool = True
) -> Path:
    """The fake `name` in `folder`, in that mood. An empty version is one it cannot tell."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    play = Path(__file__).with_name("play.py")
    told = VERSIONS[name] if version is None else version
    program.write_text(
        _SCRIPT.format(
            python=sys.executable, name=name, mood=mood, version=told, login=login, play=str(play)
        ),
        "utf-8",
    )
    program.chmod(0o755)
    return program
