"""The server's TLS certificate, verified at startup.

Python reports a mismatched file with OpenSSL's messages, and an expired certificate not at all. So
the server does an in-memory handshake with itself, trusting only its own certificate.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from olp.errors import StartError

SOON_S = 21 * 86_400.0
"""Seconds before the expiry of a certificate from which a warning is logged."""

_EXPIRED, _NOT_YET = 10, 9
"""OpenSSL's verify error codes."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A loaded certificate and its key. `expires_at` is in epoch seconds."""

    context: ssl.SSLContext
    expires_at: float

    @property
    def expires_soon(self) -> bool:
        """Whether it should be renewed."""
        return self.expires_at - time.time() < SOON_S


class Shown:
    """The certificate for new connections. It can be replaced atomically, since OpenSSL calls the
    SNI callback at each handshake (with or without a server name)."""

    def __init__(self, first: Identity) -> None:
        self.identity = first
        self.context = first.context
        self.context.sni_callback = self._choose

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self.identity.context


def identity(cert: str, key: str) -> Identity:
    """Load the files. Raises StartError if they are unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for path, name in ((cert, "tls_cert"), (key, "tls_key")):
        _readable(path, name)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        raise StartError(_told(error, cert, key)) from None
    except ValueError:
        raise StartError(f"tls_key: {key} is locked with a password; OLP needs it open") from None
    return Identity(context, _end_of(context, cert))


def trusting(cert: str) -> ssl.SSLContext:
    """A client context that trusts only this certificate, for any host name. Raises StartError if
    the file cannot be read."""
    _readable(cert, "tls_cert")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cafile=cert)
    return client


def _readable(path: str, name: str) -> None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.read(1)
    except OSError as error:
        raise StartError(f"{name}: {path} cannot be read: {error.strerror}") from None


def _no_password() -> str:
    raise ValueError


def _told(error: ssl.SSLError, cert: str, key: str) -> str:
    if "MISMATCH" in (error.reason or ""):
        return f"tls_key: {key} is not the key of the certificate {cert}"
    return f"tls_cert, tls_key: {cert} and {key} are not a certificate and its key in PEM"


def _end_of(server: ssl.SSLContext, cert: str) -> float:
    """Expiry of the certificate in epoch seconds. Raises StartError if it is invalid now."""
    try:
        shown = _shake_hands(server, trusting(cert)).getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        why = {_EXPIRED: "has expired", _NOT_YET: "is not valid yet (is the clock right?)"}
        said = why.get(error.verify_code, f"cannot be used: {error.verify_message}")
        raise StartError(f"tls_cert: {cert} {said}; `olp cert` makes a new one") from None
    except ssl.SSLError as error:
        raise StartError(f"tls_cert: {cert} cannot be used: {error.reason}") from None
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Handshake over an in-memory connection; returns the client side."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        done = [_step(end.do_handshake) for end in (ours, theirs)]
        if all(done):
            break
    return ours


def _step(handshake: Callable[[], None]) -> bool:
    try:
        handshake()
    except ssl.SSLWantReadError:
        return False
    return True
