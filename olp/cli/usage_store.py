"""Access to the usage store for commands: read from the file, whether a server runs or not."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from olp.cli import client, compose
from olp.config import Config
from olp.core.keys.time_range import TimeRange, time_range
from olp.errors import OLPError
from olp.runtime.access.keyring import Keyring
from olp.runtime.process.run_folder import in_use
from olp.runtime.usage.report import UsageReport
from olp.runtime.usage.store import UsageStore

SINCE = "Start: 7d, 12h, today, 2026-11-01, 2026-11-01T18:00 or all."


def state_in_use(config: Config) -> Path:
    """The configured state folder, or the demo's while only the demo runs."""
    state = compose.state_of(config)
    demo = compose.demo_state(state)
    if in_use(state) or not in_use(demo):
        return state
    client.warn("this is the book of the demo, which runs now")
    return demo


def open_book(state: Path) -> UsageReport:
    """The report on the usage store in the folder `state`. Raises OLPError if it cannot be read."""
    names = {key.id: key.name for key in Keyring(state).look().keys}
    report = UsageReport(UsageStore(state / "olp.db"), names)
    if report.problem:
        raise OLPError(f"the usage database cannot be read: {report.problem}")
    return report


def span_of(since: str | None, until: str | None = None) -> TimeRange:
    """The time range of the options."""
    try:
        return time_range(since, until, datetime.now())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--since / --until") from None


def persons_of(report: UsageReport, name: str | None) -> list[str] | None:
    """The ids of the person named `name`; None for all persons."""
    if name is None:
        return None
    if ids := report.ids(name):
        return ids
    known = ", ".join(report.known()) or "nobody yet"
    raise click.BadParameter(f"no person {name!r}; there is: {known}", param_hint="--person")


def brief(row: dict[str, Any]) -> str:
    """One request as one line."""
    at = datetime.fromtimestamp(row["at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    served = f"{row['provider']}/{row['model']}" if row["provider"] else "-"
    parts = [
        f"{at}  {row['name']:12} {row['asked'] or '-'} > {served}",
        f"{row['outcome']} {row['code']}".strip(),
    ]
    if row["status"] not in (None, 200):
        parts[-1] += f" ({row['status']})"
    parts.append(_times(row))
    if row["input"] or row["output"]:
        about = "~" if row["estimated"] else ""
        parts.append(f"{about}{row['input']} in {about}{row['output']} out")
    parts += [f"after {row['codes']}"] if row["codes"] else []
    parts += [row["background"]] if row["background"] else []
    return "  ".join([*parts, row["id"]])


def _times(row: dict[str, Any]) -> str:
    total = f"{row['total_ms'] / 1000:.1f} s"
    return total if row["first_ms"] is None else f"{total} (first {row['first_ms'] / 1000:.1f} s)"
