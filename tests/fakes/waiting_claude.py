"""A claude that waits for its request on standard input, for tests of the pool.

Its prompt says what it does: `die` ends it, `hang` keeps it silent, `call` calls the client's tool
`f` twice and answers with the results, `steal` calls a tool of its own, anything else is answered
with the process's id and all the user has said in this conversation. `WAITING_BOOT` says how it
starts: `fail` exits at once, `hang` never gets ready.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

OFFERED: list[str] = []
"""What the client offers; the real one asks for it."""


def emit(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(said: list[str]) -> None:
    text = f"{os.getpid()}: " + " | ".join(said)
    start = {"type": "message_start", "message": {"model": "claude-sonnet-fake", "usage": {}}}
    delta = {"type": "text_delta", "text": text}
    emit(type="system", subtype="init", tools=OFFERED, mcp_servers=[])
    emit(type="stream_event", event=start)
    emit(type="stream_event", event={"type": "content_block_delta", "delta": delta})
    emit(type="result", subtype="success", is_error=False, num_turns=1, result=text, usage={})


def call() -> None:
    """Two calls at once, as the model makes them and as the CLI asks for their results."""
    emit(type="stream_event", event={"type": "message_start", "message": {"usage": {}}})
    for id in ("t1", "t2"):
        block = {"type": "tool_use", "id": id, "name": "mcp__client__f"}
        emit(type="stream_event", event={"type": "content_block_start", "content_block": block})
        emit(type="stream_event", event={"type": "content_block_stop"})
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}
    emit(type="stream_event", event=stop)
    for id in ("t1", "t2"):
        params = {"name": "f", "arguments": {}, "_meta": {"claudecode/toolUseId": id}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        request = {"subtype": "mcp_message", "server_name": "client", "message": message}
        emit(type="control_request", request_id=id, request=request)


def text_of(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(block.get("text") or text_of(block.get("content", "")) for block in content)


def main() -> None:
    boot = os.environ.get("WAITING_BOOT")
    if "--input-format" not in sys.argv:
        answer([sys.stdin.read()])
        return
    if boot == "fail":
        sys.exit(3)
    if boot == "hang":
        time.sleep(600)
    said: list[str] = []
    results: list[str] = []
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            emit(type="control_response", response=response)
            if message["request"].get("sdkMcpServers"):
                OFFERED.append("mcp__client__f")
        elif message["type"] == "control_response":
            told = message["response"]["response"]["mcp_response"]["result"]
            results.append(text_of(told["content"]))
            if len(results) == 2:
                answer([*said, *results])
        elif message["type"] == "user":
            said.append(text_of(message["message"]["content"]))
            if message.get("shouldQuery") is False:
                emit(type="result", subtype="success", is_error=False, num_turns=0, result="")
            elif "die" in said[-1]:
                os._exit(9)
            elif "hang" in said[-1]:
                time.sleep(600)
            elif "steal" in said[-1]:
                block = {"type": "tool_use", "id": "t1", "name": "Bash"}
                event = {"type": "content_block_start", "content_block": block}
                emit(type="stream_event", event=event)
            elif "call" in said[-1]:
                results = []
                call()
            else:
                answer(said)


if __name__ == "__main__":
    main()
