"""`olp chain`: show the hops of a chain or model, and whether they are usable here."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import click

from olp.cli import compose
from olp.cli.groups import Group
from olp.config import Config
from olp.core.routing.capabilities import able
from olp.core.routing.chains import Catalogue, Chain
from olp.errors import OLPError, RequestError
from olp.model import Hop

KINDS = {
    "configured": "from the configuration",
    "default": "built in, over the CLIs found here",
    "model": "a model id",
}


@click.group("chain", cls=Group)
def command() -> None:
    """Show the hops of a chain or model name."""


@command.command("show")
@click.argument("name", required=False)
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(name: str | None, config_file: str | None, as_json: bool) -> None:
    """Show the chain or model NAME; without NAME, every chain."""
    config = compose.read_config(config_file).config
    found = compose.find_providers(config)
    catalogue = compose.catalogue_of(config, found)
    chains = [_resolved(name, catalogue, found)] if name else list(catalogue.chains.values())
    chain_dicts = [_chain_dict(chain, config, catalogue, found) for chain in chains]
    if as_json:
        shown: Any = chain_dicts[0] if name else chain_dicts
        click.echo(json.dumps(shown, indent=2))
    else:
        click.echo("\n\n".join(map(_text, chain_dicts)) or _nothing(found))


@command.command("list")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_context
def list_(context: click.Context, config_file: str | None, as_json: bool) -> None:
    """List every chain."""
    context.invoke(show, name=None, config_file=config_file, as_json=as_json)


def _resolved(name: str, catalogue: Catalogue, found: Mapping[str, compose.Found]) -> Chain:
    try:
        return catalogue.resolve(name)
    except RequestError:
        raise OLPError(_unknown(name, catalogue, found)) from None


def _unknown(name: str, catalogue: Catalogue, found: Mapping[str, compose.Found]) -> str:
    hop = Hop.parse(name)
    item = found.get(hop.provider) if hop else None
    if item is not None and item.command is None:
        return f"{name}: {item.provider.info.title} is not installed: {item.provider.info.install}"
    if item is not None:
        return f"{name}: {item.provider.info.title} is switched off in the configuration"
    near, names = catalogue.near(name), ", ".join(catalogue.names())
    known = f"did you mean {near}?" if near else f"known: {names}" if names else "no CLI was found"
    return f"there is no chain or model {name!r}; {known}"


def _chain_dict(
    chain: Chain, config: Config, catalogue: Catalogue, found: Mapping[str, compose.Found]
) -> dict[str, Any]:
    """One chain as a dict, in the format of `--json`."""
    kind = "default" if chain.name in catalogue.chains else "model"
    return {
        "name": chain.name,
        "kind": "configured" if chain.name in config.chains else kind,
        "hops": [
            _hop(
                hop,
                found[hop.provider],
                oneshot=config.provider(hop.provider).transport == "oneshot",
            )
            for hop in chain.hops
        ],
        "policy": dataclasses.asdict(chain.policy),
    }


def _hop(hop: Hop, item: compose.Found, *, oneshot: bool) -> dict[str, Any]:
    return {
        "provider": hop.provider,
        "model": hop.model,
        "found": item.command is not None,
        "enabled": item.enabled,
        "command": list(item.command) if item.command else None,
        "install": item.provider.info.install,
        "can": [ability.value for ability in able(item.provider.info.can, oneshot=oneshot)],
    }


def _text(chain: Mapping[str, Any]) -> str:
    lines = [f"{chain['name']}  ({KINDS[chain['kind']]})"]
    width = max(len(f"{hop['provider']}/{hop['model']}") for hop in chain["hops"])
    for index, hop in enumerate(chain["hops"]):
        target = f"{hop['provider']}/{hop['model']}"
        lines.append(f"  {index}  {target:{width}}  {_state(hop)}")
    policy = " · ".join(f"{name} {value}" for name, value in chain["policy"].items())
    return "\n".join([*lines, f"  {policy}"])


def _state(hop: Mapping[str, Any]) -> str:
    if not hop["found"]:
        return f"✗ not installed: {hop['install']}"
    if not hop["enabled"]:
        return "✗ switched off in the configuration"
    return f"✓ {' '.join(hop['command'])}  (can: {', '.join(hop['can']) or 'text'})"


def _nothing(found: Mapping[str, compose.Found]) -> str:
    commands = [f"  {f.provider.info.install}" for f in found.values() if f.provider.info.rank]
    return "\n".join(
        ["There is no chain, because no CLI was found. Install one of them:", *commands]
    )
