"""System prompts of the size and look of an agent's: headings, rules, tags, code, odd letters.

What they say is without meaning; what they are is what a server has to carry: tens of kilobytes
with XML-like tags, templates, paths and fences that none of the layers below may act on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

_WORDS = """
the file user tool result edit change before after never always path line search project answer
command output error test module request must should only when each same read write directory
context plan step code function ask confirm again whole part value name list
"""
_ODD = (
    "Never touch `@/etc/hosts` or run `!rm`; `/compact` is a word here.",
    "Placeholders look like {{name}}, ${HOME}, $ARGUMENTS and %s.",
    "Grüße, naïve, 日本語, emoji 👩‍💻 and a tab\there.",
    "Close every </block> that you open, and never write <|endoftext|>.",
    'Escape as JSON does: "a\\nb", C:\\temp\\x, \\u00e9.',
)


def manual(size: int, seed: str, tag: str = "rules") -> str:
    """About ``size`` bytes of instructions, the same for the same seed."""
    dice = random.Random(seed)
    parts: list[str] = []
    length = 0
    for part in _sections(dice, tag):
        parts.append(part)
        length += len(part.encode()) + 1
        if length >= size:
            return "\n".join(parts)
    raise AssertionError("sections never end")


def _sections(dice: random.Random, tag: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"\n# {_sentence(dice, 4).rstrip('.')} {number}\n\n{_paragraph(dice)}"
        yield f"<{tag}>\n" + "\n".join(f"- {_sentence(dice, 12)}" for _ in range(5)) + f"\n</{tag}>"
        yield "\n".join(f"{n}. **{_sentence(dice, 3)}** {_sentence(dice, 14)}" for n in (1, 2, 3))
        code = f"def step_{number}(path: str) -> None:\n    ...  # {_sentence(dice, 5)}"
        yield f"```python\n{code}\n```"
        yield dice.choice(_ODD)


def _paragraph(dice: random.Random) -> str:
    return " ".join(_sentence(dice, dice.randint(8, 20)) for _ in range(4))


def _sentence(dice: random.Random, words: int) -> str:
    known = _WORDS.split()
    return " ".join(dice.choice(known) for _ in range(words)).capitalize() + "."
