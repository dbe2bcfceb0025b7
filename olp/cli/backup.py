"""`olp backup`: write the configuration and the state to one file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from olp.cli import client, compose
from olp.core.words import counted
from olp.host import backup


@click.command("backup")
@click.argument("file")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
def command(file: str, config_file: str | None) -> None:
    """Write FILE (a .tar.gz) with all that OLP keeps; the server may run meanwhile.

    There are secrets in it: hashes of keys, logins that OLP keeps apart, the authority's key.
    """
    config = client.configured(config_file)
    state = compose.state_of(config)
    target = Path(file)
    count = backup.write(target, compose.config_path(config_file), state, datetime.now())
    size = target.stat().st_size / 1024
    click.echo(
        f"Written: {target} ({counted(count, 'file')}, {size:.0f} KiB, readable by you alone)"
    )
