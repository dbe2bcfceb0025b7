"""Parses a configuration into a `Config`: layers, strict checks, and the source of each value.

A value comes from a flag, else the environment (`OLP_SECTION_KEY`), else the file, else its
default. An unknown key, a wrong type or an impossible value is a `ConfigError` with the file, the
line and the nearest valid key; all errors are reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from olp.config.background import BackgroundShape
from olp.config.checks import Findings, check, nearest
from olp.config.lines import line_of
from olp.config.mend import mended
from olp.config.options import Section
from olp.config.options import sections as described
from olp.config.paths import Here, resolved
from olp.config.problem import Problem
from olp.config.schema import ChainConfig, Config, ProviderConfig
from olp.config.values import Path, chain, table
from olp.config.variables import Variables, sections
from olp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A parsed configuration.

    `sources` maps keys that are not defaults to where they were set. `wrong` are errors, whose
    values were left out; `odd` are warnings.
    """

    config: Config
    sources: Mapping[Path, str]
    wrong: Sequence[Problem] = ()
    odd: Sequence[Problem] = ()

    def checked(self) -> Loaded:
        """Return self. Raises ConfigError with all errors, if there are any."""
        if self.wrong:
            raise ConfigError.of([(problem.message, problem.where) for problem in self.wrong])
        return self


def load(text: str, **more: Any) -> Loaded:
    """Parse a configuration like `look`. Raises ConfigError if there are errors."""
    return look(text, **more).checked()


def look(
    text: str,
    *,
    file: str,
    providers: Sequence[str],
    environ: Mapping[str, str] | None = None,
    flags: Mapping[Path, Any] | None = None,
    here: Here | None = None,
) -> Loaded:
    """Parse a configuration as far as possible.

    `file` is its name for messages, `providers` are the names of known providers, `here` is the
    base of relative paths.
    """
    raw: dict[str, Any] = {}
    sources: dict[Path, str] = {}
    found = Findings(_Where(text, file, sources))
    read = mended(text)
    found.wrong += [Problem(message, f"{file}:{line}") for line, message in read.faults]
    for path, value in _leaves(read.tree):
        line = line_of(text, path)
        _set(raw, path, value, sources, f"{file}:{line}" if line else file)
    variables = Variables(environ or {}, providers, file)
    found.wrong += variables.wrong
    found.odd += variables.odd
    for setting, value, name in variables.settings:
        _set(raw, setting, value, sources, name)
    for path, value in (flags or {}).items():
        _set(raw, path, value, sources, f"--{path[-1].replace('_', '-')}")
    _check_keys(raw, providers, found)
    config = check(_convert(raw, found), providers, found)
    if here is not None:
        config = resolved(config, sources, file, here, found)
    return Loaded(config, sources, _in_order(found.wrong), _in_order(found.odd))


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
                break  # perhaps one of several in a list, whose own line is more precise
        line = line_of(self.text, path)
        return f"{self.file}:{line}" if line else self.file


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Without duplicates and sorted by line; those without a line come first."""

    def line(problem: Problem) -> int:
        number = problem.where.rpartition(":")[2]
        return int(number) if number.isdecimal() else 0

    return tuple(sorted(dict.fromkeys(problems), key=line))


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
            return  # the value there is invalid, which a later check reports
        here = inner
    here[path[-1]] = value
    sources[path] = source


# --- keys --------------------------------------------------------------------------------------


def _check_keys(raw: dict[str, Any], providers: Sequence[str], found: Findings) -> None:
    _known(raw, Config.__struct_fields__, (), found)
    for section, kind in sections().items():
        _known(raw.get(section), kind.__struct_fields__, (section,), found)
    _known(raw.get("providers"), providers, ("providers",), found)
    for name, kind in (("providers", ProviderConfig), ("chains", ChainConfig)):
        inner = raw.get(name)
        for key, value in (inner if isinstance(inner, dict) else {}).items():
            _known(value, kind.__struct_fields__, (name, key), found)
    background = raw.get("background")
    shapes = background.get("shapes") if isinstance(background, dict) else None
    for index, shape in enumerate(shapes if isinstance(shapes, list) else []):
        path = ("background", "shapes", str(index))
        _known(shape, BackgroundShape.__struct_fields__, path, found)


def _known(given: object, known: Sequence[str], path: Path, found: Findings) -> None:
    if not isinstance(given, dict):
        return
    for key in [key for key in given if key not in known]:
        where = f"in [{'.'.join(path)}]" if path else "at the top level"
        message = f"unknown key {key!r} {where}{_elsewhere(key, path) or nearest(key, known)}"
        found.is_wrong(message, (*path, key))
        del given[key]


def _elsewhere(key: str, path: Path) -> str:
    """A hint at the table that a misplaced key belongs to."""
    homes = [name for name, kind in sections().items() if key in kind.__struct_fields__]
    if key in ProviderConfig.__struct_fields__ and not homes:
        homes = ["providers.NAME"]
    return f"; it belongs below [{homes[0]}]" if len(homes) == 1 and path[:1] != (homes[0],) else ""


# --- values ------------------------------------------------------------------------------------


def _convert(raw: Mapping[str, Any], found: Findings) -> Config:
    """Convert value by value; an invalid one keeps its default."""
    about = described()
    whole: dict[str, Any] = {}
    for name, kind in sections().items():
        if name in raw:
            whole[name] = table(kind, raw[name], (name,), _options(about[name]), found.is_wrong)
    for name in ("chains", "providers"):
        inner = raw.get(name, {})
        if not isinstance(inner, dict):
            found.is_wrong(f"{name}: a table is needed: [{name}]", (name,))
            continue
        made = {key: _named(name, key, value, about[name], found) for key, value in inner.items()}
        whole[name] = {key: value for key, value in made.items() if value is not None}
    return Config(**whole)


def _named(table_: str, key: str, value: Any, about: Section, found: Findings) -> Any:
    path = (table_, key)
    if table_ == "providers":
        return table(ProviderConfig, value, path, _options(about), found.is_wrong)
    if isinstance(value, dict):
        return table(ChainConfig, value, path, _options(about), found.is_wrong)
    return chain(value, path, found.is_wrong)


def _options(section: Section) -> dict[str, Any]:
    return {option.name: option for option in section.options}
