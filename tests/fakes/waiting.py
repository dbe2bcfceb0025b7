"""A codex and a vibe that wait for their requests, for tests of the pool and of the slots.

They say what `codex app-server` and `vibe-app-server` were seen to say to a plain request, and
answer `PID: PROMPT`. The claude of this kind is `waiting_claude.py`. `waiting.py codex …` is one.
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
    """Put `codex`, `vibe` and `vibe-app-server` into `folder`, and give the folder back."""
    folder.mkdir(parents=True, exist_ok=True)
    here = str(Path(__file__).resolve().parent)
    for name in ("codex", "vibe", "vibe-app-server"):
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


def vibe() -> None:
    """Channels of one session each, as `vibe-app-server --multiplex` has them."""
    for frame in asked():
        channel, message = frame["channelId"], frame.get("message") or {}
        number, params = message.get("id"), message.get("params") or {}
        session = f"s{channel}"

        def tell(channel: str = channel, **told: Any) -> None:
            emit(channelId=channel, message={"jsonrpc": "2.0", **told})

        match message.get("method"):
            case "session/start":
                tell(id=number, result={"state": {"session": {"id": session}}})
            case "turn/start":
                tell(id=number, result={})
                text = f"{os.getpid()}: {params['message'][0]['text']}"
                content = [{"type": "text", "text": text}]
                entry = {"id": "a1", "type": "message", "role": "assistant", "content": content}
                tell(method="history/entryAdded", params={"sessionId": session, "entry": entry})
                turn = {"id": "t1", "status": "completed", "stopReason": "end_turn"}
                tell(method="turn/completed", params={"sessionId": session, "turn": turn})
            case _ if number is not None:
                tell(id=number, result={})


def main(name: str) -> None:
    {"codex": codex, "vibe-app-server": vibe}.get(name, lambda: None)()
