"""`olp backup`: the configuration and the state in one file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from olp.cli import house
from olp.cli.keys import state_of
from olp.runtime import backup


@click.command("backup")
@click.argument("file")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
def command(file: str, config_file: str | None) -> None:
    """Write FILE (a .tar.gz) with all that OLP keeps; the server may run meanwhile.

    There are secrets in it: hashes of keys, logins that OLP keeps apart, the authority's key.
    """
    config = house.read_config(config_file).config
    state = state_of(config)
    target = Path(file)
    count = backup.write(target, house.config_path(config_file), state, datetime.now())
    size = target.stat().st_size / 1024
    click.echo(f"Written: {target} ({count} files, {size:.0f} KiB, for your eyes alone)")
