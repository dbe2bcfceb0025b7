"""A codex and a vibe that wait for their requests, for tests of the pool and of the slots.

They say what `codex app-server` and `vibe-acp` were seen to say to a plain request, and answer
`PID: PROMPT`. The claude of this kind is `waiting_claude.py`. `python waiting.py codex …` is one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python} -SE
import sys
sys.path.insert(0, {folder!r})
import waiting
waiting.main({name!r})
"""


def install(folder: Path) -> Path:
    """Put `codex`, `vibe` and `vibe-acp` into `folder`, and give the folder back."""
    folder.mkdir(parents=True, exist_ok=True)
    here = str(Path(__file__).resolve().parent)
    for name in ("codex", "vibe", "vibe-acp"):
        program = folder / name
        program.write_text(_PROGRAM.format(python=sys.executable, folder=here, name=name))
        program.chmod(0o755)
    return folder


def emit(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def asked() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def codex() -> None:
    if "debug" in sys.argv:
        emit(models=[{"slug": "gpt-5.5", "visibility": "list"}])
        return
    threads = 0
    for message in asked():
        number, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "thread/start":
                threads += 1
                emit(id=number, result={"thread": {"id": f"t{threads}"}})
            case "turn/start":
                thread = params["threadId"]
                emit(id=number, result={"turn": {"id": "u1"}})
                item = {"type": "agentMessage", "id": "m1"}
                emit(method="item/started", params={"threadId": thread, "item": item})
                text = f"{os.getpid()}: {params['input'][0]['text']}"
                told = {"threadId": thread, "itemId": "m1", "delta": text}
                emit(method="item/agentMessage/delta", params=told)
                turn = {"id": "u1", "status": "completed", "error": None}
                emit(method="turn/completed", params={"threadId": thread, "turn": turn})
            case "account/rateLimits/read":
                emit(id=number, result={"rateLimits": {}})
            case _ if number is not None:
                emit(id=number, result={})


def vibe_acp() -> None:
    sessions = 0
    for message in asked():
        number, params = message.get("id"), message.get("params") or {}
        result: dict[str, Any] = {}
        if message.get("method") == "session/new":
            sessions += 1
            result = {"sessionId": f"s{sessions}"}
        if message.get("method") == "session/prompt":
            text = f"{os.getpid()}: {params['prompt'][0]['text']}"
            content = {"type": "text", "text": text}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            told = {"sessionId": params["sessionId"], "update": update}
            emit(jsonrpc="2.0", method="session/update", params=told)
            result = {"stopReason": "end_turn"}
        if number is not None:
            emit(jsonrpc="2.0", id=number, result=result)


def main(name: str) -> None:
    {"codex": codex, "vibe-acp": vibe_acp}.get(name, lambda: None)()
