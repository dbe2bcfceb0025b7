"""Checks whether the installed service finds the same CLIs as a shell.

A service runs with the PATH of its installation. A CLI that was added since, or moved by a version
manager, is visible to the user but not to the service.
"""

from __future__ import annotations

import os
import plistlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from olp.doctor.finding import Finding, Patient
from olp.host import service_unit as unit

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Roughly the PATH of a service without a setting."""

AGAIN = "install it again, from a shell that finds all of them: olp service install"


def check_service(patients: Sequence[Patient]) -> Iterator[Finding]:
    """Compare the service's environment with this shell's; nothing if no service is installed."""
    file = unit.installed(Path.home(), os.environ)
    if file is None:
        return
    try:
        path, secrets = unit.path_in(file), unit.secrets_of(file)
    except (OSError, ValueError, plistlib.InvalidFileException) as error:
        yield Finding("service.path", False, f"{file} cannot be read: {error}", AGAIN)
        return
    used = [patient for patient in patients if patient.installed and patient.enabled]
    yield _finds(file, used, path or DEFAULT_PATH)
    if finding := _knows(used, secrets):
        yield finding


def _finds(file: Path, used: Sequence[Patient], path: str) -> Finding:
    lost = {p.provider.info.program: what for p in used if (what := _lost(p, path))}
    if not lost:
        return Finding("service.path", True, f"{file} finds every CLI that is in use")
    shown = ", ".join(f"{name} ({what})" for name, what in lost.items())
    what = f"the service in {file} does not find what this shell finds: {shown}"
    return Finding("service.path", False, what, AGAIN)


def _lost(patient: Patient, path: str) -> str | None:
    """Why a CLI would not run with `path`: it, or the interpreter of its script, is not found."""
    wanted = patient.context.config.command or (patient.provider.info.program,)
    program = shutil.which(wanted[0], path=path)
    if program is None:
        return "not on its PATH"
    interpreter = _interpreter(Path(program))
    if interpreter and shutil.which(interpreter, path=path) is None:
        return f"it needs {interpreter}, which is not on its PATH"
    return None


def _interpreter(program: Path) -> str | None:
    """The interpreter in a `#!/usr/bin/env` line."""
    try:
        with program.open("rb") as file:
            first = file.readline(200)
    except OSError:
        return None
    words = first.decode("utf-8", "replace").removeprefix("#!").split()
    by_env = first.startswith(b"#!") and len(words) > 1 and words[0].endswith("/env")
    return next((w for w in words[1:] if not w.startswith("-")), None) if by_env else None


def _knows(used: Sequence[Patient], secrets: Path | None) -> Finding | None:
    """Check that a login in a variable of this shell is also available to the service."""
    names = [name for p in used for name in p.provider.info.passes if os.environ.get(name)]
    try:
        text = secrets.read_text("utf-8") if secrets else ""
    except OSError:
        text = ""
    missing = [name for name in names if not re.search(rf"^{name}=", text, re.M)]
    if not missing or secrets is None:
        return None
    what = f"{', '.join(missing)} is set in this shell, but not for the service"
    fix = f"write {missing[0]}=… into {secrets}, and: chmod 600 {secrets}"
    return Finding("service.login", None, what, fix)
