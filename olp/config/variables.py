"""Settings from the environment: `OLP_SECTION_KEY`, for the tables with fixed keys.

A variable that looks like a setting but is none is always reported, because its owner believes that
it works.
"""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from olp.config.checks import nearest
from olp.config.problem import Problem
from olp.config.schema import Config, ProviderConfig

OTHERS = frozenset({"OLP_CONFIG", "OLP_RUN"})
"""OLP's variables that are not settings."""


def sections() -> dict[str, type[msgspec.Struct]]:
    """The tables with fixed keys: `[server]`, `[routing]`, …"""
    hints = typing.get_type_hints(Config)
    return {
        name: kind
        for name, kind in hints.items()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }


class Variables:
    """The settings in the environment. `wrong` and `odd` are problems with variables."""

    def __init__(self, environ: Mapping[str, str], providers: Sequence[str], file: str) -> None:
        self.wrong: list[Problem] = []
        self.odd: list[Problem] = []
        self._providers = providers
        self._file = file
        self._known = {
            f"OLP_{section}_{key}".upper(): (section, key)
            for section, kind in sections().items()
            for key in kind.__struct_fields__
        }
        self.settings = list(self._read(environ))

    def _read(self, environ: Mapping[str, str]) -> Iterator[tuple[tuple[str, str], Any, str]]:
        """Yield (path, value, variable) for each setting. An empty variable counts as unset."""
        prefixes = tuple(f"OLP_{section.upper()}_" for section in sections())
        for name, value in environ.items():
            if name in self._known:
                if value:
                    yield self._known[name], self._value(self._known[name], value), name
            elif name.startswith(prefixes):
                self.wrong.append(Problem(f"no such setting{nearest(name, self._known)}", name))
            elif name.startswith(("OLP_PROVIDERS_", "OLP_CHAINS_", "OLP_PROVIDER_", "OLP_CHAIN_")):
                self.wrong.append(Problem(self._only_in_file(name), name))
            elif name.startswith("OLP_") and name not in OTHERS and (meant := self._meant(name)):
                self.odd.append(Problem(f"this does nothing; did you mean {meant}?", name))

    def _value(self, path: tuple[str, str], text: str) -> Any:
        kind = typing.get_type_hints(sections()[path[0]])[path[1]]
        if kind is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            return tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            return text

    def _only_in_file(self, name: str) -> str:
        """The error for a variable that would configure a chain or provider."""
        table, _, rest = name.removeprefix("OLP_").partition("_")
        if table.startswith("CHAIN"):
            return (
                f"a chain cannot be set in the environment; write it into [chains] of {self._file}"
            )
        fields = ProviderConfig.__struct_fields__
        provider = next((p for p in self._providers if rest.startswith(f"{p.upper()}_")), None)
        key = rest.removeprefix(f"{provider.upper()}_").lower() if provider else ""
        wanted = key if key in fields else "the key"
        hint = nearest(key, fields) if provider and key not in fields else ""
        return (
            f"a provider cannot be set in the environment; write {wanted} into "
            f"[providers.{provider or 'NAME'}] of {self._file}{hint}"
        )

    def _meant(self, name: str) -> str | None:
        """The setting with this key if it is unique, e.g. for `OLP_PORT` without its section."""
        key = name.removeprefix("OLP_")
        found = [known for known in self._known if known.endswith(f"_{key}")]
        exact = [known for known in found if known.split("_", 2)[2] == key]
        return exact[0] if len(exact) == 1 else None
