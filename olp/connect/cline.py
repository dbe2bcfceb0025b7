"""Cline keeps its settings inside the editor, so they are typed in."""

from __future__ import annotations

from olp.connect.base import Client, Snippet, Target, values


def _snippets(target: Target) -> tuple[Snippet, ...]:
    fields = values(
        API_Provider="OpenAI Compatible",
        Base_URL=target.base,
        API_Key=target.key,
        Model_ID=target.model,
    )
    return (Snippet("the gear of the Cline panel, API Configuration", "values", fields),)


CLIENT = Client(
    "cline",
    "Cline",
    _snippets,
)
