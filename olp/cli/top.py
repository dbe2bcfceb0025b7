"""`olp top`: refresh `olp status` continuously."""

from __future__ import annotations

import sys
import time

import click

from olp.cli import client
from olp.cli.status import look, screen
from olp.errors import OLPError

REFRESH_S = 1.0
"""Seconds between refreshes."""


@click.command("top")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@client.which
def command(config_file: str | None, port: int | None, url: str | None) -> None:
    """Show the state of the running server live, until Ctrl-C. Without a terminal: once."""
    link = client.Link(client.configured(config_file), port, url)
    if not sys.stdout.isatty():
        click.echo("\n".join(screen(look(link))))
        return
    look(link)  # a missing server is an error now, but not later
    try:
        _watch(link)
    except KeyboardInterrupt:
        return


def _watch(link: client.Link) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(screen=True, auto_refresh=False) as live:
        while True:
            live.update(Text(_lines(link), no_wrap=True, overflow="ellipsis"), refresh=True)
            time.sleep(REFRESH_S)


def _lines(link: client.Link) -> str:
    try:
        return "\n".join(screen(look(link)))
    except client.NotRunning as error:
        return f"{error}\nlooking again each second; Ctrl-C ends this"
    except OLPError as error:
        return str(error)
