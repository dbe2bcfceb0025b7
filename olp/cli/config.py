"""`olp config`: which file is in force, whether it is right, and where each value came from."""

from __future__ import annotations

import json

import click

from olp.cli import house
from olp.config.provenance import provenance, table
from olp.providers import all_providers

CONFIG = click.option(
    "--config", "config_file", metavar="FILE", help="Use this configuration file."
)


@click.group("config")
def command() -> None:
    """Show, check and locate the configuration."""


@command.command("show")
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(config_file: str | None, as_json: bool) -> None:
    """Each value, and where it came from. Values that may be secret are hidden."""
    loaded = house.read_config(config_file)
    providers = [name for name, provider in all_providers().items() if provider.facts.rank]
    values = provenance(loaded, providers)
    if as_json:
        rows = [{"key": v.key, "value": v.value, "source": v.source} for v in values]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        click.echo(table(values))


@command.command("check")
@CONFIG
def check(config_file: str | None) -> None:
    """Say `ok`, or what is wrong and where (exit code 2)."""
    house.read_config(config_file)
    click.echo("ok")


@command.command("path")
@CONFIG
def path(config_file: str | None) -> None:
    """The configuration file in force, and whether it exists."""
    file = house.config_path(config_file)
    click.echo(f"{file} ({'exists' if file.exists() else 'does not exist: the defaults apply'})")
