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
    """Back up the configuration and the state to FILE (a .tar.gz); the server can keep running.

    It contains secrets: hashes of keys, logins that OLP keeps separately, the CA's key.
    """
    config = client.configured(config_file)
    state = compose.state_of(config)
    target = Path(file)
    count = backup.write(target, compose.config_path(config_file), state, datetime.now())
    size = target.stat().st_size / 1024
    click.echo(
        f"Written: {target} ({counted(count, 'file')}, {size:.0f} KiB, readable only by you)"
    )
