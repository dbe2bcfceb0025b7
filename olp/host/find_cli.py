"""Finds the CLIs on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from olp.config import ProviderConfig
from olp.providers.base import ProviderInfo


def find_command(
    info: ProviderInfo, config: ProviderConfig, environ: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The command that starts the CLI, the program as an absolute path; None if it is not there.

    A launcher script in front of the real program is left out where the program is found beside
    it: it costs time, and a signal that ends it may not reach the program.
    """
    wanted = config.command or (info.program,)
    program = shutil.which(wanted[0], path=environ.get("PATH"))
    if program is None:
        return None
    if not config.command:
        program = _native(info, Path(program)) or program
    return (str(Path(program).absolute()), *wanted[1:])


def _native(info: ProviderInfo, launcher: Path) -> str | None:
    folder = launcher.resolve().parent
    for pattern in info.native:
        base = folder
        while pattern.startswith("../"):
            base, pattern = base.parent, pattern.removeprefix("../")
        for found in sorted(base.glob(pattern)):
            if shutil.which(str(found)):
                return str(found)
    return None
