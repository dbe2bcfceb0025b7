"""Checks of the configuration against this machine: missing programs, files and chains.

`olp config check` prints all of them; `olp serve` refuses to start on errors and warns about the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from olp.cli import compose
from olp.cli.running import shown_by
from olp.config import Config, Loaded, Problem
from olp.core.admission.quota import without_source
from olp.errors import OLPError


def wrong_here(loaded: Loaded, found: Mapping[str, compose.Found]) -> Iterator[Problem]:
    """Problems that prevent a start."""
    config = loaded.config
    known = any(problem.message.startswith("server.tls") for problem in loaded.wrong)
    try:
        if not known:
            shown_by(config)
    except OLPError as error:
        yield Problem(str(error), _location(loaded, "server", "tls_cert"))
    for name, chain in compose.catalogue_of(config, found).chains.items():
        for provider in dict.fromkeys(hop.provider for hop in chain.hops):
            if config.provider(provider).enabled is False:
                message = f"the chain {name!r} needs {provider}, which is switched off"
                yield Problem(message, _location(loaded, "chains", name))


def odd_here(loaded: Loaded, found: Mapping[str, compose.Found]) -> Iterator[Problem]:
    """Problems that make the server skip or ignore a setting."""
    config = loaded.config
    for name, item in found.items():
        command = config.provider(name).command
        if command and item.command is None and config.provider(name).enabled is not False:
            message = f"providers.{name}.command: {command[0]} does not exist, or cannot be run"
            yield Problem(message, _location(loaded, "providers", name, "command"))
        yield from _without_source(loaded, config, name, item)


def _without_source(
    loaded: Loaded, config: Config, name: str, item: compose.Found
) -> Iterator[Problem]:
    for threshold in without_source(config.provider(name), item.provider.info.windows):
        message = f"providers.{name}.{threshold}: {item.provider.info.title} does not report it"
        yield Problem(
            f"{message}, so this has no effect", _location(loaded, "providers", name, threshold)
        )


def _location(loaded: Loaded, *path: str) -> str:
    """The location where a key is set, or that of the first key below it."""
    sources = loaded.sources
    inner = (source for at, source in sources.items() if at[: len(path)] == path)
    return sources.get(path) or next(inner, "")
