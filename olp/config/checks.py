"""Checks beyond types: contradictory values, which are errors, and values that are probably not
intended, which are warnings.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import regex
from msgspec import structs

from olp.config.problem import Problem
from olp.config.schema import ChainConfig, Config, ServerConfig, Thresholds
from olp.config.values import Path
from olp.model import MAX_HOPS, Hop, is_model_id

_CHAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_ORIGIN = re.compile(r"https?://[^/\s?#]+/?|\*|null|[a-z][a-z0-9+.-]*://\S*")


@dataclass(slots=True)
class Findings:
    """The problems found so far. `where` returns the location of a key."""

    where: Callable[[Path], str]
    wrong: list[Problem] = field(default_factory=list)
    odd: list[Problem] = field(default_factory=list)

    def is_wrong(self, message: str, path: Path) -> None:
        """Add an error."""
        self.wrong.append(Problem(message, self.where(path)))

    def is_odd(self, message: str, path: Path) -> None:
        """Add a warning."""
        self.odd.append(Problem(message, self.where(path)))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for the message: the name nearest to `name`, or all known names."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"


def check(config: Config, providers: Sequence[str], found: Findings) -> Config:
    """Check the whole configuration; returns the part that can be used."""
    server = _check_server(config.server, found)
    chains = {n: c for n, c in config.chains.items() if _check_chain(n, c, providers, found)}
    _check_models(config, found)
    _check_background(config, providers, found)
    _check_thresholds(config, found)
    for name, options in config.providers.items():
        for variable, value in options.env.items():
            if value.startswith("~"):
                path = ("providers", name, "env", variable)
                found.is_odd(
                    f"{'.'.join(path)}: nobody replaces ~ here; write the whole path", path
                )
    return structs.replace(config, chains=chains, server=server)


# --- the server --------------------------------------------------------------------------------


def _check_server(server: ServerConfig, found: Findings) -> ServerConfig:
    good = server
    if bool(server.tls_cert) != bool(server.tls_key):
        there, other = ("tls_cert", "tls_key") if server.tls_cert else ("tls_key", "tls_cert")
        found.is_wrong(f"server.{there} needs server.{other} too", ("server", there))
        good = structs.replace(good, tls_cert="", tls_key="")
    if problem := host_problem(server.host):
        found.is_wrong(f"server.host: {problem}", ("server", "host"))
        good = structs.replace(good, host=ServerConfig().host)
    for name in server.allowed_hosts:
        if host_problem(name):
            message = "no client ever sends it; write a name alone, without http:// and port"
            found.is_odd(f"server.allowed_hosts: {name!r}: {message}", ("server", "allowed_hosts"))
    for origin in server.cors_origins:
        if not _ORIGIN.fullmatch(origin):
            message = "no browser ever sends it; write it as http://HOST:PORT, without a path"
            found.is_odd(f"server.cors_origins: {origin!r}: {message}", ("server", "cors_origins"))
    return good


def host_problem(host: str) -> str | None:
    """Why `host` is neither a host name nor an address, or None."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", host)
    bare = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://|/.*$", "", host)
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*):(\d+)", bare)
    name = (found[1] if found else bare).strip("[]")
    if scheme or "/" in host or found or host != name:
        port = f" and port = {found[2]}" if found else ""
        if host == "*":
            return 'write "0.0.0.0" for every address'
        return f'an address alone is needed: host = "{name}"{port}'
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host == "*":
            return 'write "0.0.0.0" for every address'
        if not _HOST.fullmatch(host):
            return f"{host!r} is neither a name nor an address"
    return None


# --- chains ------------------------------------------------------------------------------------


def _check_chain(
    name: str, chain: Sequence[str] | ChainConfig, providers: Sequence[str], found: Findings
) -> bool:
    long = isinstance(chain, ChainConfig)
    hops = chain.hops if isinstance(chain, ChainConfig) else chain
    path = ("chains", name, "hops") if long else ("chains", name)
    problems = list(_chain_problems(name, hops, providers))
    for problem in problems:
        found.is_wrong(f"chain {name!r}: {problem}", path)
    return not problems


def _chain_problems(name: str, hops: Sequence[str], providers: Sequence[str]) -> Iterable[str]:
    if not _CHAIN_NAME.fullmatch(name):
        yield "a name is letters, digits, '.', '_' and '-', at most 64"
    if not hops:
        yield "it has no hop"
    if len(hops) > MAX_HOPS:
        yield f"{len(hops)} hops, at most {MAX_HOPS} are allowed"
    for text in dict.fromkeys(hops):
        hop = Hop.parse(text)
        if hop is None:
            yield f"{text!r} is not of the form PROVIDER/MODEL"
        elif hop.provider not in providers:
            yield f"no provider {hop.provider!r}{nearest(hop.provider, providers)}"
        elif list(hops).count(text) > 1:
            yield f"{text} stands in it twice"


# --- other options -----------------------------------------------------------------------------


def _check_models(config: Config, found: Findings) -> None:
    """A model id becomes a CLI argument, and must not look like a flag."""
    for name, options in config.providers.items():
        given = {"models": options.models, "default_model": (options.default_model,)}
        for key, ids in given.items():
            for model in ids:
                if model is not None and not is_model_id(model):
                    path = ("providers", name, key)
                    found.is_wrong(f"{'.'.join(path)}: {model!r} cannot be a model id", path)


def _check_background(config: Config, providers: Sequence[str], found: Findings) -> None:
    name = config.routing.background
    hop = Hop.parse(name)
    direct = hop is not None and hop.provider in providers
    if name and name not in (*config.chains, "auto") and not direct:
        known = nearest(name, (*config.chains, "auto"))
        message = f"routing.background: no chain {name!r}{known}"
        found.is_wrong(message, ("routing", "background"))
    for index, shape in enumerate(config.background.shapes):
        path = ("background", "shapes", str(index))
        if not (shape.system or shape.user):
            message = f"background.shapes: {shape.name!r} has neither a system nor a user pattern"
            found.is_wrong(message, path)
        for key in ("system", "user"):
            try:
                regex.compile(getattr(shape, key), regex.IGNORECASE)
            except regex.error as error:
                message = f"background.shapes: {key} is no regular expression: {error}"
                found.is_wrong(message, (*path, key))


def _check_thresholds(config: Config, found: Findings) -> None:
    """Warn about fractions in place of percentages: the provider would hardly ever be used."""
    tables: Mapping[Path, object] = {
        **{("chains", name): chain for name, chain in config.chains.items()},
        **{("providers", name): options for name, options in config.providers.items()},
    }
    for path, limits in tables.items():
        for key in ("five_hour_window_percent_threshold", "credit_pool_percent_threshold"):
            value = getattr(limits, key) if isinstance(limits, Thresholds) else None
            if value is not None and value < 1:
                meant = f"; did you mean {value * 100:g}?" if value >= 0.01 else ""
                message = f"{value:g} means {value:g} %, so it is skipped nearly always{meant}"
                found.is_odd(f"{'.'.join((*path, key))}: {message}", (*path, key))
