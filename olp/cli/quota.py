"""`olp quota`: show the remaining quota of each plan, without spending any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from olp.cli import client, compose
from olp.cli.groups import Group
from olp.config import Config
from olp.core.words import counted
from olp.runtime.log import Log
from olp.runtime.process.run_folder import RunFolder


@click.group("quota", cls=Group, invoke_without_command=True)
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--cached", is_flag=True, help="Show cached values; query no CLI.")
@client.which
@click.pass_context
def command(
    ctx: click.Context,
    config_file: str | None,
    as_json: bool,
    cached: bool,
    port: int | None,
    url: str | None,
) -> None:
    """Show every plan: usage of its windows, reset times, quota holds."""
    config = client.configured(config_file)
    link = client.Link(config, port, url)
    ctx.obj = config, link
    if ctx.invoked_subcommand is None:
        plans = _plans(config, link, refresh=not cached)
        click.echo(json.dumps(plans, indent=2) if as_json else "\n".join(_screen(plans)))


def _screen(plans: Mapping[str, Any]) -> list[str]:
    if plans:
        return pictures(plans)
    return ["No CLI was found on PATH, so there is no plan to show: `olp doctor` tells more."]


@command.command("clear")
@click.argument("provider", required=False)
@click.pass_obj
def clear(given: tuple[Config, client.Link], provider: str | None) -> None:
    """Lift the quota hold of PROVIDER, or of all providers."""
    config, link = given
    path = f"/olp/quota/clear?provider={provider}" if provider else "/olp/quota/clear"
    if provider is not None and provider not in compose.find_providers(config):
        raise click.BadParameter(f"no provider {provider!r}", param_hint="PROVIDER")
    cleared = link.call(path, method="POST")["cleared"]
    click.echo(f"{cleared} hold{'s' if cleared != 1 else ''} lifted")


REFRESH_S = 90.0
"""Seconds that a refresh may take: the server allows 20 s for each query of a CLI."""


def _plans(config: Config, link: client.Link, *, refresh: bool) -> Mapping[str, Any]:
    """The quota by provider, from the running server, or from the CLIs if there is none."""
    try:
        if refresh:
            link.call("/olp/quota/refresh", method="POST", timeout=REFRESH_S)
        health = link.call("/health")
    except client.NotRunning:
        health = asyncio.run(_without_server(config, refresh=refresh))
    return {name: report["quota"] for name, report in health["providers"].items()}


async def _without_server(config: Config, *, refresh: bool) -> Mapping[str, Any]:
    folders = RunFolder(compose.state_of(config))
    folders.open()
    try:
        service = compose.build(config, compose.find_providers(config), folders, Log(level="error"))
        if refresh:
            await service.refresh()
        return service.health()
    finally:
        folders.close()


BAR = 24
"""Width of a full bar, in characters."""


def pictures(plans: Mapping[str, Any]) -> list[str]:
    """The plans as lines of text."""
    lines = []
    for name, plan in plans.items():
        lines.append(f"{name}   {counted(plan['requests_today'], 'request')} through OLP today")
        lines += [f"  {_bar(window)}" for window in plan["windows"]]
        if not plan["windows"]:
            lines.append("  the CLI does not tell how much of the plan is used")
        for hold in plan["holds"]:
            what = hold["model"] or "all models"
            until = local(hold["resets_at"])
            lines.append(
                f"  on hold ({what}): resets {until}, next try in {hold['next_probe_s']} s"
            )
    return lines


def used_up(plan: Mapping[str, Any]) -> str:
    """Until when an exhausted plan is unusable: the reset of what holds all its models, else the
    first reset.
    """
    holds = [hold for hold in plan["holds"] if hold["resets_at"] is not None]
    whole = [hold["resets_at"] for hold in holds if hold["model"] is None]
    full = [w["resets_at"] for w in plan["windows"] if w["used_percent"] >= 100 and w["resets_at"]]
    until = max(whole or full, default=None) or min((h["resets_at"] for h in holds), default=None)
    return "used up" if until is None else f"used up until {clock(until, datetime.now())}"


def clock(epoch: float, now: datetime) -> str:
    """A time of day, with the date if it is not today."""
    at = datetime.fromtimestamp(epoch)
    if at.date() == now.date():
        return f"{at:%H:%M}"
    return f"{at:%a %H:%M}" if (at - now).days < 6 else f"{at:%Y-%m-%d %H:%M}"


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
    """A time in the local time zone."""
    if epoch is None:
        return "at an unknown time"
    return clock(epoch, datetime.now())
