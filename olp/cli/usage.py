"""`olp usage`: report usage by person, model and so on."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import click

from olp.cli import client, usage_store
from olp.core.words import counted
from olp.runtime.usage.report import BY, SINCE, By

BAR = 20
"""Width of the longest bar, in characters."""

ESTIMATE = "cost is an estimate by the CLIs: a subscription is not billed by token"


@click.command("usage")
@click.option("--by", type=click.Choice(BY), default="person", show_default=True)
@click.option("--since", default=SINCE, show_default=True, help=usage_store.SINCE)
@click.option("--until", help="The last day, or the end time.")
@click.option("--person", metavar="NAME", help="Only this person.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
def command(
    by: By,
    since: str,
    until: str | None,
    person: str | None,
    as_json: bool,
    as_csv: bool,
    config_file: str | None,
) -> None:
    """Show usage: requests, tokens, and the cost estimated by the CLIs."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    report = usage_store.open_book(usage_store.state_in_use(client.configured(config_file)))
    result = report.told(
        by, usage_store.span_of(since, until), usage_store.persons_of(report, person)
    )
    if as_json:
        click.echo(json.dumps(result, indent=2, ensure_ascii=False))
    elif as_csv:
        _write_csv(result)
    else:
        _show(result)


def _write_csv(result: Mapping[str, Any]) -> None:
    writer = csv.DictWriter(sys.stdout, ["name", *result["total"]], lineterminator="\n")
    writer.writeheader()
    # A spreadsheet must not interpret a name as a formula.
    writer.writerows({**group, "name": _plain(group["name"])} for group in result["groups"])


def _plain(name: str) -> str:
    return f"'{name}" if name[:1] in ("=", "+", "-", "@") else name


def _show(result: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A pipe has no width, and broken lines cannot be parsed by a program.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(f"Usage by {result['by']}, {_when(result)}")
    if not result["groups"]:
        console.print("Nothing was asked in that time.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_footer=True)
    table.add_column(result["by"], footer="total", no_wrap=True)
    table.add_column("")
    total = _cells(result["total"])
    for title, cell in zip(TITLES, total, strict=True):
        table.add_column(title, footer=cell, justify="right", no_wrap=True)
    most = max(group["requests"] for group in result["groups"])
    for group in result["groups"]:
        table.add_row(Text(group["name"]), Text(_bar(group, most), "cyan"), *_cells(group))
    console.print(table)
    for line in _footnotes(result["total"]):
        console.print(line, style="dim")


TITLES = (
    *("requests", "failed", "refused", "client left", "tokens in", "cached", "tokens out", "cost"),
    "first content",
)


def _cells(group: Mapping[str, Any]) -> list[str]:
    about = "~" if group["estimated"] else ""
    cost, first = group["cost_estimate_usd"], group["first_content_ms"]
    return [
        *(f"{group[name]:,}" for name in ("requests", "failed", "refused", "gone")),
        about + _short(group["input"]),
        _short(group["cached"]),
        about + _short(group["output"]),
        "-" if cost is None else f"≈ ${cost:,.2f}",
        "-" if first is None else f"{first / 1000:.1f} s",
    ]


def _bar(group: Mapping[str, Any], most: int) -> str:
    return "█" * max(1, round(int(group["requests"]) / most * BAR))


def _short(number: int) -> str:
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if number >= size:
            return f"{number / (1000 if unit == 'k' else size):.1f} {unit}"
    return f"{number:,}"


def _when(result: Mapping[str, Any]) -> str:
    since, until = result["since"], result["until"]
    begins = f"since {_moment(since)}" if since else "since the beginning"
    if not until:
        return begins
    end = datetime.fromisoformat(until)
    whole = end.time() == datetime.min.time()
    last = (end - timedelta(days=1)).isoformat() if whole else end.isoformat()
    return f"{begins} {'to' if whole else 'until'} {_moment(last)}"


def _moment(text: str) -> str:
    return text.removesuffix("T00:00:00").replace("T", " ")[:16]


def _footnotes(total: Mapping[str, Any]) -> list[str]:
    notes = []
    if total["cost_estimate_usd"] is not None:
        stated, requests = total["requests_with_cost"], total["requests"]
        notes.append(f"≈ {ESTIMATE} (of {stated:,} of {counted(requests, 'request')})")
    if total["estimated"]:
        notes.append(
            f"~ the tokens of {counted(total['estimated'], 'request')} are an estimate: cut short"
        )
    return notes
