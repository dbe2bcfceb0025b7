"""The doctor's inputs and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from olp.providers.base import Provider, ProviderContext


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    `name` is a stable identifier (`claude.login`). `ok` is None if it is neither good nor bad.
    `what` describes the result, `fix` is what to do, as an exact command where possible; empty if
    nothing needs to be done.
    """

    name: str
    ok: bool | None
    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """One CLI to be checked.

    `installed`: its program was found. `enabled`: the server would use it. `needed`: the owner
    relies on it, by enabling it or by a chain.
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
"""Called with progress messages."""
