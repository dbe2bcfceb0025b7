"""`olp status`: the running server on one screen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from olp.cli import client, house
from olp.cli.quota import pictures


@click.command("status")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(config_file: str | None, as_json: bool) -> None:
    """Show how each provider really is, by what its last requests did."""
    health = client.call(house.read_config(config_file).config, "/health")
    click.echo(json.dumps(health, indent=2) if as_json else "\n".join(screen(health)))


def screen(health: Mapping[str, Any]) -> list[str]:
    """The health report as lines of text."""
    lines = [
        f"OLP {health['version']}: {health['status']}, up {health['uptime_s']} s, "
        f"{health['in_flight']} in the air",
        "",
    ]
    for name, provider in health["providers"].items():
        lines.append(f"{name:8} {_state(provider)}")
        lines += [
            f"         circuit open for {circuit['model']}, next try in {circuit['next_try_s']} s"
            for circuit in provider["open_circuits"]
        ]
    lines += ["", *pictures({n: p["quota"] for n, p in health["providers"].items()}), ""]
    lines += [f"{name:8} {' > '.join(hops)}" for name, hops in health["chains"].items()]
    return lines


def _state(provider: Mapping[str, Any]) -> str:
    slots = provider["slots"]
    rate = provider["success_rate"]
    seen = "no request yet" if rate is None else f"{rate:.0%} of the last {provider['attempts']}"
    text = f"{provider['state']}, {seen}, {slots['active']} of {slots['max']} slots taken"
    if failure := provider["last_failure"]:
        text += f"; last failure {failure['age_s']} s ago: {failure['code']}"
    if fix := provider.get("fix"):
        text += f"; put it right with: {fix}"
    return text
