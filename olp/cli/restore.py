"""`olp restore`: puts back what `olp backup` wrote."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click

from olp.cli import house
from olp.cli.keys import state_of
from olp.config import load
from olp.providers import all_providers
from olp.runtime import backup


@click.command("restore")
@click.argument("file")
@click.option("--config", "config_file", metavar="FILE", help="Where the configuration belongs.")
def command(file: str, config_file: str | None) -> None:
    """Put the backup FILE in its place. What is there is kept beside it."""
    source, path = Path(file), house.config_path(config_file)
    text = backup.config_in(source)
    if text is None:
        config = house.read_config(config_file).config
    else:
        # Where the state belongs is for the configuration to say that comes with it.
        names = tuple(all_providers())
        config = load(text, file=f"{file}:{path.name}", providers=names, environ=os.environ).config
    state = state_of(config)
    done = backup.restore(source, path, state, datetime.now())
    click.echo(f"Restored: {done.files} files; what OLP keeps is in {done.state}")
    for aside in done.aside:
        click.echo(f"What was there before: {aside}")
    click.echo("A CLI's own login may have been renewed since: `olp doctor` tells.")
