"""Removes secrets and host paths from error messages before they reach a client or a log.

The patterns use ASCII lookbehinds instead of `\\b`: a letter of any script is a word character, so
a key right after a Cyrillic or Chinese letter would not be at a word boundary.
"""

from __future__ import annotations

import re

LIMIT = 4000
"""Maximum characters. Longer text is cut first, so that a line of many MB is cheap."""

_VALUE = r"[A-Za-z0-9._~+/=%:!$*|-]{6,}"
_LABELS = (
    r"api[_-]?key|access[_-]?key|private[_-]?key|token|secret|passwd|password|passphrase"
    r"|authorization|credentials?|session[_-]?(?:id|key)|sessionid|csrf"
)
_SECRETS = re.compile(
    r"sk-(?:ant|proj|or|svcacct)-[A-Za-z0-9_-]{4,}"
    r"|(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{6,}|olp_[A-Za-z0-9_-]{8,}|eyJ[A-Za-z0-9_-]{8,}(?:\.[\w-]+)*"
    r"|gh[a-z]_[A-Za-z0-9]{12,}|xox[a-z]-[A-Za-z0-9-]{8,}|AKIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,}"
    r"|Bearer\s+[A-Za-z0-9._~+/=-]{6,})"
    r"|(?i:(?:set-)?cookie2?\s*:\s*(?:[^\s;=]+=[^\s;]*;?\s*)+)"
    rf"|(?i:(?:{_LABELS})(?![A-Za-z])[\"']?\s*[=:]\s*[\"']?(?:(?:basic|bearer|digest|token)\s+)?)"
    rf"{_VALUE}"
    # In a URL, the value of any parameter with such a name, however short.
    r"|(?i:[?&;][\w.-]*(?:key|token|secret|pass|pwd|auth|sig|signature|sid|session|code)[\w.-]*="
    r"[^\s&;\"'#]+)"
    r"|(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{40,}"
    r"|(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{32,}"
)
_LOGIN = re.compile(
    r"(?<![A-Za-z0-9])(?:([a-z][a-z0-9+.-]{0,20}://)[^\s/\"'<>]+|[\w.+-]{1,64}:[^\s/@\"'<>]+)@"
)
_PATHS = re.compile(
    r"(?<![A-Za-z0-9_/.-])(?:~|/(?:[\w.@+-]+/)+)[\w.@+-]*(?:/[\w.@+-]+)*"
    r"|(?<![A-Za-z0-9_])file:/[^\s\"']*|(?<![A-Za-z0-9_])[A-Za-z]:[\\/](?!/)[^\s\"']+"
    r"|\\\\[\w.-]+\\[^\s\"']+"
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_CUT_WORD = re.compile(r"[A-Za-z0-9._~+/=%@:-]*\Z")


def scrub(text: str) -> str:
    """Return `text` on one line, with secrets and local paths replaced by `[secret]` and
    `[path]`; cut to `LIMIT` characters and U+2026."""
    if len(text) > LIMIT:
        # Drop the cut word: half a secret would not be recognised.
        text = _CUT_WORD.sub("", text[:LIMIT]) + "…"
    text = _CONTROLS.sub(" ", text)
    text = _LOGIN.sub(r"\1[secret]@", text)
    text = _SECRETS.sub("[secret]", text)
    return _PATHS.sub("[path]", text).strip()
