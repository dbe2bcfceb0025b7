"""`olp quota`: what is left of every plan, asked without spending a token of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from olp.cli import client, house
from olp.config import Config
from olp.runtime.log import Log
from olp.runtime.place import RunPlace


@click.group("quota", invoke_without_command=True)
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--cached", is_flag=True, help="Show what is known; ask no CLI.")
@click.pass_context
def command(ctx: click.Context, config_file: str | None, as_json: bool, cached: bool) -> None:
    """Show every plan: how full its windows are, when they reset, what is held back."""
    config = house.read_config(config_file).config
    ctx.obj = config
    if ctx.invoked_subcommand is None:
        plans = _plans(config, refresh=not cached)
        click.echo(json.dumps(plans, indent=2) if as_json else "\n".join(pictures(plans)))


@command.command("clear")
@click.argument("provider", required=False)
@click.pass_obj
def clear(config: Config, provider: str | None) -> None:
    """Lift the quota hold of PROVIDER, or of all: the next request finds out."""
    path = f"/olp/quota/clear?provider={provider}" if provider else "/olp/quota/clear"
    if provider is not None and provider not in house.find_providers(config):
        raise click.BadParameter(f"no provider {provider!r}", param_hint="PROVIDER")
    cleared = client.call(config, path, method="POST")["cleared"]
    click.echo(f"{cleared} hold{'s' if cleared != 1 else ''} lifted")


REFRESH_S = 90.0
"""Seconds that a refresh may take: the server gives each of a CLI's own queries 20 s."""


def _plans(config: Config, *, refresh: bool) -> Mapping[str, Any]:
    """By provider, from the running server, or from the CLIs themselves if there is none."""
    try:
        if refresh:
            client.call(config, "/olp/quota/refresh", method="POST", timeout=REFRESH_S)
        health = client.call(config, "/health")
    except client.NotRunning:
        health = asyncio.run(_without_server(config, refresh=refresh))
    return {name: report["quota"] for name, report in health["providers"].items()}


async def _without_server(config: Config, *, refresh: bool) -> Mapping[str, Any]:
    state = config.server.state_dir
    place = RunPlace(Path(state) if state else None)
    place.open()
    try:
        service = house.build(config, house.find_providers(config), place, Log(level="error"))
        if refresh:
            await service.refresh()
        return service.health()
    finally:
        place.close()


BAR = 24
"""Characters of a full bar."""


def pictures(plans: Mapping[str, Any]) -> list[str]:
    """The plans as lines of text."""
    lines = []
    for name, plan in plans.items():
        lines.append(f"{name}   {plan['requests_today']} requests through OLP today")
        lines += [f"  {_bar(window)}" for window in plan["windows"]]
        if not plan["windows"]:
            lines.append("  the CLI tells nothing of its plan")
        for hold in plan["holds"]:
            what = hold["model"] or "all models"
            until = local(hold["resets_at"])
            lines.append(
                f"  held back ({what}): resets {until}, next try in {hold['next_probe_s']} s"
            )
    return lines


def _bar(window: Mapping[str, Any]) -> str:
    used = window["used_percent"]
    filled = round(min(used, 100) / 100 * BAR)
    bar = "█" * filled + "░" * (BAR - filled)
    name = window["name"] + (f" {window['model']}" if window["model"] else "")
    stale = "" if window["fresh"] else ", no longer valid"
    return (
        f"{name:18} {bar} {used:5.1f} %   resets {local(window['resets_at'])}   "
        f"({window['source']}, {window['age_s']} s ago{stale})"
    )


def local(epoch: float | None) -> str:
    """A time, as the owner's clock shows it."""
    if epoch is None:
        return "at an unknown time"
    return datetime.fromtimestamp(epoch).astimezone().strftime("%a %H:%M")
