"""Coding agents: long prompts, many tools, and habits of their own in how they write turns back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import tables
from .client import (
    Client,
    Message,
    calls_of,
    compact,
    image_parts,
    plain_result,
    rewritten,
    saying,
    text_parts,
    verbatim,
)
from .filler import manual
from .schemas import by_hand, function, functions, parse, schemars, zod

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
_TREE = "\n".join(f"src/part_{n}/module_{n}.py" for n in range(60))
_ENVIRONMENT = (
    "<environment_details>\n# Visual Studio Code Visible Files\nsrc/main.py\n\n# Current Time\n"
    "11/30/2026, 9:00:00 AM (Europe/Berlin, UTC+1:00)\n\n# Current Mode\nACT MODE\n"
    "</environment_details>"
)


def _system(size: int, name: str) -> Message:
    return {"role": "system", "content": manual(size, name)}


def _cline_user(text: str, images: Sequence[str]) -> Message:
    task = text_parts(f"<task>\n{text}\n</task>")
    return {"role": "user", "content": [*task, *image_parts(images), *text_parts(_ENVIRONMENT)]}


def _cline_said(message: Mapping[str, Any]) -> list[Message]:
    """Nothing said means no ``content`` at all, neither null nor empty."""
    spoken = {"content": message["content"]} if message.get("content") else {}
    calls = rewritten(message, compact)
    return [{"role": "assistant", **spoken} | ({"tool_calls": calls} if calls else {})]


CLINE = Client(
    name="cline",
    parameters={**STREAMED, "temperature": 0, "tool_choice": "auto", "parallel_tool_calls": False},
    before=(_system(46_000, "cline"),),
    user=_cline_user,
    said=_cline_said,
    after=({"role": "user", "content": text_parts(_ENVIRONMENT)},),
    tools=functions(tables.CLINE + tables.MCP.lstrip(), by_hand),
    tool="read_file",
    arguments={"path": "src/main.py"},
)


def _continue_user(text: str, images: Sequence[str]) -> Message:
    """Parts are made one string unless an image is among them."""
    if not images:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [*text_parts(text), *image_parts(images, detail="auto")]}


CONTINUE = Client(
    name="continue",
    parameters={**STREAMED, "max_tokens": 4096, "parallel_tool_calls": False},
    before=(_system(21_000, "continue"),),
    user=_continue_user,
    said=saying(" ", verbatim),  # some servers take no empty content
    tools=functions(tables.CONTINUE, by_hand),
    tool="read_file",
    arguments={"filepath": "src/main.py"},
)


def _zed_user(text: str, images: Sequence[str]) -> Message:
    context = "<context>\n<files>\n```src/main.py\nprint('hello')\n```\n</files>\n</context>\n"
    return {"role": "user", "content": [*text_parts(context, text), *image_parts(images)]}


ZED = Client(
    name="zed",
    parameters={
        **STREAMED,
        "max_completion_tokens": 16_384,
        "temperature": 1.0,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "prompt_cache_key": "5f0c9a52-6d6b-4f0a-9d5b-0a8a4f0e7a11",
    },
    before=(_system(24_000, "zed"),),
    user=_zed_user,
    said=saying(None, compact),
    tools=functions(tables.ZED, schemars),
    tool="read_file",
    arguments={"path": "demo/src/main.py", "start_line": 1, "end_line": None},
)

OPENCODE = Client(
    name="opencode",
    parameters={**STREAMED, "max_tokens": 32_000, "temperature": 0, "top_p": 1}
    | {"tool_choice": "auto"},
    before=(_system(18_000, "opencode"), _system(9_000, "opencode environment")),
    said=saying("", compact),
    tools=functions(tables.OPENCODE + tables.MCP.lstrip(), zod),
    tool="read",
    arguments={"filePath": "/srv/demo/main.py", "limit": 2000},
)


def _aider_user(text: str, images: Sequence[str]) -> Message:
    """The rules once more behind the user's words."""
    words = f"{text}\n\n{manual(2_000, 'aider reminder')}"
    content = [*text_parts(words), *image_parts(images)] if images else words
    return {"role": "user", "content": content}


AIDER = Client(
    name="aider",
    parameters={"stream": True, "temperature": 0},
    before=(
        _system(20_000, "aider"),
        {"role": "user", "content": "Change get_factorial() to use math.factorial"},
        {
            "role": "assistant",
            "content": "mathweb/app.py\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE",
        },
        {"role": "user", "content": f"Here are summaries of some files:\n\n{_TREE}\n" * 6},
        {"role": "assistant", "content": "Ok, I won't try and edit those files without asking."},
    ),
    user=_aider_user,
    said=saying("", verbatim),
)


def _cursor_user(text: str, images: Sequence[str]) -> Message:
    layout = f"<project_layout>\n{_TREE}\n</project_layout>"
    query = f"<user_query>\n{text}\n</user_query>"
    return {"role": "user", "content": [*text_parts(layout, query), *image_parts(images)]}


def _cursor_given(call: Mapping[str, Any], result: str) -> Message:
    return plain_result(call, result) | {"content": text_parts(result)}


CURSOR = Client(
    name="cursor",
    parameters={
        **STREAMED,
        "temperature": 1,
        "user": "auth0|user_01JABCDEF",
        "tool_choice": "auto",
    },
    before=(_system(54_000, "cursor"),),
    user=_cursor_user,
    said=saying("", verbatim),
    given=_cursor_given,
    tools=functions(tables.CURSOR + tables.MCP.lstrip(), by_hand),
    tool="read_file",
    arguments={"target_file": "src/main.py"},
)


def _flat_user(text: str, images: Sequence[str]) -> Message:
    shown = [{"type": "input_image", "image_url": url} for url in images]
    return {"role": "user", "content": [{"type": "input_text", "text": text}, *shown]}


def _flat_said(message: Mapping[str, Any]) -> list[Message]:
    text = message.get("content")
    spoken = {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in calls_of(message)
    ]
    return [*([spoken] if text else []), *calls]


def _flat_given(call: Mapping[str, Any], result: str) -> Message:
    return {"type": "function_call_output", "call_id": call["id"], "output": result}


_PATCH = {"type": "custom", "name": "ApplyPatch", "description": "Applies a patch in V4A form."}
_FLAT = tuple({"type": "function", **function(t, by_hand)} for t in parse(tables.CURSOR))

CURSOR_FLAT = Client(
    name="cursor-flat",
    parameters={
        **STREAMED,
        "user": "auth0|user_01JABCDEF",
        "store": False,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "metadata": {"cursorConversationId": json.dumps(0)},
    },
    before=(_system(40_000, "cursor"),),
    user=_flat_user,
    said=_flat_said,
    given=_flat_given,
    tools=(*_FLAT, _PATCH),
    tool="read_file",
    arguments={"target_file": "src/main.py"},
    place="input",
)
"""A body of the Responses API at the address of chat completions, as Cursor sends for newer models
of OpenAI's."""
