"""`olp logs`: print the request log, without any content."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from typing import Any

import click

from olp.cli import client, usage_store
from olp.runtime.usage.report import UsageReport

POLL_S = 0.5
"""Seconds between polls with `--follow`."""

SHOWN = 50
"""Requests shown without `--since` and `--lines`."""

SHOWN_FIRST = 10
"""The same with `--follow`."""


@click.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Keep printing requests as they end.")
@click.option("--person", metavar="NAME", help="Only this person.")
@click.option("--since", help=usage_store.SINCE)
@click.option("--failed", is_flag=True, help="Only failed requests.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="At most this many, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
def command(
    follow: bool,
    person: str | None,
    since: str | None,
    failed: bool,
    lines: int | None,
    as_json: bool,
    config_file: str | None,
) -> None:
    """Show the last requests, one per line, in the order in which they ended."""
    report = usage_store.open_book(usage_store.state_in_use(client.configured(config_file)))
    persons = usage_store.persons_of(report, person)
    if lines is None and since is None:
        lines = SHOWN_FIRST if follow else SHOWN
    last = report.last_number()
    rows = report.requests(usage_store.span_of(since), persons, limit=lines, in_vain=failed)
    _print(rows, as_json)
    if follow:
        _follow(report, persons, max([last, *(row["number"] for row in rows)]), failed, as_json)


def _follow(
    report: UsageReport, persons: Collection[str] | None, last: int, failed: bool, as_json: bool
) -> None:
    try:
        while True:
            time.sleep(POLL_S)
            rows = report.requests(persons=persons, after=last, in_vain=failed)
            _print(rows, as_json)
            last = max([last, *(row["number"] for row in rows)])
    except KeyboardInterrupt:
        return


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False) if as_json else usage_store.brief(row))
