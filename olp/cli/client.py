"""Talks to the running server, for the commands that show or change its state."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from olp.config import Config
from olp.errors import OLPError
from olp.runtime.keyring import local_token
from olp.runtime.place import default_state
from olp.runtime.tls import trusting


class NotRunning(OLPError):
    """No server answers at the configured address."""


def call(config: Config, path: str, *, method: str = "GET", timeout: float = 30) -> Any:
    """The JSON that the server answers; NotRunning if there is none, OLPError if it refuses."""
    host = config.server.host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"[{host}]" if ":" in host else host
    cert = config.server.tls_cert
    url = f"{'https' if cert else 'http'}://{address}:{config.server.port}{path}"
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    state = Path(config.server.state_dir) if config.server.state_dir else default_state()
    if token := local_token(state, config.server.port):
        request.add_header("Authorization", f"Bearer {token}")
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if cert:
        handlers.append(urllib.request.HTTPSHandler(context=trusting(cert)))
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=timeout) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise OLPError(f"{url} answered {error.code}: {_message(error)}") from None
    except TimeoutError:
        raise OLPError(f"{url} did not answer within {timeout:g} s") from None
    except (OSError, ValueError, HTTPException):
        raise NotRunning(f"no OLP answers at {url}; is `olp serve` running?") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return error.reason
