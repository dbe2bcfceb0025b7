"""`olp usage`: who used how much."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import click

from olp.cli import client
from olp.cli import usage_store as book
from olp.core.words import counted
from olp.runtime.usage.report import BY, SINCE, By

BAR = 20
"""Characters of the longest bar."""

ESTIMATE = "cost is an estimate by the CLIs: a subscription is not billed by token"


@click.command("usage")
@click.option("--by", type=click.Choice(BY), default="person", show_default=True)
@click.option("--since", default=SINCE, show_default=True, help=book.SINCE)
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
    report = book.open_book(book.state_in_use(client.configured(config_file)))
    told = report.told(by, book.span_of(since, until), book.persons_of(report, person))
    if as_json:
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    elif as_csv:
        _write_csv(told)
    else:
        _show(told)


def _write_csv(told: Mapping[str, Any]) -> None:
    writer = csv.DictWriter(sys.stdout, ["name", *told["total"]], lineterminator="\n")
    writer.writeheader()
    # A name that a spreadsheet would take for a formula must not become one.
    writer.writerows({**group, "name": _plain(group["name"])} for group in told["groups"])


def _plain(name: str) -> str:
    return f"'{name}" if name[:1] in ("=", "+", "-", "@") else name


def _show(told: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A pipe has no width, and a line that is cut in two cannot be read by a program.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(f"Usage by {told['by']}, {_when(told)}")
    if not told["groups"]:
        console.print("Nothing was asked in that time.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_footer=True)
    table.add_column(told["by"], footer="total", no_wrap=True)
    table.add_column("")
    total = _cells(told["total"])
    for title, cell in zip(TITLES, total, strict=True):
        table.add_column(title, footer=cell, justify="right", no_wrap=True)
    most = max(group["requests"] for group in told["groups"])
    for group in told["groups"]:
        table.add_row(Text(group["name"]), Text(_bar(group, most), "cyan"), *_cells(group))
    console.print(table)
    for line in _footnotes(told["total"]):
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


def _when(told: Mapping[str, Any]) -> str:
    since, until = told["since"], told["until"]
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
