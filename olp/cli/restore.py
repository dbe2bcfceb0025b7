"""`olp restore`: restore what `olp backup` wrote."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click

from olp.cli import compose
from olp.config import Here, load
from olp.core.words import counted
from olp.host import backup
from olp.providers import all_providers


@click.command("restore")
@click.argument("file")
@click.option("--config", "config_file", metavar="FILE", help="Path for the configuration.")
def command(file: str, config_file: str | None) -> None:
    """Restore the backup FILE. Existing files are kept next to the restored ones."""
    source, path = Path(file), compose.config_path(config_file)
    text = backup.config_in(source)
    if text is None:
        config = compose.read_config(config_file).config
    else:
        # The configuration in the backup says where the state belongs.
        here = Here(str(path.absolute().parent), str(Path.home()))
        config = load(
            text,
            file=f"{file}:{path.name}",
            providers=tuple(all_providers()),
            environ=os.environ,
            here=here,
        ).config
    state = compose.state_of(config)
    done = backup.restore(source, path, state, datetime.now())
    click.echo(f"Restored: {counted(done.files, 'file')}; the state folder is {done.state}")
    for aside in done.aside:
        click.echo(f"Previous files: {aside}")
    click.echo("A CLI's login may have been renewed since the backup: check with `olp doctor`.")
