"""`olp connect`: the exact configuration for a client, printed or put into its own file."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from olp.cli import clientfile, house
from olp.cli.keys import keyring_of
from olp.config import Config
from olp.connect import all_clients
from olp.connect.base import ANY_KEY, PLACEHOLDER, Client, Target
from olp.core.keys import TOKEN
from olp.errors import OLPError
from olp.runtime import lan

ONLY_HERE = (
    "OLP listens only on this machine, so only clients on this machine reach it. To let others in: "
    'make a key (`olp keys add NAME`), set host = "0.0.0.0" in [server], and start OLP again.'
)


@click.command("connect")
@click.argument("client", required=False)
@click.option("--key", metavar="NAME|TOKEN", help="Whose key to use; - reads it from input.")
@click.option("--host", metavar="NAME", help="The address that the client will use.")
@click.option("--model", default="auto", show_default=True, help="A chain or model.")
@click.option("--write", is_flag=True, help="Put it into the client's own file.")
@click.option("--file", metavar="FILE", help="The client's file, where it is not the usual one.")
@click.option("--qr", is_flag=True, help="Show the address as a QR code.")
@click.option("--qr-key", is_flag=True, help="Show the key as a QR code, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
def command(client: str | None, config_file: str | None, **options: Any) -> None:
    """Show how to connect CLIENT; without one, list them all."""
    config = house.read_config(config_file).config
    chosen = _client(client) if client else None
    write = options["write"]
    key = _key(options["key"], config, must_be_real=write and _holds_key(chosen))
    target = Target(_base(config, options["host"]), key, options["model"])
    warnings = _warnings(config, options["host"], target)
    if options["as_json"]:
        click.echo(json.dumps(_as_json(chosen, target, warnings), indent=2))
    elif chosen is None:
        _list(target)
    elif write:
        clientfile.write(chosen, target, options["file"])
    else:
        _show(chosen, target)
    for warning in () if options["as_json"] else warnings:
        click.secho(f"\nWARNING: {warning}", fg="yellow", err=True)
    if options["qr"] or options["qr_key"]:
        _show_qr(target.base)
    if options["qr_key"]:
        _show_qr(target.key)


def _client(name: str) -> Client:
    clients = all_clients()
    if name not in clients:
        raise OLPError(f"there is no client {name!r}; known: {', '.join(clients)}")
    return clients[name]


def _holds_key(client: Client | None) -> bool:
    return client is not None and client.file is not None and client.file.holds_key


# --- where and with which key ------------------------------------------------------------------


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
        raise OLPError("the port is not known (port = 0); say it with --host HOST:PORT")
    return f"{'https' if server.tls_cert else 'http'}://{where}/v1"


def _key(given: str | None, config: Config, *, must_be_real: bool) -> str:
    """The token, or what stands for one that nobody but its owner knows."""
    ring = keyring_of(config).look()
    if given == "-":
        given = sys.stdin.readline().strip()
        if TOKEN.fullmatch(given) is None:
            raise OLPError("what came on standard input is no token of OLP")
    if given is None and not ring.on:
        return ANY_KEY
    if given is not None and TOKEN.fullmatch(given):
        return given
    if given is not None and given not in {key.name for key in ring.keys}:
        raise OLPError(f"there is no key {given!r}; `olp keys list` names them")
    if sys.stdin.isatty() and (given or must_be_real):
        return str(click.prompt(f"The token of {given or 'the key'}", hide_input=True))
    if must_be_real:
        whose = given or "NAME"
        raise OLPError(
            "OLP keeps no token, so it cannot be written: give it with --key - on standard input; "
            f"`olp keys rotate {whose}` makes a new one"
        )
    return PLACEHOLDER


def _warnings(config: Config, host: str | None, target: Target) -> list[str]:
    found = []
    if host is None and lan.is_loopback(config.server.host):
        found.append(ONLY_HERE)
    if target.key == PLACEHOLDER:
        found.append(f"Put a key in the place of {PLACEHOLDER}: `olp keys add NAME` makes one.")
    if target.base.startswith("https:"):
        found.append("The client's system must trust your certificate: `olp cert` says how.")
    return found


# --- showing -----------------------------------------------------------------------------------


def _list(target: Target) -> None:
    click.echo(f"Base URL  {target.base}\nModel     {target.model}\n")
    for name, client in all_clients().items():
        able = "cannot: " + client.cannot.partition(".")[0] if client.cannot else client.title
        click.echo(f"  olp connect {name:15} {able}")


def _show(client: Client, target: Target) -> None:
    click.secho(client.title, bold=True)
    for told in filter(None, (client.cannot, client.warning)):
        click.echo(f"\n{told}")
    for snippet in client.snippets(target):
        click.echo(f"\n# {snippet.where}")
        click.echo(snippet.text.rstrip("\n"))
    if client.notes:
        click.echo()
    for note in client.notes:
        click.echo(f"- {note}")


def _as_json(client: Client | None, target: Target, warnings: Sequence[str]) -> dict[str, Any]:
    head = {"base_url": target.base, "model": target.model, "warnings": list(warnings)}
    if client is None:
        names = [{"name": c.name, "title": c.title} for c in all_clients().values()]
        return {**head, "clients": names}
    file = str(clientfile.path_of(client.file)) if client.file else None
    return {
        **head,
        "client": client.name,
        "cannot": client.cannot or None,
        "warning": client.warning or None,
        "notes": list(client.notes),
        "file": file,
        "snippets": [dataclasses.asdict(snippet) for snippet in client.snippets(target)],
    }


def _show_qr(text: str) -> None:
    import segno

    click.echo()
    segno.make(text, micro=False).terminal(compact=True)
    click.echo(text)
