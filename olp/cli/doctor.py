"""`olp doctor`: check this machine and print commands that fix problems."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from olp.cli import compose
from olp.cli.checkup import odd_here, wrong_here
from olp.config import Config
from olp.doctor import Finding, House, Patient, examine
from olp.errors import ConfigError

CONFIGURATION = "configuration"
FIX = "correct it, then: olp config check"

MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "yellow")}


@click.command("doctor")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(config_file: str | None, as_json: bool) -> None:
    """Check this machine and its CLIs, and show fixes. It uses no quota.

    Exit code 0: no problems. 1: something needs a fix.
    """
    config, findings = _configuration(config_file)
    with Console(stderr=True).status("") as status:
        rest = asyncio.run(examine(_examined(config), lambda step: status.update(f"{step} …")))
    findings += rest
    well = all(finding.ok is not False for finding in findings)
    if as_json:
        items = [dataclasses.asdict(finding) for finding in findings]
        click.echo(json.dumps({"ok": well, "findings": items}, indent=2, ensure_ascii=False))
    else:
        _show(findings)
    sys.exit(0 if well else 1)


def _configuration(given: str | None) -> tuple[Config, list[Finding]]:
    """The usable part of the configuration, and findings about it."""
    path = compose.config_path(given)
    try:
        loaded = compose.look_at_config(given)
    except ConfigError as error:
        return Config(), [Finding(CONFIGURATION, False, str(error), FIX)]
    found = compose.find_providers(loaded.config)
    wrong = [*loaded.wrong, *wrong_here(loaded, found)]
    findings = [Finding(CONFIGURATION, False, str(problem), FIX) for problem in wrong]
    if not findings:
        what = f"{path} is valid" if path.exists() else f"the defaults (there is no {path})"
        findings = [Finding(CONFIGURATION, True, what)]
    odd = [*loaded.odd, *odd_here(loaded, found)]
    return loaded.config, findings + [Finding(CONFIGURATION, None, str(p)) for p in odd]


def _examined(config: Config) -> House:
    state = compose.state_of(config)
    found = compose.find_providers(config)
    catalogue = compose.catalogue_of(config, found)
    needed = {hop.provider for chain in catalogue.chains.values() for hop in chain.hops}
    return House(config.server, catalogue, _patients(config, found, needed, state), state)


def _patients(
    config: Config, found: Mapping[str, compose.Found], needed: set[str], state: Path
) -> Sequence[Patient]:
    return [
        Patient(
            provider=item.provider,
            context=compose.setting_of(item, config, state),
            installed=item.command is not None,
            enabled=item.enabled,
            needed=name in needed or bool(config.provider(name).enabled),
        )
        for name, item in found.items()
        if item.provider.info.rank
    ]


def _show(findings: Sequence[Finding]) -> None:
    # A pipe has no width, and a command broken across lines cannot be copied.
    console = Console(width=None if sys.stdout.isatty() else 240, highlight=False)
    table = Table.grid(padding=(0, 1))
    for finding in findings:
        mark, style = MARKS[finding.ok]
        table.add_row(Text(mark, style), Text(finding.name), Text(finding.what))
        if finding.fix:
            table.add_row("", "", Text(f"fix: {finding.fix}", "bold"))
    console.print(table)
    bad = sum(finding.ok is False for finding in findings)
    summary = f"{bad} of {len(findings)} to fix" if bad else "All good."
    console.print(Text(summary, "bold red" if bad else "bold green"))
