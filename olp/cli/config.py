"""`olp config`: show, check and locate the configuration."""

from __future__ import annotations

import json
from dataclasses import replace

import click

from olp.cli import client, compose
from olp.cli.checkup import odd_here, wrong_here
from olp.cli.groups import Group
from olp.config import Config
from olp.config.provenance import provenance, table
from olp.errors import ConfigError
from olp.host import service_unit as unit
from olp.providers import all_providers

CONFIG = click.option(
    "--config", "config_file", metavar="FILE", help="Use this configuration file."
)


@click.group("config", cls=Group)
def command() -> None:
    """Show, check and locate the configuration."""


@command.command("show")
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(config_file: str | None, as_json: bool) -> None:
    """Show each value and its source. Values that may be secret are hidden."""
    loaded = compose.read_config(config_file)
    providers = [name for name, provider in all_providers().items() if provider.info.rank]
    values = provenance(loaded, providers)
    if as_json:
        rows = [{"key": v.key, "value": v.value, "source": v.source} for v in values]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        click.echo(table(values))


@command.command("check")
@CONFIG
def check(config_file: str | None) -> None:
    """Print `ok`, or all errors and their location (exit code 2), and warnings."""
    loaded = compose.look_at_config(config_file)
    found = compose.find_providers(loaded.config)
    for problem in (*loaded.odd, *odd_here(loaded, found)):
        client.warn(str(problem))
    replace(loaded, wrong=(*loaded.wrong, *wrong_here(loaded, found))).checked()
    click.echo("ok")


@command.command("path")
@CONFIG
def path(config_file: str | None) -> None:
    """Print the paths of the configuration file, the service's secrets file and the state
    folder."""
    file = compose.config_path(config_file)
    secrets = file.with_name(unit.SECRETS)
    click.echo(f"{file} ({'exists' if file.exists() else 'does not exist: the defaults apply'})")
    state = "exists" if secrets.exists() else "does not exist: needed only for secrets of a service"
    click.echo(f"{secrets} ({state})")
    try:
        config = compose.look_at_config(config_file).config
    except ConfigError:
        config = Config()  # the file that was named is not there
    click.echo(f"{compose.state_of(config)} (state folder)")
