"""Classification of error texts, and parsing of the HTTP status they contain.

Structured signals are used first; this is for what a CLI only reports as text. Each provider has
its own table of patterns, in order of precedence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from http import HTTPStatus

from olp.events import ErrorCode
from olp.providers.shared.resets import LOOKED_AT as LOOKED_AT
from olp.providers.shared.resets import reset_time as reset_time

Patterns = Sequence[tuple[str, ErrorCode]]


def classify(text: str, patterns: Patterns) -> ErrorCode | None:
    """The code of the first pattern that matches `text`, ignoring case and kind of apostrophe."""
    plain = (
        text[:LOOKED_AT]
        .replace("\u2019", "'")
        .replace("\u2219", "\u00b7")
        .replace("\u2022", "\u00b7")
    )
    for pattern, error_code in patterns:
        if re.search(pattern, plain, re.IGNORECASE):
            return error_code
    return None


_TRANSPORT = re.compile(
    r"\b(?:Read|Write|Connect|Close|Pool|Protocol|RemoteProtocol|LocalProtocol|Network|Transport"
    r"|Proxy|SSL|Connection|ConnectionReset|BrokenPipe|Timeout|OS)(?:Error|Timeout)\b"
    r"|server disconnected without sending a response|the read operation timed out"
    r"|without having called read\(\)|network error|peer closed connection"
    r"|incomplete (?:chunked )?read|connection (?:reset|refused|aborted|closed|attempts failed)"
    r"|socket hang up|fetch failed|name or service not known|temporary failure in name resolution"
    r"|nodename nor servname|no route to host|network is unreachable|timed out|handshake"
    r"|\[SSL|certificate verify failed|errno -?\d+|\bE(?:CONN[A-Z]+|PIPE|TIMEDOUT|NOTFOUND"
    r"|HOSTUNREACH|NETUNREACH|AI_AGAIN)\b|malformed json|json parse error|unexpected eof",
    re.IGNORECASE,
)

_BLOCKED = re.compile(
    r"<!doctype html|<html\b|<title>|just a moment\.\.\.|attention required|cf-ray|cloudflare"
    r"|unsupported[_ ]country|country,? region,? or territory"
    r"|not available in your (?:country|region)",
    re.IGNORECASE,
)


def is_transport_fault(text: str) -> bool:
    """Whether `text` is an error of an HTTP, TLS or socket library, or of the system, because the
    vendor cannot be reached or its bytes cannot be read (SPAWN_FAILED).
    """
    return _TRANSPORT.search(text[:LOOKED_AT]) is not None


def is_blocked(text: str) -> bool:
    """Whether `text` is an HTML page of a proxy in front of the vendor, or a block by country or
    network. With a 403 the vendor counts as unreachable (SPAWN_FAILED), not the login as
    missing.
    """
    return _BLOCKED.search(text[:LOOKED_AT]) is not None


_REASONS = "|".join(
    sorted({status.phrase for status in HTTPStatus if status >= 400}, key=len, reverse=True)
)
_NUMBER = r"(?P<{0}>[45]\d\d)(?![.,]?\d)(?!\s*(?:%|ms|s|sec|[kmg]?b|bytes|tokens|words|char)\b)"
_STATUS = re.compile(
    r"\b(?:http(?:/\d(?:\.\d)?)?(?: error| status)?(?: code)?|status(?:[ _]?code)?|api error"
    r"|(?:server|client|upstream) error|error[ _]?code)\b[\s:=(\[\"']{0,4}"
    + _NUMBER.format("named")
    + r"|[\"']code[\"']\s*:\s*"
    + _NUMBER.format("coded")
    + r"|\berror:? "
    + _NUMBER.format("plain")
    + r"(?=\s*(?:[:;.,)\]\u00b7]|$))"
    r"|(?<![\w./-])" + _NUMBER.format("explained") + rf"[\s:,-]+(?:{_REASONS}|overloaded|timeout)\b"
    r"|\(" + _NUMBER.format("enclosed") + r"\)",
    re.IGNORECASE,
)


def http_status(text: str) -> int | None:
    """The HTTP status in an error text, in any of the usual forms: `status 503`, `HTTP 429`, `API
    Error: 529`, `429 Too Many Requests`, `(403)`.
    """
    found = _STATUS.search(text[:LOOKED_AT])
    return int(next(filter(None, found.groups()))) if found else None


def plain(text: str) -> str:
    """The sentence inside an error text that quotes the vendor's JSON body; otherwise the text."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        body = json.loads(text[start:])
    except (ValueError, RecursionError):
        return text
    inner = body.get("error") if isinstance(body.get("error"), dict) else body
    message = inner.get("message") or inner.get("detail")
    return message if isinstance(message, str) and message else text


def by_status(status: int | None) -> ErrorCode | None:
    """The meaning of an upstream HTTP status where nothing more specific is known."""
    match status:
        case 401 | 403:
            return ErrorCode.AUTH_MISSING
        case 402:
            return ErrorCode.QUOTA_EXHAUSTED
        case 404:
            return ErrorCode.MODEL_NOT_FOUND
        case 413:
            return ErrorCode.CONTEXT_TOO_LONG
        case 400 | 422:
            return ErrorCode.BAD_REQUEST
        case 429:
            return ErrorCode.RATE_LIMITED
        case int() if status >= 500:
            return ErrorCode.OVERLOADED
        case _:
            return None
