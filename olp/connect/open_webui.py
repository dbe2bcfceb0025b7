"""Open WebUI: two environment variables."""

from __future__ import annotations

from olp.connect.base import Client, Snippet, Target


def _snippets(target: Target) -> tuple[Snippet, ...]:
    text = f"OPENAI_API_BASE_URL={target.base}\nOPENAI_API_KEY={target.key}\n"
    return (Snippet("its environment: docker run --env-file, or a compose file", "env", text),)


CLIENT = Client(
    "open-webui",
    "Open WebUI",
    _snippets,
    notes=(
        "The variables count at its first start. Later: Admin Settings, Connections, OpenAI.",
        "In a container, 127.0.0.1 is the container. Use host.docker.internal or the address of "
        "this machine in your network.",
        "It asks for titles, tags and follow-ups on its own: `background` in [routing] sends "
        "these to a cheaper chain.",
    ),
)
