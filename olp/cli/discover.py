"""`olp discover`: list the OLP servers that announce themselves on the LAN."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import click

from olp.host.mdns import browse


@click.command("discover")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 60),
    default=3.0,
    show_default=True,
    help="How long to listen.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(seconds: float, as_json: bool) -> None:
    """List the servers on this network that have `announce = true`."""
    found = asyncio.run(browse(seconds))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
        return
    for one in found:
        click.echo(f"{one.name}\n  {one.url}\n  {one.local_url}\n  version {one.version}")
    if not found:
        click.echo(
            "No OLP announces itself here. `announce = true` in [server] makes one do so, and it "
            "must listen beyond its own machine."
        )
