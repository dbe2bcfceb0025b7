"""`olp connect`: the configuration for a client, printed or written to its own files."""

from __future__ import annotations

import dataclasses
import json
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from olp.cli import client as server
from olp.cli import clientfile, compose
from olp.cli.keys import keyring_of
from olp.config import Config
from olp.connect import all_clients
from olp.connect.base import ANY_KEY, PLACEHOLDER, Client, Target
from olp.connect.known import with_told
from olp.core.keys.key import TOKEN
from olp.errors import OLPError
from olp.host import lan
from olp.runtime.access.local_server import local_servers

ONLY_HERE = (
    "OLP listens only on this machine, so only clients on this machine reach it. To let others in: "
    'make a key (`olp keys add NAME`), set host = "0.0.0.0" in [server], and start OLP again.'
)
ASK_S = 2.0
"""Seconds to wait for the running server; without an answer the defaults are used."""


@click.command("connect")
@click.argument("client", required=False)
@click.option("--key", metavar="NAME|TOKEN", help="Whose key to use; -: from standard input.")
@click.option("--host", metavar="NAME", help="The address for the client to use.")
@click.option("--model", default="auto", show_default=True, help="A chain or model.")
@click.option("--write", is_flag=True, help="Write it to the client's configuration files.")
@click.option("--yes", is_flag=True, help="Write without confirmation.")
@click.option("--file", metavar="FILE", help="The client's file, if not at the default path.")
@click.option("--qr", is_flag=True, help="Show the address as a QR code.")
@click.option("--qr-key", is_flag=True, help="Also show the key as a QR code.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
def command(client: str | None, config_file: str | None, **options: Any) -> None:
    """Show how to connect CLIENT; without CLIENT, list all clients."""
    config = compose.read_config(config_file).config
    chosen = _client(client) if client else None
    key = _key(options["key"], config, must_be_real=options["write"] and _holds_key(chosen))
    target, doubts = _known(config, Target(_base(config, options["host"]), key, options["model"]))
    warnings = [*doubts, *_warnings(config, options, target, chosen)]
    _act(chosen, target, warnings, options)
    for warning in () if options["as_json"] else warnings:
        click.secho(f"\nWARNING: {warning}", fg="yellow", err=True)
    if options["qr"] or options["qr_key"]:
        _show_qr(target.base)
    if options["qr_key"]:
        _show_qr(target.key)


def _act(
    client: Client | None, target: Target, warnings: Sequence[str], options: Mapping[str, Any]
) -> None:
    """Print or write the configuration, as the options say."""
    wrote: Mapping[Path, Path | None] | None = None
    if options["write"] and client is not None:
        wrote = _write(client, target, options)
    if options["as_json"]:
        click.echo(json.dumps(_as_json(client, target, warnings, wrote), indent=2))
    elif client is None:
        _list(target)
    elif wrote is None:
        _show(client, target)


def _write(
    client: Client, target: Target, options: Mapping[str, Any]
) -> Mapping[Path, Path | None]:
    """Show the change, ask for confirmation, write it; returns paths with those of the backups."""
    found, quiet = clientfile.changes(client, target, options["file"]), options["as_json"]
    if not any(change.is_one for change in found):
        for change in found if not quiet else ():
            click.echo(f"{change.path} is up to date.")
        return {}
    for change in found if not quiet else ():
        click.echo("".join(clientfile.difference(change, target.key)), nl=False)
    if not options["yes"]:
        _ask([str(change.path) for change in found if change.is_one], quiet=quiet)
    wrote = clientfile.write(found)
    if not quiet:
        _print_written(client, wrote)
    return wrote


def _ask(paths: Sequence[str], *, quiet: bool) -> None:
    """Ask for confirmation. Raises OLPError if it is denied, or there is no terminal."""
    names = " and ".join(paths)
    if quiet or not sys.stdin.isatty():
        raise OLPError(f"nothing was written: not interactive; use --yes to write {names}")
    if not click.confirm(f"Write {names}?", default=True):
        raise OLPError("nothing was written")


def _print_written(client: Client, wrote: Mapping[Path, Path | None]) -> None:
    click.echo()
    for path, kept in wrote.items():
        click.echo(f"Written: {path}" + (f"\nBackup: {kept}" if kept else ""))
    for note in filter(None, (client.warning, *client.notes)):
        click.echo(f"- {note}")


def _client(name: str) -> Client:
    clients = all_clients()
    found = clients.get(name) or next((c for c in clients.values() if name in c.also), None)
    if found is None:
        raise OLPError(f"there is no client {name!r}; known: {', '.join(clients)}")
    return found


def _holds_key(client: Client | None) -> bool:
    return client is not None and any(file.holds_key for file in client.files)


# --- address and key ---------------------------------------------------------------------------


def _base(config: Config, host: str | None) -> str:
    server = config.server
    if host is None:
        host = server.host
        if host in ("0.0.0.0", "::"):
            host = next(iter(lan.addresses()), "127.0.0.1")
    name, colon, port = host.rpartition(":")
    given = colon and port.isdecimal() and (":" not in name or name.endswith("]"))
    where = host if given else f"{lan.url_host(host)}:{server.port}"
    if where.endswith(":0"):
        raise OLPError("the port is not known (port = 0); set it with --host HOST:PORT")
    return f"{'https' if server.tls_cert else 'http'}://{where}/v1"


def _key(given: str | None, config: Config, *, must_be_real: bool) -> str:
    """The token, or a placeholder: tokens are only known to their owners."""
    ring = keyring_of(config).look()
    if given == "-":
        given = sys.stdin.readline().strip()
        if TOKEN.fullmatch(given) is None:
            raise OLPError("standard input has no OLP token")
    if given is None and not ring.on:
        return ANY_KEY
    if given is not None and TOKEN.fullmatch(given):
        return given
    if given is not None and given not in {key.name for key in ring.keys}:
        raise OLPError(f"there is no key {given!r}; `olp keys list` lists them")
    if sys.stdin.isatty() and (given or must_be_real):
        return str(click.prompt(f"The token of {given or 'the key'}", hide_input=True))
    if must_be_real:
        name = given or "NAME"
        raise OLPError(
            "OLP keeps no token, so it cannot be written: give it with --key - on standard input; "
            f"`olp keys rotate {name}` creates a new one"
        )
    return PLACEHOLDER


def _known(config: Config, target: Target) -> tuple[Target, list[str]]:
    """`target` with the model's data from the running server, and warnings. Only a server that left
    a token for this user is asked, since another program may listen on its port.
    """
    ours = (one.port for one in local_servers(compose.state_of(config)))
    if config.server.port not in ours:
        return target, []
    path = f"/v1/models/{urllib.parse.quote(target.model)}"
    try:
        return with_told(target, server.Link(config).call(path, timeout=ASK_S)), []
    except server.NotRunning:
        return target, []
    except OLPError as error:
        return target, [f"The server does not describe the model {target.model}: {error}"]


def _warnings(
    config: Config, options: Mapping[str, Any], target: Target, chosen: Client | None
) -> list[str]:
    if chosen is not None and chosen.cannot:
        return []
    found = []
    if options["host"] is None and lan.is_loopback(config.server.host):
        found.append(ONLY_HERE)
    if target.key == PLACEHOLDER and chosen is not None:
        found.append(_no_token(options["key"]))
    if target.base.startswith("https:"):
        found.append("The client's system must trust your certificate: `olp cert` says how.")
    return found


def _no_token(name: str | None) -> str:
    if name is None:
        return f"Replace {PLACEHOLDER} with a key: `olp keys add NAME` creates one."
    return (
        f"OLP stores no tokens, so replace {PLACEHOLDER} with {name}'s. If it is lost, "
        f"`olp keys rotate {name}` creates a new one."
    )


# --- output ------------------------------------------------------------------------------------


def _list(target: Target) -> None:
    click.echo(f"Base URL  {target.base}\nModel     {target.model}\n")
    for name, client in all_clients().items():
        able = "cannot: " + client.cannot.partition(".")[0] if client.cannot else client.title
        click.echo(f"  olp connect {name:15} {able}")


def _show(client: Client, target: Target) -> None:
    click.secho(client.title, bold=True)
    for text in filter(None, (client.cannot, client.warning)):
        click.echo(f"\n{text}")
    for snippet in client.snippets(target):
        click.echo(f"\n# {snippet.where}")
        click.echo(snippet.text.rstrip("\n"))
    if client.notes:
        click.echo()
    for note in client.notes:
        click.echo(f"- {note}")


def _as_json(
    client: Client | None,
    target: Target,
    warnings: Sequence[str],
    wrote: Mapping[Path, Path | None] | None,
) -> dict[str, Any]:
    head = {
        "base_url": target.base,
        "model": target.model,
        "context_length": target.context,
        "images": target.sees,
        "warnings": list(warnings),
    }
    if client is None:
        names = [{"name": c.name, "title": c.title} for c in all_clients().values()]
        return {**head, "clients": names}
    kept = {str(path): str(old) if old else None for path, old in (wrote or {}).items()}
    return {
        **head,
        "client": client.name,
        "cannot": client.cannot or None,
        "warning": client.warning or None,
        "notes": list(client.notes),
        "files": [str(clientfile.path_of(file)) for file in client.files],
        "written": None if wrote is None else kept,
        "snippets": [dataclasses.asdict(snippet) for snippet in client.snippets(target)],
    }


def _show_qr(text: str) -> None:
    import segno

    click.echo()
    segno.make(text, micro=False).terminal(compact=True)
    click.echo(text)
