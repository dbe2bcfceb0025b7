"""`olp cert`: certificates for https on the LAN, and instructions to trust them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import click

from olp.cli import compose
from olp.config import Config
from olp.host import lan
from olp.host.authority import Made, make

TRUST = """\
Make each device trust the CA, once. Copy this file to it
  {file}
(USB stick, AirDrop, mail; it is not secret), and compare the fingerprint that the device shows with
its SHA-256 fingerprint:
  {print_1}
  {print_2}

macOS    double-click the file, choose the login keychain, open the entry, Trust: Always Trust.
         Or: security add-trusted-cert -k ~/Library/Keychains/login.keychain-db authority.pem
iOS      open the file, install the profile in Settings, General, VPN & Device Management; then
         enable it in Settings, General, About, Certificate Trust Settings. Both are required.
Android  Settings, Security, Encryption & credentials, Install a certificate, CA certificate.
         Browsers then trust it; apps that do not opt in to user CAs still reject it.
Windows  certutil -user -addstore Root authority.pem
Debian, Ubuntu
         sudo cp authority.pem /usr/local/share/ca-certificates/olp.crt
         sudo update-ca-certificates
Fedora   sudo trust anchor authority.pem
Firefox  Settings, Privacy & Security, View Certificates, Authorities, Import. (On Windows, macOS
         and Android it also uses the system's trusted CAs.)
Python   SSL_CERT_FILE=authority.pem for programs that use httpx, such as the openai package
Node     NODE_EXTRA_CA_CERTS=authority.pem, also for editors built on it
"""


@click.command("cert")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Additional name or address.")
@click.option("--out", metavar="FOLDER", help="Output folder.")
@click.option(
    "--new-authority",
    is_flag=True,
    help="Create a new CA, which every device must then trust again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
def command(
    hosts: tuple[str, ...],
    out: str | None,
    new_authority: bool,
    as_json: bool,
    config_file: str | None,
) -> None:
    """Create a certificate for this server, and on first use a private CA to sign it.

    Run it again within 13 months to renew: the CA stays the same, so devices need no change.
    """
    config = compose.read_config(config_file).config
    state = compose.state_of(config)
    folder = Path(out) if out else state / "tls"
    made = make(folder, hosts, own_names(), datetime.now(UTC), anew=new_authority)
    click.echo(json.dumps(_as_dict(made), indent=2) if as_json else "\n".join(_lines(made, config)))


def own_names() -> list[str]:
    """This machine's host names and its private addresses."""
    name = lan.hostname()
    private = [text for text in lan.addresses() if ip_address(text).is_private]
    return [name, f"{name}.local", "localhost", *private, "127.0.0.1", "::1"]


def _as_dict(made: Made) -> dict[str, object]:
    return {
        "authority": str(made.authority),
        "cert": str(made.cert),
        "key": str(made.key),
        "names": list(made.names),
        "expires": made.expires.isoformat(),
        "fingerprint": made.fingerprint,
        "new_authority": made.new_authority,
    }


def _lines(made: Made, config: Config) -> Iterator[str]:
    yield f"A certificate for {', '.join(made.names)}"
    yield f"until {made.expires:%Y-%m-%d}. Run `olp cert` again before that."
    if made.left_out:
        yield f"Not for {', '.join(made.left_out)}: the CA may not sign for it."
    if config.server.tls_cert == str(made.cert):
        yield "A running server loads it on SIGHUP: `systemctl --user reload olp`."
    else:
        yield f"\nAdd this to the configuration ({compose.config_path(None)}):\n\n[server]"
        yield f'tls_cert = "{made.cert}"\ntls_key = "{made.key}"'
    if made.new_authority:
        half = len(made.fingerprint) // 2 + 1
        first, second = made.fingerprint[:half], made.fingerprint[half:]
        yield "\n" + TRUST.format(file=made.authority, print_1=first, print_2=second)
    else:
        yield "The CA is unchanged, so devices need no change."
