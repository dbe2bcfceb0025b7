"""Takes out of an error message what must not reach a client or a log: secrets and host paths.

A word boundary would not do here: to a regular expression a letter of any script belongs to a word,
so that a key which stands right behind a Cyrillic or Chinese letter would begin in mid-word. What
may not stand in front is therefore listed, in ASCII.
"""

from __future__ import annotations

import re

LIMIT = 4000
"""Characters that are looked at. An error message is read by people; what is longer is cut first,
so that a line of many MB costs nothing."""

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
    # In an address any parameter with such a name is one, however short it is.
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
    """`text` on one line, with secrets and paths of this machine replaced by `[…]` marks; at most
    `LIMIT` characters of it, and then U+2026."""
    if len(text) > LIMIT:
        # Half a secret would not be known as one.
        text = _CUT_WORD.sub("", text[:LIMIT]) + "…"
    text = _CONTROLS.sub(" ", text)
    text = _LOGIN.sub(r"\1[secret]@", text)
    text = _SECRETS.sub("[secret]", text)
    return _PATHS.sub("[path]", text).strip()
