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
    """The command that starts the CLI, with an absolute path; None if it is not installed.

    A launcher script is bypassed if the native program is found: it costs time, and may not forward
    signals.
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
