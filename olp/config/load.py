"""From texts to a `Config`: the layers, the strict check, and the provenance of each value.

A value comes from a flag, else the environment (`OLP_SECTION_KEY`), else the file, else its
default. A key that nobody knows, a wrong type or an impossible value is a `ConfigError` that names
the file, the line and the nearest valid key.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import regex

from olp.config.background import BackgroundShape
from olp.config.lines import line_of
from olp.config.schema import ChainConfig, Config, ProviderConfig
from olp.errors import ConfigError
from olp.model import MAX_HOPS, Hop, is_model_id

Path = tuple[str, ...]

_CHAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration. `sources` says where each value that is not a default came from."""

    config: Config
    sources: Mapping[Path, str]


def load(
    text: str,
    *,
    file: str,
    providers: Sequence[str],
    environ: Mapping[str, str] | None = None,
    flags: Mapping[Path, Any] | None = None,
) -> Loaded:
    """Read one configuration. `providers` are the CLIs this program can drive."""
    raw: dict[str, Any] = {}
    sources: dict[Path, str] = {}
    for path, value in _leaves(_parse(text, file)):
        line = line_of(text, path)
        _set(raw, path, value, sources, f"{file}:{line}" if line else file)
    for path, value, name in _from_environment(environ or {}):
        _set(raw, path, value, sources, name)
    for path, value in (flags or {}).items():
        _set(raw, path, value, sources, f"--{path[-1].replace('_', '-')}")
    where = _Where(text, file, sources)
    _check_numbers(raw, where)
    _check_keys(raw, providers, where)
    config = _convert(raw, where)
    _check_server(config, where)
    _check_chains(config, providers, where)
    _check_models(config, where)
    _check_background(config, providers, where)
    return Loaded(config, sources)


@dataclass(frozen=True, slots=True)
class _Where:
    text: str
    file: str
    sources: Mapping[Path, str]

    def __call__(self, path: Path) -> str:
        for cut in range(len(path), 0, -1):
            source = self.sources.get(path[:cut])
            if source and (cut == len(path) or not source.startswith(f"{self.file}:")):
                return source
            if source:
                break  # one of several in a list, perhaps: its own line is nearer
        line = line_of(self.text, path)
        return f"{self.file}:{line}" if line else self.file


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else len(text.splitlines())
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise ConfigError(message, f"{file}:{line}") from None


def _leaves(tree: Mapping[str, Any], path: Path = ()) -> Iterable[tuple[Path, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _set(
    raw: dict[str, Any], path: Path, value: Any, sources: dict[Path, str], source: str
) -> None:
    here = raw
    for key in path[:-1]:
        inner = here.setdefault(key, {})
        if not isinstance(inner, dict):
            return  # what stands there is wrong, and the check will say so
        here = inner
    here[path[-1]] = value
    sources[path] = source


def _sections() -> dict[str, type[msgspec.Struct]]:
    """The tables whose keys are fixed: `[server]`, `[routing]`, …"""
    hints = typing.get_type_hints(Config)
    return {
        name: kind
        for name, kind in hints.items()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }


def _from_environment(environ: Mapping[str, str]) -> Iterable[tuple[Path, Any, str]]:
    known = {
        f"OLP_{section}_{key}".upper(): (section, key)
        for section, kind in _sections().items()
        for key in kind.__struct_fields__
    }
    prefixes = tuple(f"OLP_{section.upper()}_" for section in _sections())
    for name, value in environ.items():
        if name in known:
            yield known[name], _toml_value(value), name
        elif name.startswith(prefixes):
            raise ConfigError(f"no such setting{_nearest(name, known)}", name)


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"


def _check_keys(raw: Mapping[str, Any], providers: Sequence[str], where: _Where) -> None:
    _known(raw, Config.__struct_fields__, (), where)
    for section, kind in _sections().items():
        _known(raw.get(section), kind.__struct_fields__, (section,), where)
    _known(raw.get("providers"), providers, ("providers",), where)
    for table, kind in (("providers", ProviderConfig), ("chains", ChainConfig)):
        inner = raw.get(table)
        for name, value in (inner if isinstance(inner, dict) else {}).items():
            _known(value, kind.__struct_fields__, (table, name), where)
    background = raw.get("background")
    shapes = background.get("shapes") if isinstance(background, dict) else None
    for index, shape in enumerate(shapes if isinstance(shapes, list) else []):
        path = ("background", "shapes", str(index))
        _known(shape, BackgroundShape.__struct_fields__, path, where)


def _check_numbers(raw: Mapping[str, Any], where: _Where) -> None:
    """TOML knows a number that is none, and no bound would refuse it."""
    for path, value in _leaves(raw):
        if isinstance(value, float) and math.isnan(value):
            raise ConfigError(f"{'.'.join(path)}: not a number", where(path))


def _known(table: object, known: Sequence[str], path: Path, where: _Where) -> None:
    if not isinstance(table, dict):
        return
    for key in table:
        if key not in known:
            place = f"[{'.'.join(path)}]" if path else "the top level"
            raise ConfigError(
                f"unknown key {key!r} in {place}{_nearest(key, known)}", where((*path, key))
            )


def _convert(raw: Mapping[str, Any], where: _Where) -> Config:
    """The whole, its two tables of free names item by item: msgspec does not name their keys."""
    named: dict[str, dict[str, Any]] = {}
    hints = typing.get_type_hints(Config, include_extras=True)
    for table in ("chains", "providers"):
        items = _checked(raw.get(table, {}), dict[str, Any], (table,), where)
        kind = typing.get_args(hints[table])[1]
        named[table] = {
            name: _checked(value, kind, (table, name), where) for name, value in items.items()
        }
    rest = {key: value for key, value in raw.items() if key not in named}
    config: Config = _checked(rest, Config, (), where)
    return msgspec.structs.replace(config, **named)


def _checked(value: Any, kind: Any, path: Path, where: _Where) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at `")
        inner = tuple(re.findall(r"[\w-]+", at.removeprefix("$")))
        keys = (*path, *inner)
        raise ConfigError(f"{'.'.join(keys)}: {message}", where(keys)) from None


def _check_server(config: Config, where: _Where) -> None:
    server = config.server
    if bool(server.tls_cert) != bool(server.tls_key):
        there, other = ("tls_cert", "tls_key") if server.tls_cert else ("tls_key", "tls_cert")
        raise ConfigError(f"server.{there} needs server.{other} too", where(("server", there)))


def _check_chains(config: Config, providers: Sequence[str], where: _Where) -> None:
    for name, chain in config.chains.items():
        hops = chain.hops if isinstance(chain, ChainConfig) else chain
        path = ("chains", name, "hops") if isinstance(chain, ChainConfig) else ("chains", name)
        if problem := _chain_problem(name, hops, providers):
            raise ConfigError(f"chain {name!r}: {problem}", where(path))


def _check_models(config: Config, where: _Where) -> None:
    """A model id goes into a CLI's arguments, and must not be able to look like a flag there."""
    for name, options in config.providers.items():
        given = {"models": options.models, "default_model": (options.default_model,)}
        for key, ids in given.items():
            for model in ids:
                if model is not None and not is_model_id(model):
                    problem = f"providers.{name}.{key}: {model!r} cannot be a model id"
                    raise ConfigError(problem, where(("providers", name, key)))


def _check_background(config: Config, providers: Sequence[str], where: _Where) -> None:
    name = config.routing.background
    hop = Hop.parse(name)
    direct = hop is not None and hop.provider in providers
    if name and name not in (*config.chains, "auto") and not direct:
        known = _nearest(name, (*config.chains, "auto"))
        problem = f"routing.background: no chain {name!r}{known}"
        raise ConfigError(problem, where(("routing", "background")))
    for index, shape in enumerate(config.background.shapes):
        place = ("background", "shapes", str(index))
        if not (shape.system or shape.user):
            problem = f"background.shapes: {shape.name!r} has neither a system nor a user pattern"
            raise ConfigError(problem, where(place))
        for key in ("system", "user"):
            try:
                regex.compile(getattr(shape, key), regex.IGNORECASE)
            except regex.error as error:
                problem = f"background.shapes: {key} is no regular expression: {error}"
                raise ConfigError(problem, where((*place, key))) from None


def _chain_problem(name: str, hops: Sequence[str], providers: Sequence[str]) -> str | None:
    if not _CHAIN_NAME.fullmatch(name):
        return "a name is letters, digits, '.', '_' and '-', at most 64"
    if not hops:
        return "it has no hop"
    if len(hops) > MAX_HOPS:
        return f"{len(hops)} hops, at most {MAX_HOPS} are allowed"
    for text in hops:
        hop = Hop.parse(text)
        if hop is None:
            return f"{text!r} is not of the form PROVIDER/MODEL"
        if hop.provider not in providers:
            return f"no provider {hop.provider!r}{_nearest(hop.provider, providers)}"
        if list(hops).count(text) > 1:
            return f"{text} stands in it twice"
    return None
