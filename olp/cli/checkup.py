"""What the configuration means on this machine: programs, files and chains that are not there.

`olp config check` says all of it; `olp serve` does not start with what is wrong, and warns of what
is odd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from olp.cli import compose as house
from olp.cli.running import shown_by
from olp.config import Config, Loaded, Problem
from olp.core.admission.quota import without_source
from olp.errors import OLPError


def wrong_here(loaded: Loaded, found: Mapping[str, house.Found]) -> Iterator[Problem]:
    """What would stop the start."""
    config = loaded.config
    known = any(problem.message.startswith("server.tls") for problem in loaded.wrong)
    try:
        if not known:
            shown_by(config)
    except OLPError as error:
        yield Problem(str(error), _place(loaded, "server", "tls_cert"))
    for name, chain in house.catalogue_of(config, found).chains.items():
        for provider in dict.fromkeys(hop.provider for hop in chain.hops):
            if config.provider(provider).enabled is False:
                told = f"the chain {name!r} needs {provider}, which is switched off"
                yield Problem(told, _place(loaded, "chains", name))


def odd_here(loaded: Loaded, found: Mapping[str, house.Found]) -> Iterator[Problem]:
    """What would be skipped or do nothing."""
    config = loaded.config
    for name, item in found.items():
        command = config.provider(name).command
        if command and item.command is None and config.provider(name).enabled is not False:
            told = f"providers.{name}.command: {command[0]} does not exist, or cannot be run"
            yield Problem(told, _place(loaded, "providers", name, "command"))
        yield from _without_source(loaded, config, name, item)


def _without_source(
    loaded: Loaded, config: Config, name: str, item: house.Found
) -> Iterator[Problem]:
    for threshold in without_source(config.provider(name), item.provider.info.windows):
        told = f"providers.{name}.{threshold}: {item.provider.info.title} does not report it"
        yield Problem(
            f"{told}, so this has no effect", _place(loaded, "providers", name, threshold)
        )


def _place(loaded: Loaded, *path: str) -> str:
    """Where a key is set, or the first one below it."""
    sources = loaded.sources
    inner = (source for at, source in sources.items() if at[: len(path)] == path)
    return sources.get(path) or next(inner, "")
