"""Takes out of an error message what must not reach a client or a log: secrets and host paths."""

from __future__ import annotations

import re

_SECRETS = re.compile(
    r"(?:\bsk-[A-Za-z0-9_-]{6,}|\bolp_[A-Za-z0-9_-]{8,}|\bBearer\s+[A-Za-z0-9._~+/=-]{6,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*"
    r"|(?i:(?<![A-Za-z0-9])(?:api[_-]?key|token|secret|password|authorization)\b[\"']?\s*[=:]\s*[\"']?)"
    r"[A-Za-z0-9._~+/=-]{6,}|\b[A-Za-z0-9_-]{40,}\b)"
)
_PATHS = re.compile(
    r"(?<![\w/.-])(?:~|/(?:[\w.@+-]+/)+)[\w.@+-]*(?:/[\w.@+-]+)*"
    r"|\bfile:/[^\s\"']*|\b[A-Za-z]:[\\/](?!/)[^\s\"']+|\\\\[\w.-]+\\[^\s\"']+"
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def scrub(text: str) -> str:
    """`text` on one line, with secrets and paths of this machine replaced by `[…]` marks."""
    text = _CONTROLS.sub(" ", text)
    text = _SECRETS.sub("[secret]", text)
    return _PATHS.sub("[path]", text).strip()
