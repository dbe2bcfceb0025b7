"""Paths in a configuration: `~` is the home folder, and relative paths start at the file's folder.

Not at the working directory, which differs between a service, a shell and a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from msgspec import structs

from olp.config.checks import Findings
from olp.config.schema import Config
from olp.config.values import Path

SERVER = ("state_dir", "tls_cert", "tls_key")


@dataclass(frozen=True, slots=True)
class Here:
    """The bases of paths: the folder of the configuration file, and the user's home."""

    folder: str
    home: str


def resolved(
    config: Config, sources: Mapping[Path, str], file: str, here: Here, found: Findings
) -> Config:
    """`config` with absolute paths. Paths from a flag or variable are resolved by the shell."""

    def whole(text: str, path: Path) -> str:
        if text.startswith("$"):
            message = "no variable is replaced here; write ~ for the home folder, or the whole path"
            found.is_wrong(f"{'.'.join(path)}: {message}", path)
            return text
        if text == "~" or text.startswith("~/"):
            return here.home + text[1:]
        if text.startswith("~"):
            found.is_wrong(f"{'.'.join(path)}: write the whole path instead of {text!r}", path)
            return text
        in_file = sources.get(path, "").startswith(f"{file}:")
        return str(PurePath(here.folder, text)) if text and in_file else text

    server: dict[str, Any] = {
        name: whole(getattr(config.server, name), ("server", name)) for name in SERVER
    }
    providers = dict(config.providers)
    for name, options in providers.items():
        program, *rest = options.command or ("",)
        # A bare name is looked up on PATH.
        if "/" in program or program.startswith(("~", "$")):
            program = whole(program, ("providers", name, "command"))
            providers[name] = structs.replace(options, command=(program, *rest))
    return structs.replace(
        config, server=structs.replace(config.server, **server), providers=providers
    )
