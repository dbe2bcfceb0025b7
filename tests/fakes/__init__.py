"""Stand-ins for the vendors' CLIs: real processes that do what a test wrote down for them.

`install(folder)` makes three executables, `claude`, `codex` and `vibe`, that speak their CLI's
output format. What they do is a plan (see `plan.py`): a JSON file whose path they find in the
variable `FAKE_PLAN`. What they saw - arguments, environment, folder, standard input - they write
into a record beside it.

The programs are thin: each loads `player.py`, which needs nothing but the standard library and
starts in about 20 ms.
"""

from __future__ import annotations

import sys
from pathlib import Path

NAMES = ("claude", "codex", "vibe")

_PROGRAM = """#!{python} -SE
import sys
sys.path.insert(0, {folder!r})
import player
player.main({name!r})
"""


def install(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    """Put the fakes into `folder`, and give the folder back: it belongs in front of PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    here = str(Path(__file__).resolve().parent)
    for name in names:
        program = folder / name
        program.write_text(_PROGRAM.format(python=sys.executable, folder=here, name=name))
        program.chmod(0o755)
    return folder
