"""Cursor is not supported: its servers would have to reach OLP."""

from __future__ import annotations

from olp.connect.base import Client, Snippet, Target

_WHY = (
    "Cursor sends every chat through its own servers, even with your own key and base URL. They "
    "cannot reach an address in your network: it would need a public HTTPS address, and OLP "
    "is not designed to be exposed to the internet."
)


def _snippets(target: Target) -> tuple[Snippet, ...]:
    return ()


CLIENT = Client(
    "cursor",
    "Cursor",
    _snippets,
    notes=(
        "The extensions Cline and Continue work inside Cursor and send requests from your machine: "
        "`olp connect cline`, `olp connect continue`.",
    ),
    cannot=_WHY,
)
