"""What the programs that people point at ``/v1/chat/completions`` send there.

Each ``Client`` builds the request bodies of one program: the first one, with its true shape and
size, and the one that follows when the tools it was asked to call have run. Facts about the
programs, not copies of them: every prompt is filler.
"""

from .agents import AIDER, CLINE, CONTINUE, CURSOR, CURSOR_FLAT, OPENCODE, ZED
from .chats import HOME_ASSISTANT, LANGCHAIN, OPEN_WEBUI, OPENAI_SDK
from .client import Client

CLIENTS: tuple[Client, ...] = (
    *(CLINE, CONTINUE, ZED, OPENCODE, AIDER, CURSOR),
    *(OPEN_WEBUI, LANGCHAIN, OPENAI_SDK, HOME_ASSISTANT),
)

ODD_CLIENTS: tuple[Client, ...] = (CURSOR_FLAT,)
"""Seen in the wild, and outside what the API allows."""

__all__ = ["CLIENTS", "ODD_CLIENTS", "Client"]
