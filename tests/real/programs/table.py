"""The programs, and how each is told to do the same work: look at a picture, read a file, edit it.

What the model answers is in the prompt (see `vendors/plan.py`), in each program's own tools. What
a program is connected with is nowhere here: that is what `olp connect` writes. What was run is
said in docs/clients.md: `python -m tests.real.programs.table` prints its table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..shelf import Found
from .install import SHELF

FILE, PICTURE = "notes.txt", "picture.png"
BEFORE, AFTER = "hello\nworld\n", "hello\nthere\n"
FUNCTIONS = """\
def read_file(path: str) -> str:
    "Reads a file."
    return open(path).read()


def edit_file(path: str, old: str, new: str) -> str:
    "Replaces text in a file."
    text = open(path).read()
    open(path, "w").write(text.replace(old, new))
    return "done"
"""
"""The tools of `llm`, which has none of its own."""


@dataclass(frozen=True)
class Job:
    """One run: in which folder, with which model of OLP's, and whether there is a picture."""

    repo: Path
    model: str
    order: str
    picture: bool

    @property
    def file(self) -> str:
        return str(self.repo / FILE)


Command = tuple[Sequence[str], str]
"""Arguments after the program's name, and its standard input."""


@dataclass(frozen=True)
class Program:
    """One program, by its name in `olp connect`. `steps` are the calls of its tools that the work
    takes; without any its model answers in words that it reads edits from. `sends_pictures` says
    whether it can be given one without its window."""

    name: str
    command: Callable[[Job], Command]
    steps: Callable[[str], Sequence[tuple[str, Mapping[str, Any]]]] = lambda file: ()
    sends_pictures: bool = True
    env: Mapping[str, str] = field(default_factory=dict)

    def takes(self, cli: str) -> bool:
        """Whether it can show a picture to this CLI beside its tools: vibe takes one or other."""
        return self.sends_pictures and (cli != "vibe" or not self.steps(""))

    def order(self, file: str, *, picture: bool) -> str:
        """What the model is to do, as part of the prompt."""
        if not (steps := self.steps(file)):
            return f"[[SAY:{_EDIT}]]"
        calls = [{"name": name, "args": args} for name, args in steps]
        return f"[[STEPS:{json.dumps(calls)}]][[THEN:{'SEE' if picture else 'SAY:all done'}]]"


_EDIT = f"""{FILE}
```
<<<<<<< SEARCH
world
=======
there
>>>>>>> REPLACE
```
"""


def _aider(job: Job) -> Command:
    files = [FILE, PICTURE] if job.picture else [FILE]
    quiet = ["--yes-always", "--no-check-update", "--no-show-release-notes", "--no-auto-commits"]
    return [*quiet, *files, "--message", f"Please do it. {job.order}"], ""


def _cline(job: Job) -> Command:
    seen = f"@./{PICTURE} " if job.picture else ""
    return [f"Please do it. {seen}{job.order}"], ""


def _cn(job: Job) -> Command:
    return ["-p", "--auto", f"Please do it. {job.order}"], ""


def _llm(job: Job) -> Command:
    (job.repo / "functions.py").write_text(FUNCTIONS, "utf-8")
    seen = ["-a", PICTURE] if job.picture else []
    return ["-m", "olp", "--functions", "functions.py", *seen, f"Please do it. {job.order}"], ""


def _opencode(job: Job) -> Command:
    """It puts its arguments into quotation marks, so the prompt comes by its input."""
    seen = ["-f", str(job.repo / PICTURE)] if job.picture else []
    at = ["--dir", str(job.repo)]
    return ["run", "-m", f"olp/{job.model}", *at, *seen], f"Please do it. {job.order}"


def _pi(job: Job) -> Command:
    seen = [f"@{PICTURE}"] if job.picture else []
    return ["-p", "--model", f"olp/{job.model}", *seen, f"Please do it. {job.order}"], ""


def _qwen(job: Job) -> Command:
    seen = f"@{PICTURE} " if job.picture else ""
    return ["--yolo", f"Please do it. {seen}{job.order}"], ""


PROGRAMS = (
    Program("aider", _aider),
    Program(
        "cline",
        _cline,
        lambda file: (
            ("read_files", {"files": [{"path": file}]}),
            ("editor", {"path": file, "old_text": "world", "new_text": "there"}),
        ),
    ),
    Program(
        "continue",
        _cn,
        lambda file: (
            ("Read", {"filepath": file}),
            ("Edit", {"file_path": file, "old_string": "world", "new_string": "there"}),
        ),
        sends_pictures=False,
        env={"CONTINUE_CLI_ENABLE_TELEMETRY": "0"},
    ),
    Program(
        "llm",
        _llm,
        lambda file: (
            ("read_file", {"path": file}),
            ("edit_file", {"path": file, "old": "world", "new": "there"}),
        ),
    ),
    Program(
        "opencode",
        _opencode,
        lambda file: (
            ("read", {"filePath": file}),
            ("edit", {"filePath": file, "oldString": "world", "newString": "there"}),
        ),
    ),
    Program(
        "pi",
        _pi,
        lambda file: (
            ("read", {"path": file}),
            ("edit", {"path": file, "edits": [{"oldText": "world", "newText": "there"}]}),
        ),
        env={"PI_OFFLINE": "1"},
    ),
    Program(
        "qwen-code",
        _qwen,
        lambda file: (
            ("read_file", {"file_path": file}),
            ("edit", {"file_path": file, "old_string": "world", "new_string": "there"}),
        ),
        env={"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"},
    ),
)

CLIS = ("claude", "codex", "vibe")
_HEAD = "| program | version | reads and edits a file through | sees a picture, too, through |"


def rows() -> list[tuple[str, str, str]]:
    """What docs/clients.md says of each: its name, the CLIs of its work, and those of a picture."""
    return [
        (program.name, ", ".join(CLIS), ", ".join(filter(program.takes, CLIS)) or "none")
        for program in PROGRAMS
    ]


def main() -> None:
    """Print that table with the versions that are installed, to be put there by hand."""
    print(f"{_HEAD}\n|---|---|---|---|")
    found = SHELF.locate()
    for name, *told in rows():
        one = found[name]
        version = one.version if isinstance(one, Found) else "?"
        print(f"| `{name}` | {version} | {' | '.join(told)} |")


if __name__ == "__main__":
    main()
