"""`olp status`: the state of the running server on one screen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from olp.cli import client, usage_store
from olp.cli.quota import pictures, used_up
from olp.core.words import counted
from olp.errors import OLPError

FAILURES = 5
"""The number of recent failures shown."""


@click.command("status")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@client.which
def command(config_file: str | None, as_json: bool, port: int | None, url: str | None) -> None:
    """Show plans, chains, requests in flight and the last failures."""
    status = look(client.Link(client.configured(config_file), port, url))
    click.echo(json.dumps(status, indent=2) if as_json else "\n".join(screen(status)))


def look(link: client.Link) -> dict[str, Any]:
    """The server's health report, and the last failed requests of the request log."""
    health = link.call("/health")
    try:
        failures = usage_store.open_book(link.state).requests(limit=FAILURES, in_vain=True)
    except OLPError:
        failures = []  # the health report contains the store's problem
    return {**health, "url": link.url, "last_failures": failures}


def screen(status: Mapping[str, Any]) -> list[str]:
    """The report as lines of text."""
    lines = [
        f"OLP {status['version']} at {status['url']}: {status['status']}, "
        f"up {_span(status['uptime_s'])}, {len(status['live'])} in flight"
    ]
    if status["record"] != "ok":
        lines.append(f"the usage database cannot be written: {status['record']}")
    lines.append("")
    for name, provider in status["providers"].items():
        lines.append(f"{name:8} {_state(provider)}")
        lines += [
            f"         circuit open for {circuit['model']}, next try in {circuit['next_try_s']} s"
            for circuit in provider["open_circuits"]
        ]
    lines += ["", *pictures({n: p["quota"] for n, p in status["providers"].items()}), ""]
    lines += [f"{name:8} {' > '.join(hops)}" for name, hops in status["chains"].items()]
    return [*lines, "", *_live(status["live"]), "", *_failures(status["last_failures"])]


def _live(live: Sequence[Mapping[str, Any]]) -> list[str]:
    if not live:
        return ["Nothing is being answered."]
    lines = ["Being answered"]
    for request in live:
        where = f"{request['provider']}/{request['model']}" if request["provider"] else "no hop yet"
        state = "answering" if request["answering"] else "asked"
        job = f", {request['background']}" if request["background"] else ""
        lines.append(
            f"  {request['person']:12} {request['asked']} > {where}, {state} "
            f"({request['seconds']:.0f} s{job})"
        )
    return lines


def _failures(failures: Sequence[dict[str, Any]]) -> list[str]:
    if not failures:
        return ["Nothing went wrong lately."]
    return ["Last failures", *(f"  {usage_store.brief(row)}" for row in reversed(failures))]


def _state(provider: Mapping[str, Any]) -> str:
    slots = provider["slots"]
    rate = provider["success_rate"]
    attempts = counted(provider["attempts"], "attempt")
    seen = "" if rate is None else f"{rate:.0%} of the last {attempts} answered, "
    word = "not asked yet" if provider["state"] == "unknown" else _word(provider)
    text = f"{word}, {seen}{slots['active']} of {counted(slots['max'], 'slot')} in use"
    if queued := provider["queued"]:
        text += f", {queued} queued"
    if failure := provider["last_failure"]:
        text += f"; last failure {_span(failure['age_s'])} ago: {failure['code']}"
    if fix := provider.get("fix"):
        text += f"; fix: {fix}"
    return text


def _word(provider: Mapping[str, Any]) -> str:
    """The provider's state in a word or two. An exhausted plan is not shown as a failure."""
    code = (provider["last_failure"] or {}).get("code")
    if provider["state"] == "failing" and code == "QUOTA_EXHAUSTED":
        return used_up(provider["quota"])
    return used_up(provider["quota"]) if provider["state"] == "used_up" else provider["state"]


def _span(seconds: float) -> str:
    for size, unit, less in ((86400, "d", "h"), (3600, "h", "min"), (60, "min", "s")):
        if seconds >= size:
            part = {"h": 3600, "min": 60, "s": 1}[less]
            return f"{int(seconds // size)} {unit} {int(seconds % size // part)} {less}"
    return f"{int(seconds)} s"
