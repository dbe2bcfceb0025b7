"""Checks whether the certificate is usable, and for how long."""

from __future__ import annotations

import time
from collections.abc import Iterator

from olp.config import ServerConfig
from olp.core.words import counted
from olp.doctor.finding import Finding
from olp.errors import StartError
from olp.host.tls import identity


def check_certificate(server: ServerConfig) -> Iterator[Finding]:
    """Check the files of `tls_cert` and `tls_key`; nothing if https is off."""
    if not server.tls_cert:
        return
    try:
        shown = identity(server.tls_cert, server.tls_key)
    except StartError as error:
        yield Finding("certificate", False, str(error), "olp cert")
        return
    days = (shown.expires_at - time.time()) / 86_400
    what = f"{server.tls_cert} is good for {counted(round(days), 'day')}"
    fix = "olp cert, and reload the server" if shown.expires_soon else ""
    yield Finding("certificate", None if shown.expires_soon else True, what, fix)
