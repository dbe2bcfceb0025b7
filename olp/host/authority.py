"""A local certificate authority, and the server certificate that it signs.

Devices trust the authority once, and then accept every later server certificate. A stolen CA key
could impersonate any site on these devices, so X.509 name constraints restrict the authority to
names and addresses of a home network.

`cryptography` is imported only here, and only by `olp cert`.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from olp import files
from olp.errors import OLPError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey as Key

AUTHORITY_DAYS = 3650
SERVER_DAYS = 397
"""Apple devices reject certificates valid for more than 825 days, browsers for more than 398."""

BACKDATED = timedelta(hours=1)
"""Tolerance for devices whose clock is slow."""

HOME_NAMES = ("localhost", "local", "lan", "home", "internal", "home.arpa", "fritz.box")
"""Permitted domains, with their subdomains; this machine's names are added."""

HOME_NETS = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
    *("100.64.0.0/10", "::1/128", "fc00::/7", "fe80::/10"),
)


class NoCryptography(OLPError):
    """The library is not installed."""

    def __init__(self) -> None:
        super().__init__(
            f"this needs the package cryptography: {sys.executable} -m pip install cryptography"
        )


@dataclass(frozen=True, slots=True)
class Made:
    """A new server certificate."""

    authority: Path
    """Certificate of the authority (PEM)."""

    cert: Path
    """Server certificate with its chain (PEM)."""

    key: Path
    """Private key of the server (PEM)."""

    names: tuple[str, ...]
    """Names and addresses in the certificate."""

    expires: datetime
    """End of its validity (UTC)."""

    fingerprint: str
    """SHA-256 of the authority's certificate."""

    new_authority: bool
    """Whether the authority is new, so that devices must trust it first."""

    left_out: tuple[str, ...]
    """Addresses of this machine that the authority may not sign for."""


def make(
    folder: Path, given: Sequence[str], found: Sequence[str], now: datetime, *, anew: bool = False
) -> Made:
    """Create a certificate in `folder` for the names `given` and those `found` on this machine.

    A valid authority is reused unless `anew`. Raises OLPError if it may not sign for a name in
    `given`, or if a file is unusable.
    """
    try:
        from cryptography import x509  # noqa: F401
    except ImportError:
        raise NoCryptography from None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        return _make(folder, given, found, now, anew=anew)
    except OSError as error:
        raise OLPError(f"{error.filename or folder}: {error.strerror}") from None


def _make(
    folder: Path, given: Sequence[str], found: Sequence[str], now: datetime, *, anew: bool
) -> Made:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    ca_file, ca_key_file = folder / "authority.pem", folder / "authority.key"
    old = None if anew else _authority(ca_file, ca_key_file, now)
    ca, ca_key = old or _new_authority([*given, *found], now)
    if refused := [name for name in given if not permits(ca, name)]:
        raise OLPError(
            f"the authority may not sign for {', '.join(refused)}; --new-authority makes one "
            "that may, which every device must then trust again"
        )
    names = [name for name in dict.fromkeys((*given, *found)) if permits(ca, name)]
    key = ec.generate_private_key(ec.SECP256R1())
    cert = _server(ca, ca_key, key, names, now)
    pem = serialization.Encoding.PEM
    if old is None:
        files.replace(ca_key_file, _private(ca_key), mode=0o600)
        files.replace(ca_file, ca.public_bytes(pem), mode=0o644)
    files.replace(folder / "server.key", _private(key), mode=0o600)
    files.replace(folder / "server.pem", cert.public_bytes(pem) + ca.public_bytes(pem), mode=0o644)
    return Made(
        authority=ca_file,
        cert=folder / "server.pem",
        key=folder / "server.key",
        names=tuple(names),
        expires=cert.not_valid_after_utc,
        fingerprint=ca.fingerprint(hashes.SHA256()).hex(":").upper(),
        new_authority=old is None,
        left_out=tuple(name for name in found if name not in names),
    )


# --- the authority -----------------------------------------------------------------------------


def _authority(file: Path, key_file: Path, now: datetime) -> tuple[x509.Certificate, Key] | None:
    """Load the authority; None if missing, or if it expires before a new certificate would."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if not file.exists() and not key_file.exists():
        return None
    try:
        cert = x509.load_pem_x509_certificate(file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != cert.public_key():
            raise ValueError
    except (ValueError, TypeError):
        raise OLPError(
            f"{file} and {key_file} are not an authority and its key; put the right files back, "
            "or make another with --new-authority, which every device must then trust again"
        ) from None
    return (cert, key) if cert.not_valid_after_utc > now + timedelta(days=SERVER_DAYS) else None


def _new_authority(names: Iterable[str], now: datetime) -> tuple[x509.Certificate, Key]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(f"OLP household authority ({now:%Y-%m-%d})")
    own = [name for name in map(_general, names) if name not in map(_general, HOME_NAMES)]
    permitted = [*map(_general, HOME_NAMES), *map(_net, HOME_NETS), *map(_constraint, own)]
    cert = (
        _builder(subject, subject, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.NameConstraints(list(dict.fromkeys(permitted)), None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return cert, key


def permits(authority: x509.Certificate, name: str) -> bool:
    """Whether the authority may sign for `name` (a name or an address)."""
    from cryptography import x509

    limits = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    wanted = _general(name)
    return any(_covers(allowed, wanted) for allowed in limits.permitted_subtrees or ())


def _covers(allowed: x509.GeneralName, wanted: x509.GeneralName) -> bool:
    from cryptography import x509

    if isinstance(allowed, x509.IPAddress) and isinstance(wanted, x509.IPAddress):
        return ipaddress.ip_address(str(wanted.value)) in ipaddress.ip_network(str(allowed.value))
    if isinstance(allowed, x509.DNSName) and isinstance(wanted, x509.DNSName):
        return f".{wanted.value}".endswith(f".{allowed.value}")
    return False


# --- the server's certificate ------------------------------------------------------------------


def _server(
    ca: x509.Certificate, ca_key: Key, key: Key, names: Sequence[str], now: datetime
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    shown = x509.SubjectAlternativeName([_general(name) for name in names])
    return (
        _builder(_named("OLP"), ca.subject, key, now, SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(shown, critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, now: datetime, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(name: str) -> x509.GeneralName:
    """Parse a DNS name or IP address. Raises OLPError."""
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        ascii_name = name.encode("idna").decode("ascii").lower().rstrip(".")
        if not ascii_name or set(ascii_name) - set("abcdefghijklmnopqrstuvwxyz0123456789-."):
            raise ValueError
        return x509.DNSName(ascii_name)
    except (ValueError, UnicodeError):
        raise OLPError(f"{name!r} is no host name and no address") from None


def _net(text: str) -> x509.GeneralName:
    from cryptography import x509

    return x509.IPAddress(ipaddress.ip_network(text))


def _constraint(name: x509.GeneralName) -> x509.GeneralName:
    """`name` as a name constraint: an address becomes a network of one."""
    from cryptography import x509

    return _net(str(name.value)) if isinstance(name, x509.IPAddress) else name


# --- files -------------------------------------------------------------------------------------


def _private(key: Key) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
