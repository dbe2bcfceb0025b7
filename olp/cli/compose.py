"""The composition root: builds a service from a configuration, without global state."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import platformdirs
from msgspec import structs

from olp.config import Config, Here, Loaded, Problem, Thresholds, look
from olp.core.admission.admission import Admission
from olp.core.admission.quota import watches_windows, without_source
from olp.core.admission.slots import Slots
from olp.core.answer.cache import Cache
from olp.core.days import LOCAL, day_of
from olp.core.keys.background import Shapes
from olp.core.routing.chains import Catalogue
from olp.core.routing.walk import Timeouts
from olp.errors import ConfigError, StartError
from olp.host.find_cli import find_command
from olp.providers import all_providers
from olp.providers.base import Provider, ProviderContext
from olp.runtime.access.keyring import Keyring
from olp.runtime.access.people import People
from olp.runtime.log import Log
from olp.runtime.pool.pool import Pool
from olp.runtime.process import survey_files as kept
from olp.runtime.process.fleet import Fleet, Member
from olp.runtime.process.run_folder import RunFolder, default_state
from olp.runtime.serving.engine import Engine
from olp.runtime.serving.lasting import Lasting
from olp.runtime.serving.request_plan import Planner
from olp.runtime.serving.service import Service
from olp.runtime.tasks import Tasks
from olp.runtime.usage.request_log import RequestLog
from olp.runtime.usage.store import UsageStore

DEMO_CHAINS = {
    "auto": ("demo/chat",),
    "fallback": ("demo/limited", "demo/overloaded", "demo/chat"),
}


def config_path(given: str | None) -> Path:
    """The configuration file: `given`, else `OLP_CONFIG`, else the platform's default path."""
    named = given or os.environ.get("OLP_CONFIG")
    return Path(named) if named else Path(platformdirs.user_config_dir("olp")) / "olp.toml"


def read_config(given: str | None, flags: Mapping[tuple[str, ...], Any] | None = None) -> Loaded:
    """The effective configuration. Raises ConfigError with all problems and their locations."""
    return look_at_config(given, flags).checked()


def look_at_config(given: str | None, flags: Mapping[tuple[str, ...], Any] | None = None) -> Loaded:
    """The usable part of the configuration, with its problems. Raises ConfigError if a file was
    named explicitly and does not exist.
    """
    path = config_path(given)
    text, problem = _text_of(path, named=bool(given or os.environ.get("OLP_CONFIG")))
    loaded = look(
        text,
        file=str(path),
        providers=tuple(all_providers()),
        environ=os.environ,
        flags=flags,
        here=Here(str(path.absolute().parent), str(Path.home())),
    )
    return replace(loaded, wrong=(problem, *loaded.wrong)) if problem else loaded


def _text_of(path: Path, *, named: bool) -> tuple[str, Problem | None]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if named:
            raise ConfigError("there is no such file", str(path)) from None
        return "", None
    except OSError as error:
        return "", Problem(f"it cannot be read: {error.strerror}", str(path))
    try:
        # Some Windows editors save as UTF-16 with a byte order mark.
        utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return data.decode("utf-16" if utf16 else "utf-8"), None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = "this line is not UTF-8; save the file as UTF-8"
        return data.decode("utf-8", "replace"), Problem(message, f"{path}:{line}")


def state_of(config: Config) -> Path:
    """The state folder."""
    return Path(config.server.state_dir) if config.server.state_dir else default_state()


def demo_state(state: Path) -> Path:
    """The state folder of `olp serve --demo`, separate from the owner's."""
    return state / "demo"


@dataclass(frozen=True, slots=True)
class Found:
    """A provider as found on this machine. `command` is None if its CLI is not installed."""

    provider: Provider
    command: tuple[str, ...] | None
    enabled: bool


def find_providers(config: Config, *, demo: bool = False) -> Mapping[str, Found]:
    """Each provider by name, with whether it is used: found and not switched off. One that is not
    installed can be switched on; its hops then report that.
    """
    found = {}
    for name, provider in all_providers().items():
        options = config.provider(name)
        wanted = options.enabled if provider.info.rank else demo or options.enabled
        command = find_command(provider.info, options, os.environ)
        enabled = command is not None if wanted is None else wanted
        if provider.info.rank == 0:
            enabled = bool(wanted)
        found[name] = Found(provider, command, enabled)
    return found


def setting_of(found: Found, config: Config, state: Path) -> ProviderContext:
    """The context in which a provider runs."""
    info = found.provider.info
    options = config.provider(info.name)
    command = found.command or options.command or (info.program,)
    return ProviderContext(
        command=command,
        config=options,
        environ=os.environ,
        home=str(Path.home()),
        own_home=str(state / "logins" / info.name),
        kept=kept.find(state / "kept", command),
    )


def with_demo(config: Config) -> Config:
    """The configuration of `--demo`: only the demo provider, and chains that show the fallback."""
    routing = structs.replace(config.routing, background="")
    return structs.replace(config, chains=dict(DEMO_CHAINS), providers={}, routing=routing)


def catalogue_of(config: Config, found: Mapping[str, Found]) -> Catalogue:
    """The catalogue of names that clients may ask for, over the enabled providers."""
    models = {}
    for name, item in found.items():
        if item.enabled:
            options = config.provider(name)
            default = (options.default_model,) if options.default_model else ()
            known = (*default, *options.models, *item.provider.info.models)
            models[name] = tuple(dict.fromkeys(known))
    return Catalogue(config, models)


def build(
    config: Config,
    found: Mapping[str, Found],
    folders: RunFolder,
    log: Log,
    before: Service | None = None,
) -> Service:
    """Build the service over opened `folders`.

    `before` is the running service after a change of the configuration; its lasting state is kept.
    Raises StartError, in which case `before` is unchanged.
    """
    catalogue = catalogue_of(config, found)
    named = _named(config, catalogue, found, log)
    # Everything that can fail comes before anything of the running service is changed.
    planner = _planner(config, catalogue)
    used = {name: item for name, item in found.items() if item.enabled or name in named}
    tasks = Tasks(log)
    members = {name: _member(item, config, folders) for name, item in used.items()}
    fleet = Fleet(members, folders, tasks, time.monotonic, _local_now, folders.state / "kept")
    options = {name: config.provider(name) for name in used}
    lasting = before.lasting if before else _lasting(config, fleet, folders, log)
    if before is not None:
        for name in changed_accounts(before, members):
            lasting.forget(name)
        lasting.admission.adopt(fleet.limits, config.breaker, options)
        lasting.cache.adopt(config.cache)
    lasting.store.bounds = config.record
    pool = Pool(fleet, options, config.workers, tasks, time.monotonic, log)
    remembered = (lasting.admission, lasting.cache, lasting.store)
    engine = Engine(fleet, pool, *remembered, queue_s=config.routing.queue_s)
    watched = _watched(config, catalogue, used, log)
    return Service(catalogue, fleet, pool, engine, lasting, planner, tasks, log, watched)


def _watched(
    config: Config, catalogue: Catalogue, used: Mapping[str, Found], log: Log
) -> list[str]:
    """The providers whose quota windows are used by a threshold."""
    limits = _limits(config, catalogue, used)
    for provider, own in limits:
        for threshold in without_source(own, used[provider].provider.info.windows):
            log.warn("threshold_without_source", provider=provider, threshold=threshold)
    return sorted({provider for provider, own in limits if watches_windows(own)})


def _named(config: Config, catalogue: Catalogue, found: Mapping[str, Found], log: Log) -> set[str]:
    """The providers in chains whose CLI is not installed; their hops are skipped like failed ones.

    Raises StartError for a provider that is switched off.
    """
    named = set()
    for chain in catalogue.chains.values():
        for name in (hop.provider for hop in chain.hops):
            info = found[name].provider.info
            if found[name].enabled:
                continue
            if config.provider(name).enabled is False or info.rank == 0:
                raise StartError(f"the chain {chain.name!r} needs {name}, which is switched off")
            log.warn("cli_missing", chain=chain.name, provider=name, install=info.install)
            named.add(name)
    return named


def _planner(config: Config, catalogue: Catalogue) -> Planner:
    name = config.routing.background
    if name and not catalogue.knows(name):
        raise StartError(f"[routing] sends background jobs to {name!r}, which does not exist here")
    return Planner(Shapes(config.background), name)


def _lasting(config: Config, fleet: Fleet, folders: RunFolder, log: Log) -> Lasting:
    """The initial lasting state, empty but for today's request counts and the keys."""
    store = UsageStore(folders.state / "olp.db", folders.run_id, folders.alive)
    options = {name: config.provider(name) for name in fleet.members}
    admission = Admission(Slots(fleet.limits), config.breaker, options)
    day = day_of(time.time())
    for provider, requests in store.counts(day).items():
        admission.quota.count(provider, day, requests)
    people = People(Keyring(folders.state), store, log)
    return Lasting(
        admission, store, Cache(config.cache), people, RequestLog(store, time.monotonic, time.time)
    )


def changed_accounts(before: Service, members: Mapping[str, Member]) -> Iterable[str]:
    """The providers whose program or account has changed."""
    for name, member in members.items():
        old = before.context(name)
        if old is not None and _account(old) != _account(member.context):
            yield name


def _account(context: ProviderContext) -> tuple[object, ...]:
    return context.command, context.config.login, context.config.env


def _limits(
    config: Config, catalogue: Catalogue, used: Mapping[str, Found]
) -> list[tuple[str, Thresholds]]:
    """All (provider, thresholds) pairs in use: the provider's own, and those of chains that contain
    it.
    """
    own: list[tuple[str, Thresholds]] = [(name, config.provider(name)) for name in used]
    for chain in catalogue.chains.values():
        if chain.limits is not None:
            own += [(hop.provider, chain.limits) for hop in chain.hops]
    return own


def _local_now() -> datetime:
    return datetime.now(LOCAL)


def _member(found: Found, config: Config, folders: RunFolder) -> Member:
    options = config.provider(found.provider.info.name)
    routing = config.routing
    timeouts = Timeouts(
        opening_s=routing.opening_s if options.opening_s is None else options.opening_s,
        gate_s=routing.gate_s if options.gate_s is None else options.gate_s,
        total_s=options.max_spawn_s,
        fixed=options.opening_s is not None,
    )
    context = replace(setting_of(found, config, folders.state), work=str(folders.work))
    return Member(found.provider, context, timeouts, options.max_concurrent)
