"""`olp service`: run OLP as a service of the current user."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from olp.cli import client, compose
from olp.cli.groups import Group
from olp.config import Config
from olp.errors import OLPError
from olp.host import service_unit as unit
from olp.runtime.process.child import run

CONFIG = click.option(
    "--config", "config_file", metavar="FILE", help="Use this configuration file."
)
DRY = click.option("--dry-run", is_flag=True, help="Show what would be done without doing it.")
MAC = sys.platform == "darwin"


@click.group("service", cls=Group)
def command() -> None:
    """Run OLP in the background from boot: systemd user units, or launchd."""


@command.command("install")
@CONFIG
@DRY
def install(config_file: str | None, dry_run: bool) -> None:
    """Install and start the service; run it again after a CLI or PATH has changed.

    PATH is copied from this shell, so that the service finds the same CLIs.
    """
    config = compose.read_config(config_file).config
    path = compose.config_path(config_file).absolute()
    drain_s = config.server.drain_s
    job = unit.job(os.environ, path, drain_s, Path.home(), named=path.exists())
    file = _file()
    text = unit.launchd_agent(job) if MAC else unit.systemd_unit(job)
    commands = unit.launchd_commands(file, os.getuid()) if MAC else unit.systemd_commands()
    if dry_run:
        click.echo(f"# {file}\n{text}\n" + "\n".join(map(shlex.join, commands)))
        return
    _missing_clis(config, job.environment["PATH"])
    if MAC and file.exists():
        run(unit.launchd_undo(os.getuid())[0])
    _write(file, text)
    _run_all(commands)
    click.echo(f"Written and started: {file}")
    _hints(job)


@command.command("uninstall")
@DRY
def uninstall(dry_run: bool) -> None:
    """Stop and remove the service. The configuration and the state folder are kept."""
    file = _file()
    commands = unit.launchd_undo(os.getuid()) if MAC else unit.systemd_undo()
    if dry_run:
        click.echo("\n".join([*map(shlex.join, commands), shlex.join(["rm", str(file)])]))
        return
    if not file.exists():
        raise OLPError(f"no service is installed: there is no {file}")
    for argv in commands:
        code, output = run(argv)
        if code:
            click.echo(f"{shlex.join(argv)}: {output}", err=True)
    file.unlink()
    if not MAC:
        run(("systemctl", "--user", "daemon-reload"))
    click.echo(f"Removed: {file}")


@command.command("status")
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(config_file: str | None, as_json: bool) -> None:
    """Show whether it is installed, runs and answers. Exit code 0: it does."""
    config = client.configured(config_file)
    file = _file()
    found = {
        "installed": file.exists(),
        "file": str(file),
        **(_launchd_state() if MAC else _systemd_state()),
        "answers": _answers(config),
    }
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            shown = {True: "yes", False: "no", None: "unknown"}.get(value, value)  # type: ignore[call-overload]
            click.echo(f"{name:16} {shown}")
    sys.exit(0 if found["installed"] and found["answers"] else 1)


def _file() -> Path:
    home = Path.home()
    return unit.launchd_file(home) if MAC else unit.systemd_file(home, os.environ)


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(file.name + ".new")
        new.write_text(text, "utf-8")
        new.replace(file)
    except OSError as error:
        raise OLPError(f"{file} cannot be written: {error.strerror}") from None


def _run_all(commands: Sequence[tuple[str, ...]]) -> None:
    for argv in commands:
        code, output = run(argv)
        if code:
            why = " (is this a login without a session of its own, such as sudo or su?)"
            hint = why if "bus" in output.lower() else ""
            raise OLPError(f"{shlex.join(argv)} failed: {output or code}{hint}")


def _missing_clis(config: Config, path: str) -> None:
    found = compose.find_providers(config)
    if not any(item.enabled for item in found.values()):
        raise OLPError("no CLI is found on this PATH, so the service would find none: " + path)


def _hints(job: unit.Job) -> None:
    secret = [n for n in ("MISTRAL_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN") if os.environ.get(n)]
    if secret and not job.secrets.exists():
        click.echo(
            f"{' and '.join(secret)} of this shell is not copied, since a unit is readable. "
            f"Write it into {job.secrets} (chmod 600) if a CLI needs it."
        )
    if MAC:
        click.echo(f"Its log: {job.log}")
        return
    if _lingers() is False:
        click.echo(
            "It ends when you log out, and starts when you log in. To run it from boot on:\n"
            f"  loginctl enable-linger {getpass.getuser()}"
        )
    click.echo("Its log: journalctl --user -u olp -f")


def _systemd_state() -> Mapping[str, object]:
    """The service's state according to systemd."""
    names = ("ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "StatusText")
    code, output = run(("systemctl", "--user", "show", unit.NAME, f"--property={','.join(names)}"))
    values = dict(line.partition("=")[::2] for line in output.splitlines()) if code == 0 else {}
    return {
        "state": f"{values['ActiveState']} ({values['SubState']})" if values else output,
        "at boot or login": values.get("UnitFileState") or None,
        "process": values.get("MainPID"),
        "restarts": values.get("NRestarts"),
        "says": values.get("StatusText"),
        "lingers": _lingers(),
    }


def _lingers() -> bool | None:
    """Whether the user's services run without a login session; None if unknown."""
    code, output = run(("loginctl", "show-user", getpass.getuser(), "--property=Linger", "--value"))
    if code == 0:
        return output == "yes"
    return Path("/var/lib/systemd/linger", getpass.getuser()).exists() or None


def _launchd_state() -> Mapping[str, object]:
    code, output = run(("launchctl", "print", f"gui/{os.getuid()}/{unit.LABEL}"))
    wanted = ("state", "pid", "last exit code")
    lines = (line.strip().partition(" = ") for line in output.splitlines())
    return {n: v for n, _, v in lines if n in wanted} if code == 0 else {"state": "not loaded"}


def _answers(config: Config) -> bool:
    try:
        return bool(client.Link(config).call("/healthz", timeout=5))
    except OLPError:
        return False
