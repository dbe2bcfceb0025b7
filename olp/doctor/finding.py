"""What the doctor is given, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from olp.providers.base import Provider, ProviderContext


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    `name` is stable and made for programs (`claude.login`). `ok` is None for what is neither good
    nor bad. `what` says what was found, `fix` is what to do about it, an exact command if one
    does it; it is empty where nothing needs to be done.
    """

    name: str
    ok: bool | None
    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """One CLI to be examined.

    `installed` says whether its program was found, `enabled` whether the server would use it,
    `needed` whether the owner counts on it: by switching it on, or by a chain.
    """

    provider: Provider
    context: ProviderContext
    installed: bool
    enabled: bool
    needed: bool

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.info.name


Say = Callable[[str], None]
"""Told what is being looked at, for a person who waits."""
