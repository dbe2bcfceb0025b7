"""Home Assistant: its OpenAI integration has a fixed URL, but a community one is configurable."""

from __future__ import annotations

from olp.connect.base import Client, Snippet, Target, values


def _snippets(target: Target) -> tuple[Snippet, ...]:
    server = values(Server_URL=target.base, API_Key=target.key)
    agent = values(Model=target.model)
    return (
        Snippet("Devices & services, Add integration, Local OpenAI LLM", "values", server),
        Snippet("then its Conversation Agent", "values", agent),
    )


CLIENT = Client(
    "home-assistant",
    "Home Assistant",
    _snippets,
    notes=(
        "Home Assistant's own OpenAI integration only speaks to OpenAI. Install "
        "`Local OpenAI LLM` (skye-harris/hass_local_openai_llm) from HACS first.",
    ),
)
